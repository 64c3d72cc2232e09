{{/* The NATS that a release installs, and the credentials of the release's own pods for it. */}}

{{- define "distributary.natsName" -}}
{{- printf "%s-nats" (include "distributary.fullname" .) -}}
{{- end -}}

{{- define "distributary.natsSelectorLabels" -}}
app.kubernetes.io/name: nats
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "distributary.natsLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "distributary.natsSelectorLabels" . }}
app.kubernetes.io/part-of: {{ include "distributary.name" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "distributary.natsAuthSecretName" -}}
{{- default (printf "%s-auth" (include "distributary.natsName" .)) .Values.nats.auth.secretName -}}
{{- end -}}

{{- define "distributary.natsTlsSecretName" -}}
{{- default (printf "%s-tls" (include "distributary.natsName" .)) .Values.nats.tls.secretName -}}
{{- end -}}

{{- define "distributary.natsServers" -}}
{{- $name := include "distributary.natsName" . -}}
{{- $scheme := ternary "tls" "nats" .Values.nats.tls.enabled -}}
{{- $servers := list -}}
{{- range $i := until (int .Values.nats.replicas) -}}
{{- $servers = append $servers (printf "%s://%s-%d.%s.%s.svc:4222" $scheme $name $i $name $.Release.Namespace) -}}
{{- end -}}
{{- join "," $servers -}}
{{- end -}}

{{/* A tenth of the disk stays free; half of the rest is for streams. NATS reserves the maximum size of each. */}}
{{- define "distributary.natsStreamBytes" -}}
{{- $mebibytes := div (mul (int (trimSuffix "Gi" .Values.nats.storage)) 1024 9) (mul 20 (int .Values.nats.resourceCount)) -}}
{{- if lt (int $mebibytes) 1 -}}
{{- fail (printf "nats.storage %s is too little for %d resources" .Values.nats.storage (int .Values.nats.resourceCount)) -}}
{{- end -}}
{{- printf "%dMiB" (int $mebibytes) -}}
{{- end -}}

{{/* The credentials of the server's pods for NATS: those that the release created, else those of natsClient. */}}
{{- define "distributary.natsClient" -}}
{{- $client := dict "username" .Values.natsClient.username "passwordSecretName" .Values.natsClient.passwordSecretName "passwordKey" .Values.natsClient.passwordKey "caSecretName" .Values.natsClient.caSecretName "certSecretName" .Values.natsClient.certSecretName "signingKeySecretName" .Values.natsClient.signingKeySecretName -}}
{{- if .Values.nats.enabled -}}
{{- $isEdge := eq (default "auto" .Values.config.natsRole) "edge" -}}
{{- $_ := set $client "username" (ternary "edge" "distributary" $isEdge) -}}
{{- $_ := set $client "passwordSecretName" (include "distributary.natsAuthSecretName" .) -}}
{{- $_ := set $client "passwordKey" (ternary "edge-password" "password" $isEdge) -}}
{{- if .Values.nats.tls.enabled -}}
{{- $_ := set $client "caSecretName" (include "distributary.natsTlsSecretName" .) -}}
{{- end -}}
{{- end -}}
{{- toYaml $client -}}
{{- end -}}

{{/* A volume with only the keys of those Secrets that the server needs; NATS's own key is not in it. */}}
{{- define "distributary.natsVolumeSources" -}}
{{- $client := fromYaml (include "distributary.natsClient" .) -}}
{{- with $client.passwordSecretName -}}
- secret:
    name: {{ . }}
    items:
      - key: {{ $client.passwordKey }}
        path: password
{{ end -}}
{{- with $client.caSecretName -}}
- secret:
    name: {{ . }}
    items:
      - key: ca.crt
        path: ca.crt
{{ end -}}
{{- with $client.certSecretName -}}
- secret:
    name: {{ . }}
    items:
      - key: tls.crt
        path: tls.crt
      - key: tls.key
        path: tls.key
{{ end -}}
{{- with $client.signingKeySecretName -}}
- secret:
    name: {{ . }}
    items:
      - key: signing-key
        path: signing-key
{{ end -}}
{{- end -}}

{{/* Passwords come from the environment, names and routes from the command line. */}}
{{- define "distributary.natsConfig" -}}
{{- $gibibytes := int (trimSuffix "Gi" .Values.nats.storage) -}}
listen: "0.0.0.0:4222"
http: "0.0.0.0:8222"
pid_file: "/run/nats/nats.pid"
# Clients are sent to the other servers one after another, then it ends.
lame_duck_grace_period: "5s"
lame_duck_duration: "30s"
jetstream {
  store_dir: "/data"
  max_memory_store: 268435456
  # Nine tenths of the disk.
  max_file_store: {{ mul $gibibytes 966367641 }}
}
authorization {
  users: [
    { user: "distributary", password: $NATS_PASSWORD }
    # Reads streams and snapshots and asks the publisher; what it says reaches nobody else.
    {
      user: "edge"
      password: $NATS_EDGE_PASSWORD
      permissions: {
        publish: {
          allow: [
            "distributary.*.*.ask"
            "$JS.API.INFO"
            "$JS.API.STREAM.INFO.*"
            "$JS.API.STREAM.NAMES"
            "$JS.API.STREAM.MSG.GET.*"
            "$JS.API.DIRECT.GET.>"
            "$JS.API.CONSUMER.CREATE.>"
            "$JS.API.CONSUMER.INFO.>"
            "$JS.API.CONSUMER.DELETE.>"
            "$JS.FC.>"
          ]
        }
        subscribe: { allow: ["_INBOX.>", "distributary.*.*.status"] }
      }
    }
  ]
}
{{- if .Values.nats.tls.enabled }}
tls {
  cert_file: "/etc/nats-tls/tls.crt"
  key_file: "/etc/nats-tls/tls.key"
  ca_file: "/etc/nats-tls/ca.crt"
}
{{- end }}
{{- if gt (int .Values.nats.replicas) 1 }}
cluster {
  name: {{ include "distributary.natsName" . | quote }}
  listen: "0.0.0.0:6222"
  authorization { user: "route", password: $NATS_ROUTE_PASSWORD, timeout: 5 }
  {{- if .Values.nats.tls.enabled }}
  # Servers show each other their certificates.
  tls {
    cert_file: "/etc/nats-tls/tls.crt"
    key_file: "/etc/nats-tls/tls.key"
    ca_file: "/etc/nats-tls/ca.crt"
    timeout: 5
  }
  {{- end }}
}
{{- end }}
{{- end -}}

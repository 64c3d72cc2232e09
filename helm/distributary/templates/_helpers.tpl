{{- define "distributary.name" -}}
{{- .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "distributary.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "distributary.selectorLabels" -}}
app.kubernetes.io/name: {{ include "distributary.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "distributary.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "distributary.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "distributary.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "distributary.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "distributary.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "distributary.tlsSecretName" -}}
{{- if .Values.tls.secretName -}}
{{- .Values.tls.secretName -}}
{{- else if .Values.tls.certManager.enabled -}}
{{- printf "%s-tls" (include "distributary.fullname" .) -}}
{{- else -}}
{{- fail "tls.enabled needs tls.secretName, or tls.certManager.enabled" -}}
{{- end -}}
{{- end -}}

{{/* What the chart sets by itself, overridden by .Values.config: the server's own configuration file. */}}
{{- define "distributary.config" -}}
{{- $config := dict "requireUpstream" true -}}
{{- if eq .Values.mode "sidecar" -}}
{{- $_ := set $config "etcdServers" (list "https://127.0.0.1:2379") -}}
{{- $_ := set $config "bindAddress" "127.0.0.1" -}}
{{- $_ := set $config "etcdCafile" (printf "/etc/distributary/etcd/%s" .Values.etcd.hostFiles.ca) -}}
{{- $_ := set $config "etcdCertfile" (printf "/etc/distributary/etcd/%s" .Values.etcd.hostFiles.cert) -}}
{{- $_ := set $config "etcdKeyfile" (printf "/etc/distributary/etcd/%s" .Values.etcd.hostFiles.key) -}}
{{- $_ := set $config "port" .Values.service.port -}}
{{- else -}}
{{- if not .Values.config.etcdServers -}}
{{- fail "config.etcdServers is needed: the endpoints of your etcd" -}}
{{- end -}}
{{- $_ := set $config "bindAddress" "0.0.0.0" -}}
{{- if .Values.etcd.tlsSecretName -}}
{{- $_ := set $config "etcdCafile" "/etc/distributary/etcd/ca.crt" -}}
{{- $_ := set $config "etcdCertfile" "/etc/distributary/etcd/tls.crt" -}}
{{- $_ := set $config "etcdKeyfile" "/etc/distributary/etcd/tls.key" -}}
{{- end -}}
{{- end -}}
{{- if .Values.tls.enabled -}}
{{- $_ := set $config "tlsCertFile" "/etc/distributary/tls/tls.crt" -}}
{{- $_ := set $config "tlsPrivateKeyFile" "/etc/distributary/tls/tls.key" -}}
{{- $_ := set $config "securePort" .Values.service.port -}}
{{- $_ := set $config "port" "off" -}}
{{- if .Values.tls.clientCaSecretName -}}
{{- $_ := set $config "clientCaFile" "/etc/distributary/client-ca/ca.crt" -}}
{{- end -}}
{{- else if ne .Values.mode "sidecar" -}}
{{- if not .Values.config.insecureBindAny -}}
{{- fail "Without TLS whoever reaches the port reads everything served: set tls.enabled with an authenticator (tls.clientCaSecretName, or config.oidcIssuerUrl and the like), or say config.insecureBindAny=true" -}}
{{- end -}}
{{- $_ := set $config "port" .Values.service.port -}}
{{- $fullname := include "distributary.fullname" . -}}
{{- $_ := set $config "allowedHosts" (list $fullname (printf "%s.%s" $fullname .Release.Namespace) ".svc" ".cluster.local") -}}
{{- end -}}
{{- if .Values.nats.enabled -}}
{{- $servers := list -}}
{{- range $i := until (int .Values.nats.replicas) -}}
{{- $servers = append $servers (printf "nats://%s-nats-%d.%s-nats:4222" (include "distributary.fullname" $) $i (include "distributary.fullname" $)) -}}
{{- end -}}
{{- $_ := set $config "natsServers" $servers -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config .Values.config) -}}
{{- end -}}

{{/* Probes of the server itself; on loopback the kubelet has to be told so. */}}
{{- define "distributary.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ if eq .root.Values.mode "sidecar" }}{{ .root.Values.service.port }}{{ else }}http{{ end }}
  {{- if eq .root.Values.mode "sidecar" }}
  host: 127.0.0.1
  {{- end }}
  {{- if .root.Values.tls.enabled }}
  scheme: HTTPS
  {{- end }}
{{- end -}}

{{- define "distributary.pod" -}}
metadata:
  labels:
    {{- include "distributary.selectorLabels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed configuration is a new pod: the server reads it once, when it starts.
    checksum/config: {{ include "distributary.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "distributary.serviceAccountName" . }}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- if eq .Values.mode "sidecar" }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  nodeSelector:
    {{- toYaml (default (dict "node-role.kubernetes.io/control-plane" "") .Values.nodeSelector) | nindent 4 }}
  tolerations:
    {{- toYaml (default (list (dict "key" "node-role.kubernetes.io/control-plane" "operator" "Exists")) .Values.tolerations) | nindent 4 }}
  securityContext:
    # kubeadm's keys are root's alone.
    runAsUser: 0
    seccompProfile:
      type: RuntimeDefault
  {{- else }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{- toYaml . | nindent 6 }}
      labelSelector:
        matchLabels:
          {{- include "distributary.selectorLabels" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: distributary
      image: {{ include "distributary.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - --config
        - /etc/distributary/config.yaml
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      env:
        - name: NODE_OPTIONS
          value: {{ printf "--max-old-space-size=%d" (int .Values.maxOldSpaceMiB) | quote }}
        {{- range .Values.secretEnv }}
        - name: {{ .name }}
          valueFrom:
            secretKeyRef:
              name: {{ .secretName }}
              key: {{ .key }}
        {{- end }}
      {{- if ne .Values.mode "sidecar" }}
      ports:
        - name: http
          containerPort: {{ .Values.service.port }}
      {{- end }}
      startupProbe:
        {{- include "distributary.probe" (dict "root" . "path" "/livez") | nindent 8 }}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        {{- include "distributary.probe" (dict "root" . "path" "/livez") | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        {{- include "distributary.probe" (dict "root" . "path" "/readyz") | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 3
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: config
          mountPath: /etc/distributary/config.yaml
          subPath: config.yaml
          readOnly: true
        {{- if or .Values.etcd.tlsSecretName (eq .Values.mode "sidecar") }}
        - name: etcd
          mountPath: /etc/distributary/etcd
          readOnly: true
        {{- end }}
        {{- if .Values.tls.enabled }}
        - name: tls
          mountPath: /etc/distributary/tls
          readOnly: true
        {{- if .Values.tls.clientCaSecretName }}
        - name: client-ca
          mountPath: /etc/distributary/client-ca
          readOnly: true
        {{- end }}
        {{- end }}
        {{- if .Values.filesSecretName }}
        - name: files
          mountPath: /etc/distributary/files
          readOnly: true
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "distributary.fullname" . }}
    {{- if eq .Values.mode "sidecar" }}
    - name: etcd
      hostPath:
        path: {{ .Values.etcd.hostPath }}
        type: Directory
    {{- else if .Values.etcd.tlsSecretName }}
    - name: etcd
      secret:
        secretName: {{ .Values.etcd.tlsSecretName }}
        defaultMode: 0440
    {{- end }}
    {{- if .Values.tls.enabled }}
    - name: tls
      secret:
        secretName: {{ include "distributary.tlsSecretName" . }}
        defaultMode: 0440
    {{- if .Values.tls.clientCaSecretName }}
    - name: client-ca
      secret:
        secretName: {{ .Values.tls.clientCaSecretName }}
        defaultMode: 0440
    {{- end }}
    {{- end }}
    {{- if .Values.filesSecretName }}
    - name: files
      secret:
        secretName: {{ .Values.filesSecretName }}
        defaultMode: 0440
    {{- end }}
{{- end -}}

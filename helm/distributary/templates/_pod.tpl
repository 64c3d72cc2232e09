{{/* A probe of the server. If it listens on loopback, the probe must say so to the kubelet. */}}
{{- define "distributary.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ if eq .root.Values.mode "sidecar" }}{{ .root.Values.containerPort }}{{ else }}http{{ end }}
  {{- if eq .root.Values.mode "sidecar" }}
  host: 127.0.0.1
  {{- end }}
  {{- if .root.Values.tls.enabled }}
  scheme: HTTPS
  {{- end }}
{{- end -}}

{{- define "distributary.pod" -}}
{{- $etcdKeys := include "distributary.etcdKeys" . -}}
{{- $natsSources := include "distributary.natsVolumeSources" . -}}
metadata:
  labels:
    {{- include "distributary.selectorLabels" . | nindent 4 }}
    {{- if or .Values.nats.enabled .Values.config.natsServers }}
    # The NetworkPolicy of a NATS that this chart brings lets in pods that carry it.
    distributary.io/nats-client: 'true'
    {{- end }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed configuration is a new pod: the file of a subPath mount never changes.
    checksum/config: {{ include "distributary.config" . | sha256sum }}
    kubectl.kubernetes.io/default-container: distributary
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "distributary.serviceAccountName" . }}
  automountServiceAccountToken: {{ or .Values.agents.enabled (eq (include "distributary.isInCluster" .) "true") .Values.serviceAccount.automountToken }}
  # Variables of a Service named distributary would look like options.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "distributary.terminationGracePeriodSeconds" . }}
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
  {{- end }}
  {{- with (ternary .Values.hostKeysPodSecurityContext .Values.podSecurityContext (eq $etcdKeys "host")) }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.initContainers }}
  initContainers:
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
        {{- if include "distributary.rebalances" . }}
        - name: DISTRIBUTARY_POD_UID
          valueFrom:
            fieldRef:
              fieldPath: metadata.uid
        {{- end }}
        {{- range .Values.secretEnv }}
        - name: {{ .name }}
          valueFrom:
            secretKeyRef:
              name: {{ .secretName }}
              key: {{ .key }}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or (ne .Values.mode "sidecar") .Values.metrics.port }}
      ports:
        {{- if ne .Values.mode "sidecar" }}
        - name: http
          containerPort: {{ .Values.containerPort }}
        {{- end }}
        {{- if .Values.metrics.port }}
        - name: metrics
          containerPort: {{ .Values.metrics.port }}
        {{- end }}
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
      {{- with .Values.containerSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: config
          mountPath: /etc/distributary/config.yaml
          subPath: config.yaml
          readOnly: true
        {{- if $etcdKeys }}
        - name: etcd
          mountPath: /etc/distributary/etcd
          readOnly: true
        {{- end }}
        {{- if $natsSources }}
        - name: nats
          mountPath: /etc/distributary/nats
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
        {{- if .Values.agents.enabled }}
        - name: agents
          mountPath: /etc/distributary/agents
          readOnly: true
        {{- end }}
        {{- if .Values.filesSecretName }}
        - name: files
          mountPath: /etc/distributary/files
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "distributary.fullname" . }}
    {{- if eq $etcdKeys "host" }}
    - name: etcd
      hostPath:
        path: {{ .Values.etcd.hostPath }}
        type: Directory
    {{- else if eq $etcdKeys "secret" }}
    - name: etcd
      secret:
        secretName: {{ .Values.etcd.tlsSecretName }}
        defaultMode: 0440
    {{- end }}
    {{- with $natsSources }}
    - name: nats
      projected:
        defaultMode: 0440
        sources:
          {{- . | nindent 10 }}
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
    {{- if .Values.agents.enabled }}
    - name: agents
      configMap:
        name: {{ include "distributary.fullname" . }}
        items:
          - key: reviewer.kubeconfig
            path: reviewer.kubeconfig
    {{- end }}
    {{- if .Values.filesSecretName }}
    - name: files
      secret:
        secretName: {{ .Values.filesSecretName }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "distributary.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* 52 characters, so that the longest name derived from it fits into a label. */}}
{{- define "distributary.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
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

{{/* "true" if clients connect from outside the cluster, where they have addresses but no labels. */}}
{{- define "distributary.isExternal" -}}
{{- if ne .Values.service.type "ClusterIP" -}}true{{- end -}}
{{- end -}}

{{/* "true" if the NetworkPolicy cannot tell clients apart. Agents are in any namespace, or on the node's network, and prove who they are.
     Clients that come through a node or a load balancer have their own address or its, but no labels. */}}
{{- define "distributary.admitsAll" -}}
{{- $service := .Values.service -}}
{{- $hasRanges := and $service.loadBalancerSourceRanges (eq $service.externalTrafficPolicy "Local") -}}
{{- if or .Values.agents.enabled (and (include "distributary.isExternal" .) (not $hasRanges)) -}}true{{- end -}}
{{- end -}}

{{/* Labels of the pod of `helm test`. Not those of the server's pods, or the Service and the disruption budget would include it. */}}
{{- define "distributary.testLabels" -}}
app.kubernetes.io/name: {{ printf "%s-test" (include "distributary.name" .) | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "distributary.tlsSecretName" -}}
{{- if .Values.tls.secretName -}}
{{- .Values.tls.secretName -}}
{{- else if or .Values.tls.certManager.enabled .Values.tls.generate -}}
{{- printf "%s-tls" (include "distributary.fullname" .) -}}
{{- else -}}
{{- fail "tls.enabled needs tls.secretName, tls.certManager.enabled or tls.generate" -}}
{{- end -}}
{{- end -}}


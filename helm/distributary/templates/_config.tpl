{{/* The server's configuration. Its source of objects decides which other options it needs. */}}

{{/* "true" unless another server or a fleet feeds it. */}}
{{- define "distributary.readsEtcd" -}}
{{- if not (or .Values.config.upstream (eq (default "auto" .Values.config.natsRole) "edge")) -}}true{{- end -}}
{{- end -}}

{{/* "true" if the pods read the API server of their cluster with their own token. */}}
{{- define "distributary.isInCluster" -}}
{{- if eq (default "" .Values.config.upstream) "in-cluster" -}}true{{- end -}}
{{- end -}}

{{- define "distributary.etcdServers" -}}
{{- if include "distributary.readsEtcd" . -}}
{{- if .Values.config.etcdServers -}}
{{- join "," .Values.config.etcdServers -}}
{{- else if eq .Values.mode "sidecar" -}}
https://127.0.0.1:2379
{{- else -}}
{{- fail "config.etcdServers is required: the endpoints of your etcd. Or set config.upstream to read from another server, or config.natsRole=edge to read from a fleet" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "secret", "host" or nothing: where the client keys for etcd are. They require HTTPS everywhere; HOST:PORT is plain HTTP, as for the server. */}}
{{- define "distributary.etcdKeys" -}}
{{- $servers := include "distributary.etcdServers" . -}}
{{- if regexMatch "^https:[^,]*(,https:[^,]*)*$" $servers -}}
{{- if .Values.etcd.tlsSecretName -}}secret
{{- else if eq .Values.mode "sidecar" -}}host
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" if an option authenticates clients. The chart does not see options in extraArgs and the environment. */}}
{{- define "distributary.hasAuthenticator" -}}
{{- $config := .Values.config -}}
{{- if or .Values.agents.enabled .Values.tls.clientCaSecretName $config.clientCaFile $config.tokenAuthFile $config.oidcIssuerUrl $config.serviceAccountIssuer $config.authenticationKubeconfig $config.requestheaderClientCaFile -}}true{{- end -}}
{{- end -}}

{{/* The names by which clients call the Service, as YAML. Those of an Ingress or a route may begin with "*.". */}}
{{- define "distributary.hostNames" -}}
{{- $name := include "distributary.fullname" . -}}
{{- $names := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- if .Values.ingress.enabled -}}
{{- range .Values.ingress.hosts -}}
{{- $names = append $names .host -}}
{{- end -}}
{{- end -}}
{{- if .Values.httpRoute.enabled -}}
{{- range .Values.httpRoute.hostnames -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- toYaml $names -}}
{{- end -}}

{{/* Whole seconds of a duration as the server takes it: 90s, 1h30m, 250ms, or a number of seconds. */}}
{{- define "distributary.seconds" -}}
{{- $text := toString . -}}
{{- if regexMatch "^[0-9]+$" $text -}}
{{- $text -}}
{{- else -}}
{{- $ms := 0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" $text -1 -}}
{{- if hasSuffix "ms" . -}}
{{- $ms = addf $ms (float64 (trimSuffix "ms" .)) -}}
{{- else if hasSuffix "s" . -}}
{{- $ms = addf $ms (mulf 1000 (float64 (trimSuffix "s" .))) -}}
{{- else if hasSuffix "m" . -}}
{{- $ms = addf $ms (mulf 60000 (float64 (trimSuffix "m" .))) -}}
{{- else -}}
{{- $ms = addf $ms (mulf 3600000 (float64 (trimSuffix "h" .))) -}}
{{- end -}}
{{- end -}}
{{- int (ceil (divf $ms 1000)) -}}
{{- end -}}
{{- end -}}

{{/* The time to drain, after the delay in which the server still serves. */}}
{{- define "distributary.terminationGracePeriodSeconds" -}}
{{- $delay := get (fromYaml (include "distributary.config" .)) "shutdownDelayDuration" -}}
{{- add .Values.terminationGracePeriodSeconds (int (include "distributary.seconds" (default 0 $delay))) -}}
{{- end -}}

{{/* "true" if replicas send connections to new ones. */}}
{{- define "distributary.rebalances" -}}
{{- if or .Values.rebalance.enabled .Values.config.rebalance -}}true{{- end -}}
{{- end -}}

{{/* Refuses values with which every pod would refuse to start, or which would have no effect. */}}
{{- define "distributary.check" -}}
{{- $config := .Values.config -}}
{{- $isEdge := eq (default "auto" $config.natsRole) "edge" -}}
{{- if and (eq .Values.mode "sidecar") (not (include "distributary.readsEtcd" .)) -}}
{{- fail "mode=sidecar reads the etcd beside it: with config.upstream or config.natsRole=edge, use mode=standalone" -}}
{{- end -}}
{{- if and $isEdge (not (or $config.natsServers .Values.nats.enabled)) -}}
{{- fail "config.natsRole=edge needs a fleet: set config.natsServers to its NATS servers" -}}
{{- end -}}
{{- if and $config.upstream (or .Values.nats.enabled $config.natsServers $config.etcdServers) -}}
{{- fail "config.upstream is the only source: remove config.etcdServers, config.natsServers and nats.enabled" -}}
{{- end -}}
{{- if and $config.natsServers .Values.nats.enabled -}}
{{- fail "nats.enabled installs NATS servers, and config.natsServers names others: set only one of them" -}}
{{- end -}}
{{- if and (eq .Values.mode "standalone") (not $config.insecureBindAny) -}}
{{- if not .Values.tls.enabled -}}
{{- fail "Without TLS anyone who can reach the port can read everything the server serves: set tls.enabled and an authenticator (such as tls.clientCaSecretName or config.oidcIssuerUrl), or config.insecureBindAny=true" -}}
{{- end -}}
{{- if not (or (include "distributary.hasAuthenticator" .) .Values.extraArgs .Values.extraEnv) -}}
{{- fail "Nothing authenticates clients: set tls.clientCaSecretName, config.tokenAuthFile, config.oidcIssuerUrl or config.authenticationKubeconfig, or config.insecureBindAny=true" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.agents.enabled (not .Values.tls.enabled) -}}
{{- fail "agents.enabled needs tls.enabled: agents send their tokens" -}}
{{- end -}}
{{- if and .Values.agents.enabled $config.upstream -}}
{{- if not $config.serviceAccountIssuer -}}
{{- fail "config.serviceAccountIssuer is required with agents.enabled and config.upstream: the server verifies agents' tokens itself, so that they can connect while the API server is down. The issuer of your cluster: kubectl get --raw /.well-known/openid-configuration" -}}
{{- end -}}
{{- if and $config.passthrough (ne $config.passthrough .Values.agents.apiServer) -}}
{{- fail "config.passthrough must be agents.apiServer with config.upstream: agents would write to another server than they read" -}}
{{- end -}}
{{- end -}}
{{- if and $config.upstream (has "RBAC" (default list $config.authorizationMode)) -}}
{{- fail "config.authorizationMode cannot contain RBAC with config.upstream, because roles are read from etcd: use [Webhook], which asks the API server" -}}
{{- end -}}
{{- if and (include "distributary.isInCluster" .) $config.kubeconfig -}}
{{- fail "config.upstream=in-cluster uses the pod's ServiceAccount: remove config.kubeconfig" -}}
{{- end -}}
{{- if and .Values.tls.generate (or .Values.tls.secretName .Values.tls.certManager.enabled) -}}
{{- fail "tls.generate, tls.secretName and tls.certManager each provide a certificate: set only one of them" -}}
{{- end -}}
{{- if and (not .Values.agents.enabled) (or (include "distributary.hasAuthenticator" .) $config.passthrough $config.apiservice) (not (or $config.authorizationMode .Values.extraArgs .Values.extraEnv .Values.secretEnv)) -}}
{{- fail "config.authorizationMode is required: [RBAC], [Webhook] or [Policy] decide who may read what; with [AlwaysAllow] every caller may read everything served" -}}
{{- end -}}
{{- if and $config.goawayChance (or (ne .Values.mode "standalone") (and (eq (int .Values.replicas) 1) (not .Values.autoscaling.enabled))) -}}
{{- fail "config.goawayChance needs several replicas behind the Service: clients of a single one would only reconnect for nothing" -}}
{{- end -}}
{{- if include "distributary.rebalances" . -}}
{{- if ne .Values.mode "standalone" -}}
{{- fail "rebalance needs the Service, which mode=sidecar does not have: clients of a DaemonSet stay on their node" -}}
{{- end -}}
{{- if or (eq .Values.service.internalTrafficPolicy "Local") (eq .Values.service.externalTrafficPolicy "Local") -}}
{{- fail "rebalance cannot be combined with the policy Local of service.internalTrafficPolicy or service.externalTrafficPolicy: clients would return to the pod of their node" -}}
{{- end -}}
{{- if and (eq (int .Values.replicas) 1) (not .Values.autoscaling.enabled) -}}
{{- fail "rebalance needs several replicas: set replicas or autoscaling.enabled" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (not .Values.metrics.port) -}}
{{- fail "podMonitor needs metrics.port, which it scrapes" -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled .Values.serviceMonitor.enabled (eq .Values.mode "standalone") -}}
{{- fail "podMonitor and serviceMonitor would both scrape every pod: enable only one of them" -}}
{{- end -}}
{{- if and .Values.metrics.port (eq (int .Values.metrics.port) (int .Values.containerPort)) -}}
{{- fail "metrics.port and containerPort are the same" -}}
{{- end -}}
{{- if and (or .Values.ingress.enabled .Values.httpRoute.enabled) (ne .Values.mode "standalone") -}}
{{- fail "ingress and httpRoute need the Service, which mode=sidecar does not have" -}}
{{- end -}}
{{- if and (or .Values.ingress.enabled .Values.httpRoute.enabled) .Values.networkPolicy.enabled (not .Values.networkPolicy.from) (not (include "distributary.isExternal" .)) -}}
{{- fail "networkPolicy.from must admit the pods of the ingress or gateway controller, which forward the requests" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts is required: the host names that clients use" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs is required: the gateways that clients use" -}}
{{- end -}}
{{- if and (eq .Values.mode "sidecar") .Values.nats.enabled .Values.nats.networkPolicy.enabled (not .Values.nats.networkPolicy.from) -}}
{{- fail "nats.networkPolicy.from must admit the addresses of the control plane: a NetworkPolicy cannot select pods on the node's network by labels" -}}
{{- end -}}
{{- end -}}

{{/* The options that the chart sets. Those in .Values.config take precedence, false and 0 included. */}}
{{- define "distributary.config" -}}
{{- include "distributary.check" . -}}
{{- $config := dict "requireUpstream" true -}}
{{- $_ := set $config "bindAddress" (ternary "127.0.0.1" "0.0.0.0" (eq .Values.mode "sidecar")) -}}
{{- with include "distributary.etcdServers" . -}}
{{- $_ := set $config "etcdServers" (splitList "," .) -}}
{{- end -}}
{{- if eq .Values.mode "standalone" -}}
{{- $_ := set $config "shutdownDelayDuration" "10s" -}}
{{- if not (include "distributary.hasAuthenticator" .) -}}
{{- /* The server refuses all other names. */ -}}
{{- $hosts := list -}}
{{- range fromYamlArray (include "distributary.hostNames" .) -}}
{{- $hosts = append $hosts (trimPrefix "*" .) -}}
{{- end -}}
{{- $_ := set $config "allowedHosts" $hosts -}}
{{- end -}}
{{- end -}}
{{- if .Values.metrics.port -}}
{{- $_ := set $config "metricsBindAddress" (printf "%s:%d" .Values.metrics.bindAddress (int .Values.metrics.port)) -}}
{{- end -}}
{{- if .Values.rebalance.enabled -}}
{{- $_ := set $config "rebalance" (printf "%s/%s" .Release.Namespace (include "distributary.fullname" .)) -}}
{{- end -}}
{{- $etcdKeys := include "distributary.etcdKeys" . -}}
{{- if eq $etcdKeys "host" -}}
{{- $_ := set $config "etcdCafile" (printf "/etc/distributary/etcd/%s" .Values.etcd.hostFiles.ca) -}}
{{- $_ := set $config "etcdCertfile" (printf "/etc/distributary/etcd/%s" .Values.etcd.hostFiles.cert) -}}
{{- $_ := set $config "etcdKeyfile" (printf "/etc/distributary/etcd/%s" .Values.etcd.hostFiles.key) -}}
{{- else if eq $etcdKeys "secret" -}}
{{- $_ := set $config "etcdCafile" "/etc/distributary/etcd/ca.crt" -}}
{{- $_ := set $config "etcdCertfile" "/etc/distributary/etcd/tls.crt" -}}
{{- $_ := set $config "etcdKeyfile" "/etc/distributary/etcd/tls.key" -}}
{{- end -}}
{{- if .Values.tls.enabled -}}
{{- $_ := set $config "tlsCertFile" "/etc/distributary/tls/tls.crt" -}}
{{- $_ := set $config "tlsPrivateKeyFile" "/etc/distributary/tls/tls.key" -}}
{{- $_ := set $config "securePort" .Values.containerPort -}}
{{- $_ := set $config "port" "off" -}}
{{- if .Values.tls.clientCaSecretName -}}
{{- $_ := set $config "clientCaFile" "/etc/distributary/client-ca/ca.crt" -}}
{{- end -}}
{{- else -}}
{{- $_ := set $config "port" .Values.containerPort -}}
{{- end -}}
{{- if .Values.nats.enabled -}}
{{- $_ := set $config "natsServers" (splitList "," (include "distributary.natsServers" .)) -}}
{{- $_ := set $config "natsReplicas" (min 3 (int .Values.nats.replicas)) -}}
{{- $_ := set $config "natsStreamBytes" (include "distributary.natsStreamBytes" .) -}}
{{- end -}}
{{- $nats := fromYaml (include "distributary.natsClient" .) -}}
{{- if $nats.passwordSecretName -}}
{{- $_ := set $config "natsUsername" $nats.username -}}
{{- $_ := set $config "natsPasswordFile" "/etc/distributary/nats/password" -}}
{{- end -}}
{{- if $nats.caSecretName -}}
{{- $_ := set $config "natsCafile" "/etc/distributary/nats/ca.crt" -}}
{{- end -}}
{{- if $nats.certSecretName -}}
{{- $_ := set $config "natsCertfile" "/etc/distributary/nats/tls.crt" -}}
{{- $_ := set $config "natsKeyfile" "/etc/distributary/nats/tls.key" -}}
{{- end -}}
{{- if $nats.signingKeySecretName -}}
{{- $_ := set $config "natsSigningKeyFile" "/etc/distributary/nats/signing-key" -}}
{{- end -}}
{{- if .Values.agents.enabled -}}
{{- $_ := set $config "authenticationKubeconfig" "/etc/distributary/agents/reviewer.kubeconfig" -}}
{{- if .Values.config.upstream -}}
{{- $_ := set $config "authorizationMode" (list "Webhook") -}}
{{- $_ := set $config "authorizationKubeconfig" "/etc/distributary/agents/reviewer.kubeconfig" -}}
{{- /* As long as kube-apiserver keeps a webhook's decisions. While the API server is down, they let agents connect again. */ -}}
{{- $_ := set $config "authorizationWebhookCacheAuthorizedTtl" "5m" -}}
{{- else -}}
{{- $_ := set $config "authorizationMode" (list "RBAC") -}}
{{- end -}}
{{- $_ := set $config "passthrough" .Values.agents.apiServer -}}
{{- $_ := set $config "passthroughCafile" "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt" -}}
{{- end -}}
{{- range $key, $value := .Values.config -}}
{{- $_ := set $config $key $value -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

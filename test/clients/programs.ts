/** Clients built from their Go modules. */
import { fileURLToPath } from 'node:url'
import type { GoProgram } from '../support/go-program.js'

const folder = fileURLToPath(new URL('../../../test/clients/go/', import.meta.url))

/** The programs whose dependencies need other versions than the module `go` has. */
const others = fileURLToPath(new URL('../../../test/clients/go-other-versions/', import.meta.url))

export const clientGo: GoProgram = { source: `${folder}client-go` }

// A release sets these, and `kubectl version` compares them with the server's.
const version = 'k8s.io/component-base/version'

export const newestKubectl: GoProgram = {
  source: `${folder}kubectl`,
  variables: {
    [`${version}.gitVersion`]: 'v1.37.2',
    [`${version}.gitMajor`]: '1',
    [`${version}.gitMinor`]: '37',
  },
}

export const operator: GoProgram = { source: `${folder}operator` }

export const coreDns: GoProgram = { source: `${folder}coredns` }

export const kubeStateMetrics: GoProgram = {
  source: `${folder}kube-state-metrics`,
  package: 'k8s.io/kube-state-metrics/v2',
}

export const prometheusDiscovery: GoProgram = { source: `${folder}prometheus` }

export const helm: GoProgram = { source: `${folder}helm`, package: 'helm.sh/helm/v4/cmd/helm' }

export const k9s: GoProgram = {
  source: `${others}k9s`,
  package: 'github.com/derailed/k9s',
  variables: { 'github.com/derailed/k9s/cmd.version': 'v0.50.16' },
}

export const kubeProxy: GoProgram = { source: `${others}kube-proxy`, package: 'k8s.io/kubernetes/cmd/kube-proxy' }

export const kubemark: GoProgram = { source: `${others}kubelet`, package: 'k8s.io/kubernetes/cmd/kubemark' }

export const descheduler: GoProgram = {
  source: `${others}descheduler`,
  package: 'sigs.k8s.io/descheduler/cmd/descheduler',
  variables: { 'sigs.k8s.io/descheduler/pkg/version.version': 'v0.36.0' },
}

export const istiod: GoProgram = {
  source: `${others}istiod`,
  package: 'istio.io/istio/pilot/cmd/pilot-discovery',
}

export const metricsServer: GoProgram = {
  source: `${others}metrics-server`,
  package: 'sigs.k8s.io/metrics-server/cmd/metrics-server',
  variables: { 'k8s.io/client-go/pkg/version.gitVersion': 'v0.9.0' },
}

export const openTelemetry: GoProgram = { source: `${others}opentelemetry` }

export const argoCd: GoProgram = { source: `${others}argocd` }

export const ciliumOperator: GoProgram = {
  source: `${others}cilium-operator`,
  package: 'github.com/cilium/cilium/operator',
}

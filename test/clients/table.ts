/** Third-party clients and how to run each. The runner uses this table, and docs/reference/tested-clients.md is generated from it. */

import type { GoProgram } from '../support/go-program.js'
import {
  argoCd,
  ciliumOperator,
  clientGo,
  coreDns,
  descheduler,
  helm,
  istiod,
  k9s,
  kubemark,
  kubeProxy,
  kubeStateMetrics,
  metricsServer,
  newestKubectl,
  openTelemetry,
  operator,
  prometheusDiscovery,
} from './programs.js'
import type { JavaClient } from './support/java.js'

export interface OutsideClient {
  readonly name: string
  readonly version: string
  /** A phrase for the table in docs/reference/tested-clients.md: how the test uses the client. */
  readonly does: string
  /** The path of its test. */
  readonly test: string
  /** `npm test` always runs it; the others only where its tools are available. */
  readonly runsIn: 'npm test' | 'npm run judge -- clients' | 'npm run judge -- onboarding'
  /** The program to build first. If it cannot be built, the run skips the client and says why. */
  readonly program?: GoProgram
  /** Whether the test needs Python 3 and the packages that it names. */
  readonly needsPython?: boolean
  /** The folder with the client's Java packages, which need Java 17 and Maven. */
  readonly needsJava?: JavaClient
  readonly needsRust?: boolean
  /** Whether the test compares with Kubernetes' own API server, which is built first. */
  readonly needsApiServer?: boolean
  /** A setting or limit that users of the client must know. */
  readonly note?: string
}

export const outsideClients: readonly OutsideClient[] = [
  {
    name: 'kubectl',
    version: 'as installed, 1.20 or newer',
    does: 'get in every format, describe, watch, wait, explain, create, apply, patch, edit, scale, label, drain, delete',
    test: 'test/clients/kubectl.test.ts',
    runsIn: 'npm test',
  },
  {
    name: '@kubernetes/client-node',
    version: '1.4',
    does: 'paged lists, custom objects, and its Informer and Watch across broken connections and an expired revision',
    test: 'test/clients/client-node.test.ts',
    runsIn: 'npm test',
    note: 'over plain HTTP, set `skipTLSVerify: true`',
  },
  {
    name: 'curl',
    version: 'as installed',
    does: 'a watch over HTTP/1.1 and HTTP/2',
    test: 'test/clients/curl.test.ts',
    runsIn: 'npm test',
  },
  {
    name: 'OpenFeature providers',
    version: '0.1 of the OFREP server provider, 0.4 of the web provider',
    does: 'feature flags of a declared prefix over OFREP; the web provider, in Chromium, follows the stream of changes',
    test: 'test/clients/ofrep.test.ts',
    runsIn: 'npm test',
  },
  {
    name: 'client-go',
    version: '0.37.2',
    does: 'typed, dynamic and metadata informers, with and without WatchList; eight writers of one object; leader election; the same behind two replicas',
    test: 'test/clients/outside/client-go.ts',
    runsIn: 'npm run judge -- clients',
    program: clientGo,
  },
  {
    name: 'client-go behind a growing fleet',
    version: '0.37.2',
    does: '600 informers: with `--rebalance` a third replica gets its share, and none lists again',
    test: 'test/clients/outside/client-go-rebalance.ts',
    runsIn: 'npm run judge -- clients',
    program: clientGo,
  },
  {
    name: 'kubectl 1.37',
    version: '0.37.2 of k8s.io/kubectl',
    does: 'the same as the installed kubectl',
    test: 'test/clients/outside/kubectl.ts',
    runsIn: 'npm run judge -- clients',
    program: newestKubectl,
  },
  {
    name: 'controller-runtime',
    version: '0.25.2',
    does: 'an operator that updates a status, applies server-side and has a finalizer, under RBAC and with two workers',
    test: 'test/clients/outside/operator.ts',
    runsIn: 'npm run judge -- clients',
    program: operator,
    note: 'under RBAC, allow `get` on everything under `/api` and `/apis`, as the API server’s role `system:discovery` does',
  },
  {
    name: 'kube-state-metrics',
    version: '2.20.0',
    does: 'metrics of nodes, pods, services, endpoint slices and ingresses',
    test: 'test/clients/outside/kube-state-metrics.ts',
    runsIn: 'npm run judge -- clients',
    program: kubeStateMetrics,
    note: 'set `--apiserver`',
  },
  {
    name: 'CoreDNS',
    version: '1.15.0',
    does: 'the kubernetes plugin: A, SRV and PTR records follow the services',
    test: 'test/clients/outside/coredns.ts',
    runsIn: 'npm run judge -- clients',
    program: coreDns,
    note: 'set the plugin’s `endpoint`',
  },
  {
    name: 'Prometheus',
    version: '0.316.0 of github.com/prometheus/prometheus',
    does: 'discovery of nodes, pods, services, endpoints, endpoint slices and ingresses',
    test: 'test/clients/outside/prometheus.ts',
    runsIn: 'npm run judge -- clients',
    program: prometheusDiscovery,
    note: 'set `api_server` in `kubernetes_sd_configs`; Debian’s Prometheus is built without this discovery',
  },
  {
    name: 'Helm',
    version: '4.3.1',
    does: 'install, upgrade, rollback and uninstall with `--wait`, across restarts',
    test: 'test/clients/outside/helm.ts',
    runsIn: 'npm run judge -- clients',
    program: helm,
    note: 'set `--kube-apiserver`; Helm stores releases in Secrets, so start the server with `--resource secrets`, or set `HELM_DRIVER=configmap`',
  },
  {
    name: 'Python kubernetes',
    version: '37.0.2',
    does: 'a resumed watch; a new list after a 410',
    test: 'test/clients/outside/python.ts',
    runsIn: 'npm run judge -- clients',
    needsPython: true,
  },
  {
    name: 'kubernetes_asyncio',
    version: '36.1.0',
    does: 'the same as Python kubernetes',
    test: 'test/clients/outside/python.ts',
    runsIn: 'npm run judge -- clients',
    needsPython: true,
  },
  {
    name: 'lightkube',
    version: '1.0.1',
    does: 'the same, without bookmarks',
    test: 'test/clients/outside/python.ts',
    runsIn: 'npm run judge -- clients',
    needsPython: true,
    note: 'give its kubeconfig a user, which may be empty',
  },
  {
    name: 'kr8s',
    version: '0.20.15',
    does: 'a resumed watch; paged lists, selectors, tables, discovery, waiting for a condition or a deletion',
    test: 'test/clients/outside/python.ts',
    runsIn: 'npm run judge -- clients',
    needsPython: true,
    note: 'after a 410 it keeps requesting the same resourceVersion, so your program must start a new watch',
  },
  {
    name: 'OpenFeature Python',
    version: '0.3 of its OFREP provider',
    does: 'feature flags of a declared prefix over OFREP',
    test: 'test/clients/outside/openfeature.ts',
    runsIn: 'npm run judge -- clients',
    needsPython: true,
  },
  {
    name: 'kopf',
    version: '1.45.2',
    does: 'an operator that updates a status and cleans up with its finalizer',
    test: 'test/clients/outside/kopf.ts',
    runsIn: 'npm run judge -- clients',
    needsPython: true,
  },
  {
    name: 'fabric8 kubernetes-client',
    version: '8.0.0',
    does: 'an informer that lists in pages and watches over WebSocket; a resumed watch; a new list after a 410',
    test: 'test/clients/outside/fabric8.ts',
    runsIn: 'npm run judge -- clients',
    needsJava: 'fabric8',
  },
  {
    name: 'client-java',
    version: '27.0.0',
    does: 'a SharedInformer and a generic watch, resumed; a new list after a 410',
    test: 'test/clients/outside/client-java.ts',
    runsIn: 'npm run judge -- clients',
    needsJava: 'client-java',
  },
  {
    name: 'kube',
    version: '5.0.0, for Rust',
    does: 'a reflector with a paged and with a streaming list; a resumed watch; a new list after a 410',
    test: 'test/clients/outside/rust.ts',
    runsIn: 'npm run judge -- clients',
    needsRust: true,
  },
  {
    name: 'Patroni',
    version: 'Debian’s, with Debian’s PostgreSQL',
    does: 'keeping its lock in a ConfigMap, and PostgreSQL as the primary; the same behind two replicas',
    test: 'test/clients/outside/patroni.ts',
    runsIn: 'npm run judge -- clients',
  },
  // These take the longest to build, and the time is shared: others are not skipped because of them.
  {
    name: 'k9s',
    version: '0.50.16',
    does: 'its screens in a terminal equal those at Kubernetes’ own API server, through changes, writes and restarts',
    test: 'test/clients/outside/k9s.ts',
    runsIn: 'npm run judge -- clients',
    program: k9s,
    needsApiServer: true,
    note: 'in a pod, give it a kubeconfig with a context, as the test does: without one it asks for a context with an empty name, at any server, and shows `n/a`',
  },
  {
    name: 'descheduler',
    version: '0.36.0',
    does: 'it evicts the pods that it evicts at Kubernetes’ own API server, and holds its Lease through restarts',
    test: 'test/clients/outside/descheduler.ts',
    runsIn: 'npm run judge -- clients',
    program: descheduler,
    needsApiServer: true,
  },
  {
    name: 'kubelet',
    version: '1.37.2, with kubemark’s container runtime',
    does: 'with Node authorization it runs the pods that another runs at Kubernetes’ own API server, with the same volumes and tokens, through changes and restarts',
    test: 'test/clients/outside/kubelet.ts',
    runsIn: 'npm run judge -- clients',
    program: kubemark,
    needsApiServer: true,
  },
  {
    name: 'kube-proxy',
    version: '1.37.2',
    does: 'its nftables rules equal those of another at Kubernetes’ own API server, through changes and restarts',
    test: 'test/clients/outside/kube-proxy.ts',
    runsIn: 'npm run judge -- clients',
    program: kubeProxy,
    needsApiServer: true,
  },
  {
    name: 'istiod',
    version: 'of August 2026',
    does: 'services, endpoints and Istio’s own kinds, computed as at Kubernetes’ own API server, through changes and restarts',
    test: 'test/clients/outside/istiod.ts',
    runsIn: 'npm run judge -- clients',
    program: istiod,
    needsApiServer: true,
  },
  {
    name: 'OpenTelemetry collector',
    version: '0.149.0',
    does: 'with its receiver k8s_cluster and its processor k8s_attributes, the pods in its metrics, and the labels that it adds',
    test: 'test/onboarding/in-cluster.ts',
    runsIn: 'npm run judge -- onboarding',
    program: openTelemetry,
  },
  {
    name: 'metrics-server',
    version: '0.9.0',
    does: 'it scrapes kubelets, and `top` of kubectl shows nodes and pods through the API server, before and after it is moved and moved back',
    test: 'test/onboarding/there-and-back.ts',
    runsIn: 'npm run judge -- onboarding',
    program: metricsServer,
  },
  {
    name: 'Argo CD',
    version: '3.2’s engine',
    does: 'its cache of all objects that it may read, and a sync',
    test: 'test/onboarding/in-cluster.ts',
    runsIn: 'npm run judge -- onboarding',
    program: argoCd,
  },
  {
    name: 'Cilium operator',
    version: '1.15.19',
    does: 'it creates its definitions, holds its Lease, and writes the addresses of load balancers',
    test: 'test/onboarding/in-cluster.ts',
    runsIn: 'npm run judge -- onboarding',
    program: ciliumOperator,
  },
]

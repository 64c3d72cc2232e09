/** Clients that nobody here wrote, and how each is run: the runner follows this table, and docs/clients.md is made from it. */

import type { GoProgram } from '../support/go-program.js'
import { clientGo, coreDns, helm, kubeStateMetrics, newestKubectl, operator, prometheusDiscovery } from './programs.js'

export interface OutsideClient {
  readonly name: string
  readonly version: string
  /** A sentence on what the client does in its test. */
  readonly does: string
  /** Its test, in the repository. */
  readonly test: string
  /** `npm test` runs it always; `npm run test:clients` where its tools are. */
  readonly runsIn: 'npm test' | 'npm run test:clients'
  /** The program that has to be built first. Where it cannot be, the client is skipped with a line that says why. */
  readonly program?: GoProgram
  /** It needs Python 3 and the packages that its test names. */
  readonly needsPython?: boolean
  /** A note on what a user of the client has to set or to know. */
  readonly note?: string
}

export const outsideClients: readonly OutsideClient[] = [
  {
    name: 'kubectl',
    version: 'the installed one, 1.20 or newer',
    does: 'get in every form, describe, watch, wait, explain, create, apply, patch, edit, scale, label, drain, delete, over objects that a kube-apiserver stored',
    test: 'test/clients/kubectl.test.ts',
    runsIn: 'npm test',
  },
  {
    name: '@kubernetes/client-node',
    version: '1.4',
    does: 'lists in pages, custom objects, its Informer and its Watch through cuts and an expired revision',
    test: 'test/clients/client-node.test.ts',
    runsIn: 'npm test',
    note: 'over plain HTTP it needs `skipTLSVerify: true`',
  },
  {
    name: 'curl',
    version: 'the installed one',
    does: 'a watch over HTTP/1.1 and HTTP/2',
    test: 'test/clients/curl.test.ts',
    runsIn: 'npm test',
  },
  {
    name: 'client-go',
    version: '0.37.2',
    does: 'typed, dynamic and metadata informers with its detectors on, with WatchList and without; eight writers of one object; leader election',
    test: 'test/clients/outside/client-go.ts',
    runsIn: 'npm run test:clients',
    program: clientGo,
  },
  {
    name: 'kubectl 1.37',
    version: '0.37.2 of k8s.io/kubectl',
    does: 'all that the installed kubectl does',
    test: 'test/clients/outside/kubectl.ts',
    runsIn: 'npm run test:clients',
    program: newestKubectl,
  },
  {
    name: 'controller-runtime',
    version: '0.25.2',
    does: 'an operator that keeps a status, applies ConfigMaps server-side and cleans up behind a finalizer, under RBAC and before two workers',
    test: 'test/clients/outside/operator.ts',
    runsIn: 'npm run test:clients',
    program: operator,
    note: 'under RBAC it needs `get` of `/api`, `/apis` and what is below them, which an API server grants by its own role `system:discovery`',
  },
  {
    name: 'kube-state-metrics',
    version: '2.20.0',
    does: 'its series of nodes, pods, services, endpoint slices and ingresses',
    test: 'test/clients/outside/kube-state-metrics.ts',
    runsIn: 'npm run test:clients',
    program: kubeStateMetrics,
    note: '`--apiserver` names distributary',
  },
  {
    name: 'CoreDNS',
    version: '1.15.0',
    does: 'the kubernetes plugin: A, SRV and PTR follow the services',
    test: 'test/clients/outside/coredns.ts',
    runsIn: 'npm run test:clients',
    program: coreDns,
    note: '`endpoint` of the plugin names distributary',
  },
  {
    name: 'Prometheus',
    version: '0.316.0 of github.com/prometheus/prometheus',
    does: 'its discovery of nodes, pods, services, endpoints, endpoint slices and ingresses',
    test: 'test/clients/outside/prometheus.ts',
    runsIn: 'npm run test:clients',
    program: prometheusDiscovery,
    note: '`api_server` of `kubernetes_sd_configs` names distributary; Debian builds Prometheus without that discovery',
  },
  {
    name: 'Helm',
    version: '4.3.1',
    does: 'install, upgrade, rollback and uninstall of a chart, with `--wait` through each restart',
    test: 'test/clients/outside/helm.ts',
    runsIn: 'npm run test:clients',
    program: helm,
    note: '`--kube-apiserver` names distributary; it keeps its releases in Secrets, so start the server with `--resource secrets`, or set `HELM_DRIVER=configmap`',
  },
  {
    name: 'kubernetes of Python',
    version: '37.0.2',
    does: 'a watch that is resumed; a new list after a 410',
    test: 'test/clients/outside/python.ts',
    runsIn: 'npm run test:clients',
    needsPython: true,
  },
  {
    name: 'kubernetes_asyncio',
    version: '36.1.0',
    does: 'the same as its model',
    test: 'test/clients/outside/python.ts',
    runsIn: 'npm run test:clients',
    needsPython: true,
  },
  {
    name: 'lightkube',
    version: '1.0.1',
    does: 'the same; it asks for no bookmarks',
    test: 'test/clients/outside/python.ts',
    runsIn: 'npm run test:clients',
    needsPython: true,
    note: 'it refuses to start without a user, even an empty one',
  },
  {
    name: 'kopf',
    version: '1.45.2',
    does: 'an operator that keeps a status and cleans up behind its finalizer',
    test: 'test/clients/outside/kopf.ts',
    runsIn: 'npm run test:clients',
    needsPython: true,
  },
]

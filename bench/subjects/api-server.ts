/**
 * Kubernetes' API server, which `--peers reference` builds: on the run's etcd, its watch cache on, default settings but for
 * its own compaction of etcd. It serves a custom resource, over TLS only, and allows everybody everything.
 */
import { start } from '../support/processes.js'
import { freePort } from '../../test/support/free-port.js'
import { resourceList, resourceWatch } from './kubernetes-watch.js'
import { awaitOkOverTls, streamsOf, type SubjectKind } from './subject.js'

/** With 200,000 objects of several KB it takes tens of seconds. */
const READY_MS = 180_000

export const apiServerSubject: SubjectKind = {
  name: 'apiserver',
  wires: ['http1-tls', 'http2x20-tls', 'http2x100-tls'],
  etcd: 'behind',
  isAvailable: ({ apiServer, resource }) => apiServer !== undefined && resource.definition !== null,
  async start({ workspace, wire, etcdPort, apiServer, resource, resources = [resource] }) {
    if (apiServer === undefined) throw new Error('--peers reference has not built the API server')
    const port = await freePort()
    const { certFile, keyFile } = workspace.tls()
    const child = start('apiserver', 'server', [
      apiServer,
      `--etcd-servers=http://127.0.0.1:${etcdPort}`,
      '--etcd-prefix=/registry',
      '--bind-address=127.0.0.1',
      `--secure-port=${port}`,
      `--tls-cert-file=${certFile}`,
      `--tls-private-key-file=${keyFile}`,
      `--cert-dir=${workspace.path('apiserver')}`,
      '--endpoint-reconciler-type=none',
      '--service-cluster-ip-range=10.0.0.0/24',
      '--service-account-issuer=https://bench.invalid',
      `--service-account-key-file=${keyFile}`,
      `--service-account-signing-key-file=${keyFile}`,
      '--authorization-mode=AlwaysAllow',
      '--enable-priority-and-fairness=false',
      // A run ends before etcd's history has to.
      '--etcd-compaction-interval=0',
    ])
    await awaitOkOverTls(child, `https://127.0.0.1:${port}/readyz`, READY_MS)
    // It establishes what is defined once it runs, and fills its cache when it is first asked: for nothing, lest it hold
    // the memory of a whole list.
    for (const { path } of resources) {
      await awaitOkOverTls(child, `https://127.0.0.1:${port}${path}?resourceVersion=0&labelSelector=none`, READY_MS)
    }
    return {
      name: 'apiserver',
      wire,
      pid: child.pid,
      streams: streamsOf(wire),
      port,
      watch: (query) => resourceWatch({ port, wire, resource }, query),
      list: () => resourceList({ port, wire, resource }),
      end: () => child.end(),
    }
  },
}

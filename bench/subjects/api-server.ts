/**
 * Kubernetes' API server, which `--peers reference` builds: on the run's etcd, with its watch cache and default
 * settings, except that it does not compact etcd. It speaks only TLS. Its clients are administrators with a token, who
 * are neither authorized by rules nor queued, which favours it.
 */
import { writeFileSync } from 'node:fs'
import { start } from '../support/processes.js'
import { freePort } from '../../test/support/free-port.js'
import { openssl } from '../../test/support/openssl.js'
import { resourceList, resourceWatch } from './kubernetes-watch.js'
import { awaitOkOverTls, streamsOf, type SubjectKind } from './subject.js'

/** With 200,000 objects of several KB, the start takes tens of seconds. */
const READY_MS = 180_000
const TOKEN = 'bench-token'

export const apiServerSubject: SubjectKind = {
  name: 'apiserver',
  wires: ['http1-tls', 'http2-tls', 'http2x20-tls', 'http2x100-tls'],
  etcd: 'behind',
  isAvailable: ({ apiServer }) => apiServer !== undefined,
  async start({ workspace, wire, etcdPort, apiServer, resource, resources = [resource] }) {
    if (apiServer === undefined) throw new Error('--peers reference has not built the API server')
    const port = await freePort()
    const { certFile, keyFile } = workspace.tls()
    const [accountKey, tokenFile] = [workspace.path('service-accounts.key'), workspace.path('tokens.csv')]
    openssl('genrsa', '-out', accountKey, '2048')
    writeFileSync(tokenFile, `${TOKEN},bench,bench,"system:masters"\n`)
    const bearer = { Authorization: `Bearer ${TOKEN}` }
    const headers = [`Authorization: ${bearer.Authorization}`]
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
      `--service-account-key-file=${accountKey}`,
      `--service-account-signing-key-file=${accountKey}`,
      `--token-auth-file=${tokenFile}`,
      '--authorization-mode=RBAC',
      // Do not compact etcd, because a run is too short to need it.
      '--etcd-compaction-interval=0',
    ])
    await awaitOkOverTls(child, `https://127.0.0.1:${port}/readyz`, READY_MS, bearer)
    // The API server establishes definitions after its start, and fills its cache at the first request. This request
    // selects nothing, so that it does not hold the memory of a whole list.
    for (const { path } of resources) {
      await awaitOkOverTls(
        child,
        `https://127.0.0.1:${port}${path}?resourceVersion=0&labelSelector=none`,
        READY_MS,
        bearer,
      )
    }
    return {
      name: 'apiserver',
      wire,
      pid: child.pid,
      streams: streamsOf(wire),
      port,
      watch: (query) => resourceWatch({ port, wire, resource, headers }, query),
      list: () => resourceList({ port, wire, resource, headers }),
      end: () => child.end(),
    }
  },
}

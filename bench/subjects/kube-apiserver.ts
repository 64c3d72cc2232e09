/**
 * kube-apiserver, when `--kube-apiserver BIN` names one: on the run's etcd, its watch cache on, default settings. It
 * speaks only TLS. Objects are written to etcd as JSON, which it reads like its own protobuf.
 */
import { writeFileSync } from 'node:fs'
import { start } from '../support/processes.js'
import { freePort } from '../../test/support/free-port.js'
import { openssl } from '../../test/support/openssl.js'
import { resourceList, resourceWatch } from './kubernetes-watch.js'
import { awaitOkOverTls, streamsOf, type SubjectKind } from './subject.js'

const token = 'bench-token'

export const kubeApiserverSubject: SubjectKind = {
  name: 'kube-apiserver',
  wires: ['http1-tls', 'http2-tls', 'http2x20-tls', 'http2x100-tls'],
  etcd: 'behind',
  isAvailable: ({ kubeApiserver }) => kubeApiserver !== undefined,
  async start({ workspace, wire, etcdPort, kubeApiserver, resource }) {
    if (kubeApiserver === undefined) throw new Error('--kube-apiserver names no binary')
    const port = await freePort()
    const { certFile, keyFile } = workspace.tls()
    const accountKey = workspace.path('service-account.key')
    openssl('genrsa', '-out', accountKey, '2048')
    const tokenFile = workspace.path('tokens.csv')
    writeFileSync(tokenFile, `${token},bench,bench,"system:masters"\n`)
    const flags = [
      `--etcd-servers=http://127.0.0.1:${etcdPort}`,
      `--secure-port=${port}`,
      '--bind-address=127.0.0.1',
      `--tls-cert-file=${certFile}`,
      `--tls-private-key-file=${keyFile}`,
      `--cert-dir=${workspace.path('kube-apiserver')}`,
      '--service-cluster-ip-range=10.0.0.0/24',
      '--service-account-issuer=https://bench.invalid',
      `--service-account-key-file=${accountKey}`,
      `--service-account-signing-key-file=${accountKey}`,
      `--token-auth-file=${tokenFile}`,
      '--authorization-mode=RBAC',
    ]
    const child = start('kube-apiserver', 'server', [kubeApiserver, ...flags])
    const headers = [`Authorization: Bearer ${token}`]
    await awaitOkOverTls(child, `https://127.0.0.1:${port}/readyz`, 60_000, { Authorization: `Bearer ${token}` })
    return {
      name: 'kube-apiserver',
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

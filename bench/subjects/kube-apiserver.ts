/**
 * kube-apiserver, when `--kube-apiserver BIN` names one: on the run's etcd, its watch cache on, default settings. It
 * speaks only TLS. Objects are written to etcd as JSON, which it reads like its own protobuf.
 */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { freePort, start } from '../support/processes.js'
import { podList, podWatch } from './kubernetes-watch.js'
import { streamsOf, type SubjectKind } from './subject.js'

const token = 'bench-token'

export const kubeApiserverSubject: SubjectKind = {
  name: 'kube-apiserver',
  wires: ['http1-tls', 'http2-tls', 'http2x100-tls'],
  etcd: 'behind',
  isAvailable: ({ kubeApiserver }) => kubeApiserver !== undefined,
  async start({ workspace, wire, etcdPort, kubeApiserver }) {
    if (kubeApiserver === undefined) throw new Error('--kube-apiserver names no binary')
    const port = await freePort()
    const { certFile, keyFile } = workspace.tls()
    const accountKey = workspace.path('service-account.key')
    execFileSync('openssl', ['genrsa', '-out', accountKey, '2048'], { stdio: 'pipe' })
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
    await awaitReady(port)
    return {
      name: 'kube-apiserver',
      wire,
      pid: child.pid,
      streams: streamsOf(wire),
      watch: (query) => podWatch({ port, wire, headers }, query),
      list: () => podList({ port, wire, headers }),
      end: () => child.end(),
    }
  },
}

/** Uses node:https, because the certificate is our self-signed one. */
async function awaitReady(port: number): Promise<void> {
  const { get } = await import('node:https')
  const ask = (): Promise<number> =>
    new Promise((resolve) => {
      const options = { rejectUnauthorized: false, headers: { Authorization: `Bearer ${token}` }, timeout: 2_000 }
      get(`https://127.0.0.1:${port}/readyz`, options, (answer) => {
        answer.resume()
        resolve(answer.statusCode ?? 0)
      }).on('error', () => resolve(0))
    })
  const deadline = performance.now() + 60_000
  while ((await ask()) !== 200) {
    if (performance.now() > deadline) throw new Error('kube-apiserver is not ready after 60 s')
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

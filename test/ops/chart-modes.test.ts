/**
 * Starts each mode of the chart: the server with exactly the rendered arguments, environment and files, against a real
 * etcd over TLS, until the pod's readiness probe would pass. Only addresses and folders are this machine's. Modes
 * without keys are in chart-modes-plain.test.ts, those of a fleet in chart-fleet.test.ts.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import t, { type Test } from 'tap'
import { startApiServer } from '../support/api-server-stand-in.js'
import { type CertificateAuthority, createAuthority } from '../support/certificates.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { https, plain, startMode } from './support/chart-mode.js'
import type { Placement } from './support/machine.js'

/** The permissions that RBAC gives the readers. */
const RIGHTS = {
  '/registry/clusterroles/view': {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'view' },
    rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] }],
  },
  '/registry/clusterrolebindings/view': {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'view' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
    subjects: ['reader', 'ada'].map((name) => ({ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name })),
  },
}

const pem = (path: string): string => readFileSync(path, 'utf8')

interface Scene {
  readonly authority: CertificateAuthority
  /** etcd over TLS, with client certificates. */
  readonly etcd: EtcdProcess
  readonly placement: Omit<Placement, 'objects' | 'replace'>
}

/** Starts etcd over TLS, and creates the Secrets that the files in ci/ name. */
async function setScene(t: Test): Promise<Scene> {
  const authority = createAuthority(t)
  const server = authority.server()
  const etcd = await startEtcd(t, { tls: { ...server, clientCa: authority.ca } })
  const ca = pem(authority.ca)
  const pair = ({ cert, key }: { cert: string; key: string }) => ({ 'tls.crt': pem(cert), 'tls.key': pem(key) })
  const reader = authority.client('reader')
  for (const [key, object] of Object.entries(RIGHTS)) {
    const keys = ['--cacert', authority.ca, '--cert', reader.cert, '--key', reader.key]
    execFileSync('etcdctl', ['--endpoints', etcd.url, ...keys, 'put', key, JSON.stringify(object)], {
      env: { ...process.env, ETCDCTL_API: '3' },
    })
  }
  const proxy = authority.client('front-proxy')
  return {
    authority,
    etcd,
    placement: {
      secrets: {
        'etcd-client': { 'ca.crt': ca, ...pair(reader) },
        collector: { headers: 'a=b' },
        server: pair(server),
        clients: { 'ca.crt': ca },
        // The keys of cert-manager's Secrets.
        'try-distributary-tls': pair(server),
        'api-server': { 'ca.crt': ca, 'proxy.crt': pem(proxy.cert), 'proxy.key': pem(proxy.key) },
      },
      hostFiles: {
        '/etc/kubernetes/pki/etcd/ca.crt': ca,
        '/etc/kubernetes/pki/etcd/healthcheck-client.crt': pem(reader.cert),
        '/etc/kubernetes/pki/etcd/healthcheck-client.key': pem(reader.key),
      },
    },
  }
}

void t.test('the modes that read an etcd over TLS become ready, with their own keys', async (t) => {
  const { authority, etcd, placement } = await setScene(t)
  const etcdServers = [etcd.url]

  await t.test('standalone identifies clients by their certificates', async (t) => {
    const { url } = await startMode(t, 'standalone', placement, { ...https, etcdServers })
    t.equal((await ask(url, '/api/v1/pods')).status, 401)
    t.equal((await ask(url, '/api/v1/pods', authority.client('reader'))).status, 200)
    t.equal((await ask(url, '/api/v1/pods', authority.client('stranger'))).status, 403)
    t.equal((await ask(url, '/api/v1/nodes', authority.client('reader'))).status, 403)
  })

  await t.test('sidecar reads etcd with the node’s keys', async (t) => {
    const { url } = await startMode(t, 'sidecar', placement, { ...plain, etcdServers })
    t.equal((await fetch(`${url}/api/v1/pods`)).status, 200)
  })

  await t.test('sidecar-tls reads etcd with keys from a Secret', async (t) => {
    const { url } = await startMode(t, 'sidecar-tls', placement, { ...https, etcdServers })
    t.equal((await ask(url, '/api/v1/pods', authority.client('reader'))).status, 200)
  })

  await t.test('passthrough forwards requests for uncached resources to the API server', async (t) => {
    const { cert, key } = authority.server()
    const options = { cert: pem(cert), key: pem(key), ca: pem(authority.ca), requestCert: true }
    const apiServer = await startApiServer(t, options)
    const addresses = { ...https, etcdServers, passthrough: apiServer.url }
    const { url } = await startMode(t, 'passthrough', placement, addresses)
    const reader = authority.client('ada')
    t.equal((await ask(url, '/api/v1/pods', reader)).status, 200)
    t.match((await ask(url, '/api/v1/namespaces/a/pods/p/log', reader)).body, /"kind":"Stand"/)
    t.match(apiServer.last(), { certificate: 'front-proxy', headers: { 'x-remote-user': 'ada' } })
  })
})

function ask(
  url: string,
  path: string,
  client?: { readonly cert: string; readonly key: string },
): Promise<{ status: number; body: string }> {
  const agent = new Agent({
    rejectUnauthorized: false,
    ...(client && { cert: pem(client.cert), key: pem(client.key) }),
  })
  return new Promise((resolve, reject) => {
    request(url + path, { agent }, (response) => {
      let body = ''
      response.on('data', (chunk: Buffer) => (body += chunk.toString()))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }))
    })
      .once('error', reject)
      .end()
  })
}

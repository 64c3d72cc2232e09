/**
 * Each mode of the chart, started: the server with exactly the arguments, the environment and the files that are rendered,
 * against a real etcd, until the pod's readiness probe would pass. Only addresses and folders are this machine's. The modes
 * of a fleet are in chart-nats.test.ts.
 */
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import t, { type Test } from 'tap'
import { startApiServer } from '../support/api-server-stand-in.js'
import { type CertificateAuthority, createAuthority } from '../support/certificates.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { modeValues, renderChart } from './support/chart.js'
import { type Placement, placeContainer, readdress } from './support/machine.js'
import { type ServerProcess, startServerProcess } from './support/server-process.js'

const MODES = modeValues()
const pem = (path: string): string => readFileSync(path, 'utf8')

interface Scene {
  readonly authority: CertificateAuthority
  /** Over TLS, for those who show a certificate. */
  readonly etcd: EtcdProcess
  readonly placement: Omit<Placement, 'objects' | 'replace'>
}

/** etcd over TLS, and the Secrets that the files in ci/ name. */
async function setScene(t: Test): Promise<Scene> {
  const authority = createAuthority(t)
  const server = authority.server()
  const etcd = await startEtcd(t, { tls: { ...server, clientCa: authority.ca } })
  const ca = pem(authority.ca)
  const pair = ({ cert, key }: { cert: string; key: string }) => ({ 'tls.crt': pem(cert), 'tls.key': pem(key) })
  const reader = authority.client('reader')
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
        // As cert-manager names it.
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

/** Returns when it is ready. @param addresses of its configuration, in place of those of a cluster. */
async function start(
  t: Test,
  mode: string,
  placement: Omit<Placement, 'objects' | 'replace'>,
  addresses: Readonly<Record<string, unknown>>,
): Promise<ServerProcess> {
  const { objects } = renderChart(MODES.get(mode)!)
  const replace = (text: string): string => (text.includes('bindAddress:') ? readdress(text, addresses) : text)
  const { args, environment, scheme } = placeContainer(t, 'distributary', { ...placement, objects, replace })
  return startServerProcess(t, { args, environment, scheme })
}

const http = { bindAddress: '127.0.0.1', port: 0 }
const https = { bindAddress: '127.0.0.1', securePort: 0 }

void t.test('the modes that read an etcd over TLS become ready, by their own keys', async (t) => {
  const { authority, etcd, placement } = await setScene(t)
  const etcdServers = [etcd.url]

  await t.test('standalone: clients are known by their certificates', async (t) => {
    const { url } = await start(t, 'standalone', placement, { ...https, etcdServers })
    t.equal((await ask(url, '/api/v1/pods')).status, 401)
    t.equal((await ask(url, '/api/v1/pods', authority.client('reader'))).status, 200)
  })

  await t.test('sidecar: by the keys of the node', async (t) => {
    const { url } = await start(t, 'sidecar', placement, { ...http, etcdServers })
    t.equal((await fetch(`${url}/api/v1/pods`)).status, 200)
  })

  await t.test('sidecar-tls: by keys from a Secret', async (t) => {
    const { url } = await start(t, 'sidecar-tls', placement, { ...https, etcdServers })
    t.equal((await ask(url, '/api/v1/pods', authority.client('reader'))).status, 200)
  })

  await t.test('passthrough: what is not cached is the API server’s', async (t) => {
    const { cert, key } = authority.server()
    const options = { cert: pem(cert), key: pem(key), ca: pem(authority.ca), requestCert: true }
    const apiServer = await startApiServer(t, options)
    const addresses = { ...https, etcdServers, passthrough: apiServer.url }
    const { url } = await start(t, 'passthrough', placement, addresses)
    const reader = authority.client('ada')
    t.equal((await ask(url, '/api/v1/pods', reader)).status, 200)
    t.match((await ask(url, '/api/v1/namespaces/a/pods/p/log', reader)).body, /"kind":"Stand"/)
    t.match(apiServer.last(), { certificate: 'front-proxy', headers: { 'x-remote-user': 'ada' } })
  })
})

void t.test('the modes that read an etcd without TLS become ready, without any keys', async (t) => {
  const etcd = await startEtcd(t)
  const etcdServers = [etcd.url]

  await t.test('sidecar-plaintext', async (t) => {
    const { url } = await start(t, 'sidecar-plaintext', {}, { ...http, etcdServers })
    t.equal((await fetch(`${url}/api/v1/pods`)).status, 200)
  })

  await t.test('writes: what is written is read', async (t) => {
    const { url } = await start(t, 'writes', {}, { ...http, etcdServers })
    const collection = `${url}/apis/distributary.io/v1/flags`
    const body = { apiVersion: 'distributary.io/v1', kind: 'Flag', metadata: { name: 'a' }, spec: { on: true } }
    const response = await fetch(collection, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    t.equal(response.status, 201, await response.text())
    t.match(await (await fetch(`${collection}/a`)).json(), { metadata: { name: 'a' } })
  })

  await t.test('upstream: fed by another server, without etcd', async (t) => {
    const { url: upstream } = await start(t, 'writes', {}, { ...http, etcdServers })
    const kubeconfig = JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'up', cluster: { server: upstream } }],
      users: [{ name: 'us', user: {} }],
      contexts: [{ name: 'up', context: { cluster: 'up', user: 'us' } }],
      'current-context': 'up',
    })
    const { url } = await start(t, 'upstream', { secrets: { upstream: { kubeconfig } } }, { ...http, upstream })
    t.equal((await fetch(`${url}/api/v1/pods`)).status, 200)
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

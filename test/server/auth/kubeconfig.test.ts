/** The pod's own service account in place of a kubeconfig (`in-cluster`). */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { nodeTransport } from '../../../src/client/node/node-transport.js'
import { readBytes } from '../../../src/support/read-bytes.js'
import { IN_CLUSTER, loadKubeconfig } from '../../../src/server/auth/kubeconfig.js'
import { createAuthority } from '../../support/certificates.js'

const FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'

void t.test('the token belongs to the API server of the pod, over https, whatever its variables are', (t) => {
  const files: Record<string, string> = { [`${FOLDER}/ca.crt`]: 'the CA', [`${FOLDER}/token`]: 'first\n' }
  const read = (path: string): Buffer => {
    if (files[path] === undefined) throw new Error(`ENOENT: ${path}`)
    return Buffer.from(files[path])
  }
  for (const [host, port, server] of [
    ['10.96.0.1', '443', 'https://10.96.0.1:443'],
    ['fd00::1', '6443', 'https://[fd00::1]:6443'],
    [undefined, undefined, 'https://kubernetes.default.svc:443'],
    ['', '', 'https://kubernetes.default.svc:443'],
  ]) {
    const environment = { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port }
    const loaded = loadKubeconfig(IN_CLUSTER, read, environment)
    t.match(loaded, { server, ca: Buffer.from('the CA') })
    t.notHas(loaded, { insecureSkipTlsVerify: true })
  }
  const { authorization } = loadKubeconfig(IN_CLUSTER, read, {})
  t.equal(authorization!(), 'Bearer first')
  files[`${FOLDER}/token`] = 'second'
  t.equal(authorization!(), 'Bearer second', 'a rotated token is read again')
  delete files[`${FOLDER}/token`]
  t.equal(authorization!(), 'Bearer second', 'while the file is replaced, the last token is used')
  t.throws(() => loadKubeconfig(IN_CLUSTER, read, {}), { message: `ENOENT: ${FOLDER}/token` })
  t.end()
})

void t.test('the token does not follow a redirect to another host', async (t) => {
  const authority = createAuthority(t)
  const { cert, key } = authority.server()
  const tls = { cert: readFileSync(cert), key: readFileSync(key) }
  const listen = async (t: Test, location: string, seen: unknown[]): Promise<number> => {
    const server = createServer(tls, ({ headers }, response) => {
      seen.push(headers.authorization)
      response.writeHead(302, { location }).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    return (server.address() as AddressInfo).port
  }
  const [elsewhere, here]: [unknown[], unknown[]] = [[], []]
  const other = await listen(t, '', elsewhere)
  const port = await listen(t, `https://localhost:${other}/`, here)
  const read = (path: string): Buffer => (path.endsWith('ca.crt') ? readFileSync(authority.ca) : Buffer.from('secret'))
  const environment = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(port) }
  const transport = nodeTransport(loadKubeconfig(IN_CLUSTER, read, environment))
  t.teardown(() => transport.close())
  for (const path of ['/api', `https://localhost:${other}/`, `@localhost:${other}/`]) {
    const signal = AbortSignal.timeout(10_000)
    const sent = transport.send({ path, query: {}, accept: '*/*', signal })
    await sent.then((response) => readBytes(response.body, 1_000)).catch(() => undefined)
  }
  t.same(here[0], 'Bearer secret')
  t.same(elsewhere, [])
})

/** Which requests the pages of an allowed origin may send, compared with the API server's `--cors-allowed-origins`. */
import t from 'tap'
import { startApp } from '../../../support/app.js'

const origin = 'https://app.example.org'

void t.test('a page may send the headers that the API server allows, and may not impersonate', async (t) => {
  const app = await startApp(t, { flags: ['--cors-allowed-origins', origin] })
  const preflight = await fetch(`${app.url}/api/v1/pods`, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'authorization,impersonate-user',
    },
  })
  t.equal(preflight.status, 204)
  const allowed = (preflight.headers.get('access-control-allow-headers') ?? '').toLowerCase().split(', ')
  // WithCORS of k8s.io/apiserver 0.37, without the two headers that only browsers set: Content-Length, Accept-Encoding.
  for (const name of ['content-type', 'x-csrf-token', 'authorization', 'x-requested-with', 'if-modified-since']) {
    t.ok(allowed.includes(name), name)
  }
  t.notMatch(allowed.join(), /impersonate|\*/)
})

void t.test('only pages of this server or of an allowed origin can write', async (t) => {
  const namespace = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'a', uid: 'uid-a' } }
  const flags = ['--cors-allowed-origins', origin, '--enable-writes']
  const app = await startApp(t, { flags, objects: { 'namespaces/a': namespace } })
  const post = async (from: string | null, path: string, body = '{}', type = 'application/json'): Promise<number> => {
    const headers = { 'content-type': type, ...(from === null ? {} : { origin: from }) }
    const answer = await fetch(`${app.url}${path}`, { method: 'POST', headers, body })
    await answer.arrayBuffer()
    return answer.status
  }
  const paths = ['/api/v1/namespaces/a/configmaps', '/consistency-check']
  for (const from of ['https://elsewhere.example', `${origin}:8443`, `http://localhost:${app.port}`, 'null']) {
    for (const path of paths) {
      // The type of a form needs no preflight.
      for (const type of ['text/plain', 'application/json']) t.equal(await post(from, path, '{}', type), 403, from)
    }
  }
  for (const [i, from] of [app.url, origin, null].entries()) {
    t.equal(await post(from, paths[0]!, JSON.stringify({ metadata: { name: `c${i}` } })), 201, `${from}`)
    t.equal(await post(from, paths[1]!), 200, `${from}`)
  }
})

void t.test(
  'a page of an allowed origin may read everything that is not the status page, as at the API server',
  async (t) => {
    const app = await startApp(t, { flags: ['--cors-allowed-origins', origin] })
    for (const from of [origin, 'https://elsewhere.example', app.url]) {
      for (const path of ['/api/v1/pods', '/version', '/metrics', '/livez', '/readyz?verbose', '/readyz/ping']) {
        const { status, headers } = await fetch(`${app.url}${path}`, { headers: { origin: from } })
        t.equal(status, 200, path)
        t.equal(headers.get('access-control-allow-origin'), from === origin ? origin : null, `${path} to ${from}`)
        t.match(headers.get('vary'), /Origin/, path)
      }
    }
    const report = await fetch(`${app.url}/consistency-check`, { method: 'POST', headers: { origin } })
    t.equal(report.headers.get('access-control-allow-origin'), origin)
    for (const [path, method] of [
      ['/metrics', 'GET'],
      ['/consistency-check', 'POST'],
    ] as const) {
      const asked = { 'access-control-request-method': method, 'access-control-request-headers': 'authorization' }
      const preflight = await fetch(`${app.url}${path}`, { method: 'OPTIONS', headers: { origin, ...asked } })
      t.equal(preflight.status, 204, path)
      t.equal(preflight.headers.get('access-control-allow-origin'), origin, path)
    }
  },
)

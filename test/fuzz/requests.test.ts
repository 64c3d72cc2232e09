/**
 * Random requests to a whole server: every response is one that the contract names, in time, and the server keeps
 * running. Half of them are well-formed requests for missing things, half break HTTP itself.
 */
import { connect } from 'node:net'
import t from 'tap'
import { randomInteger, type Random, seededRandom } from '../../src/support/random.js'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { testSeeds } from '../support/test-seeds.js'

const REQUESTS = 1_500
const ANSWER_MS = 10_000

const methods = ['GET', 'GET', 'GET', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'get', 'TRACE', 'FOO']
const segments = ['api', 'apis', 'v1', 'apps', 'namespaces', 'default', 'pods', 'configmaps', 'watch', 'p1', 'status', 'openapi', 'v2', 'v3', 'version', 'metrics', 'readyz', 'livez', '%2e%2e', '%', '%00', '..', '', 'ui'] // prettier-ignore
const parameters = ['watch', 'limit', 'continue', 'resourceVersion', 'resourceVersionMatch', 'sendInitialEvents', 'allowWatchBookmarks', 'timeoutSeconds', 'labelSelector', 'fieldSelector', 'pretty', 'includeObject', 'fields', 'verbose', 'x'] // prettier-ignore
const values = ['1', '0', '-1', 'true', 'false', '', 'Exact', 'NotOlderThan', '3', '99999999999', '9'.repeat(30), 'a=b', 'a in (b)', '%', '%zz', '%00', 'spec.nodeName=n1', '\u00e9', 'Metadata', 'metadata.name'] // prettier-ignore
const headers: readonly (readonly [string, readonly string[]])[] = [
  ['Accept', ['application/json', '*/*', 'application/yaml', 'text/event-stream', 'application/vnd.kubernetes.protobuf', 'application/json;as=Table;v=v1;g=meta.k8s.io', 'a/b;q=x', ',,,', '"']], // prettier-ignore
  ['Accept-Encoding', ['gzip', 'gzip;q=0', '*', 'br']],
  ['Content-Length', ['0', '5']],
  ['Transfer-Encoding', ['chunked', 'identity']],
  ['Connection', ['close', 'keep-alive', 'upgrade']],
  ['Upgrade', ['websocket', 'h2c']],
  ['Sec-WebSocket-Key', ['dGhlIHNhbXBsZSBub25jZQ==', 'x']],
  ['Sec-WebSocket-Version', ['13', '0']],
  ['Sec-WebSocket-Protocol', ['a', 'a, b', 'base64url.bearer.authorization.k8s.io.x', ',']],
  ['Origin', ['http://evil.example', 'null']],
  ['Last-Event-ID', ['1', 'x', '', '-5']],
  ['Authorization', ['Bearer x', 'Basic', '']],
  ['If-None-Match', ['"x"', '*']],
  ['Range', ['bytes=0-1']],
  ['X-Long', ['y'.repeat(3_000)]],
  ['User-Agent', ['curl/8', 'Mozilla/5.0', 'kubectl/v1.32']],
]

/** 501 and 505 are HTTP's own, for malformed requests; 503 and 504 are in the contract. */
const NAMED = new Set([501, 503, 504, 505])

for (const seed of testSeeds(1)) {
  void t.test(`${REQUESTS} random requests: each gets an answer that the contract allows (seed ${seed})`, async (t) => {
    const objects = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`pods/default/p${i}`, pod(`p${i}`)]))
    const h = await startApp(t, { objects, flags: ['--requests-per-second', '100000'] })
    const random = seededRandom(seed)
    const texts = Array.from({ length: REQUESTS }, () => randomRequest(random))
    const codes = new Map<number, number>()
    const lane = async (): Promise<void> => {
      for (let text = texts.pop(); text !== undefined; text = texts.pop()) {
        const answer = await ask(h, text)
        codes.set(answer, (codes.get(answer) ?? 0) + 1)
        if (answer >= 500 && !NAMED.has(answer)) t.fail(`${answer} for ${JSON.stringify(text.slice(0, 300))}`)
        if (answer === -1) t.fail(`no answer to ${JSON.stringify(text.slice(0, 300))}`)
      }
    }
    await Promise.all(Array.from({ length: 16 }, lane))
    t.ok((codes.get(200) ?? 0) > 20 && codes.size > 4, [...codes].map(([code, n]) => `${code} ×${n}`).join(', '))
    const after = await fetch(`${h.url}/api/v1/pods`)
    t.equal(((await after.json()) as { items: unknown[] }).items.length, 20, 'the server still answers')
  })
}

function pick<T>(random: Random, from: readonly T[]): T {
  return from[randomInteger(random, 0, from.length - 1)] as T
}

function randomRequest(random: Random): string {
  const isPlausible = random.next() < 0.5
  const path = isPlausible
    ? pick(random, ['/api/v1/pods', '/api/v1/namespaces/default/pods', '/api/v1/namespaces/default/pods/p1', '/apis/apps/v1/deployments', '/api', '/apis', '/version', '/openapi/v3', '/api/v1/watch/pods']) // prettier-ignore
    : `/${Array.from({ length: randomInteger(random, 0, 7) }, () => pick(random, segments)).join('/')}`
  const query = Array.from(
    { length: randomInteger(random, 0, 4) },
    () => `${pick(random, parameters)}=${encodeSome(random, pick(random, values))}`,
  )
  // Every watch ends on its own.
  const target = `${path}?${[...query, 'timeoutSeconds=1'].join('&')}`
  const lines = Array.from({ length: randomInteger(random, 0, 4) }, () => {
    const [name, options] = pick(random, headers)
    return `${name}: ${pick(random, options)}`
  })
  const version = random.next() < 0.97 ? 'HTTP/1.1' : pick(random, ['HTTP/1.0', 'HTTP/2.0', 'HTTP/9', ''])
  const head = `${isPlausible ? 'GET' : pick(random, methods)} ${target} ${version}`
  const broken = random.next() < 0.05 ? pick(random, ['bad header', ': x', 'a\0b: c', 'A: \x7f']) : 'Host: localhost'
  return [head, broken, ...lines, '', random.next() < 0.1 ? 'body!' : ''].join('\r\n')
}

function encodeSome(random: Random, value: string): string {
  return random.next() < 0.8 ? encodeURIComponent(value) : value.replaceAll(' ', '+')
}

/** @returns the status; 0 when the connection was closed without one, -1 when nothing came at all. */
function ask({ port }: AppHarness, text: string): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    let heard = ''
    const done = (code: number): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(code)
    }
    const timer = setTimeout(() => done(-1), ANSWER_MS)
    socket.setEncoding('latin1')
    socket.on('data', (data: string) => {
      heard += data
      const status = /^HTTP\/1\.[01] (\d{3})/.exec(heard)
      if (status) done(Number(status[1]))
    })
    socket.on('error', () => done(0))
    socket.on('close', () => done(0))
    socket.write(Buffer.from(text, 'latin1'))
    // When an announced body never comes, the client itself is waiting.
    socket.end()
  })
}

/**
 * Sends thousands of requests with random path, query, headers and method to one server. Each must be answered in time,
 * without a 5xx that the contract does not name, and every error must be a Status; the process must survive.
 */
import t from 'tap'
import { type Random, seededRandom } from '../../src/support/random.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { type Answer, ask } from './world.js'
import { testSeed } from '../support/test-seeds.js'

const REQUESTS = 4_000
const AT_ONCE = 32
/** The longest wait of the contract is 3 s, and watches here end after 1 s. */
const MOST_MS = 12_000

const seed = testSeed(1)

const PATHS = [
  '/api',
  '/apis',
  '/api/v1',
  '/apis/apps',
  '/apis/apps/v1',
  '/version',
  '/openapi/v2',
  '/openapi/v3',
  '/openapi/v3/api/v1',
  '/metrics',
  '/livez',
  '/readyz',
  '/readyz/ping',
  '/',
  '/ui/',
  '/api/v1/pods',
  '/api/v1/namespaces/default/pods',
  '/api/v1/namespaces/default/pods/a',
  '/api/v1/watch/pods',
  '/api/v1/watch/namespaces/default/pods/a',
  '/apis/apps/v1/deployments',
  '/apis/distributary.io/v1/flags',
  '/apis/distributary.io/v1/flags/x:y',
  '/api/v1/namespaces/default/pods/a/log',
  '/api/v1/namespaces',
  '/api/v1/nodes',
]
const SEGMENTS = [
  '',
  '.',
  '..',
  '%2e%2e',
  '%00',
  '%ff',
  '%',
  '%zz',
  '%2F',
  'a b',
  'pods',
  'watch',
  'namespaces',
  'x'.repeat(300),
  '-',
  'A',
  '💥',
  "'",
  '"',
  '<script>',
  '\\',
  ';',
  '@',
  ':',
  '*',
  '__proto__',
  'constructor',
]
const VALUES = [
  '',
  '0',
  '1',
  '5',
  '-1',
  '1.5',
  '1e9',
  '999999',
  '9007199254740993',
  '18446744073709551616',
  'x',
  'true',
  'false',
  'NotOlderThan',
  'Exact',
  'None',
  'Object',
  'gzip',
  'a=b',
  'a in (b,c)',
  'a in (',
  '!a',
  ',',
  'metadata.name=a',
  'spec.nodeName=',
  'a\\',
  '__proto__',
  'metadata.__proto__=x',
  '%00',
  'null',
  '{}',
  'y'.repeat(2_000),
  '💥',
  '\u0000',
  ' ',
  '*',
  'eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mywic3RhcnQiOiJhXHUwMDAwIn0',
  'e30',
  'eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiXHUwMDAwIn0',
  'metadata',
  'spec,status',
  '..',
]
const PARAMETERS = [
  'watch',
  'resourceVersion',
  'resourceVersionMatch',
  'limit',
  'continue',
  'labelSelector',
  'fieldSelector',
  'allowWatchBookmarks',
  'sendInitialEvents',
  'pretty',
  'includeObject',
  'fields',
  'compress',
  'verbose',
  'exclude',
  'hash',
  'unknown',
  '__proto__',
]
const HEADERS: Readonly<Record<string, readonly string[]>> = {
  accept: [
    '',
    '*/*',
    'application/json',
    'application/yaml',
    'application/vnd.kubernetes.protobuf',
    'application/vnd.kubernetes.protobuf;stream=watch',
    'text/event-stream',
    'application/json;as=Table;v=v1;g=meta.k8s.io',
    'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io',
    'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io',
    'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList',
    'text/html',
    ';;;,,',
    'a/b;q="',
    'application/json;q=2',
    'x'.repeat(9_000),
  ],
  'accept-encoding': ['gzip', 'gzip;q=0', '*', 'br', ';;;'],
  'user-agent': ['curl/8', 'Mozilla/5.0', 'kubectl/v1.32', ''],
  'last-event-id': ['', '1', '5', '999999', 'x', '-1'],
  'if-none-match': ['*', '"x"', 'x', ','],
  'content-type': ['application/json', 'text/csv', 'x'],
  origin: ['http://evil.example', 'null', ''],
  connection: ['close', 'keep-alive', 'upgrade'],
  upgrade: ['websocket', 'h2c', 'x'],
  authorization: ['Bearer x', 'Basic x', 'x'],
  'impersonate-user': ['root'],
  range: ['bytes=0-1'],
  expect: ['100-continue', 'x'],
  te: ['trailers'],
}
const METHODS = [
  'GET',
  'GET',
  'GET',
  'GET',
  'GET',
  'GET',
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'PROPFIND',
]

interface RandomRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

function makeRequest(random: Random): RandomRequest {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random.next() * from.length)]!
  let path = pick(PATHS)
  if (random.next() < 0.2) {
    const segments = path.split('/')
    segments.splice(1 + Math.floor(random.next() * segments.length), random.next() < 0.5 ? 1 : 0, pick(SEGMENTS))
    path = `/${segments.slice(1).join('/')}`
  }
  // Characters that a request line cannot contain are escaped, as a client would have to.
  path = path.replaceAll(/[^\x21-\x7e]/gu, (char) => encodeURIComponent(char))
  const query = new URLSearchParams()
  for (let n = Math.floor(random.next() * 5); n > 0; n--) query.append(pick(PARAMETERS), pick(VALUES))
  // Every watch ends on its own.
  query.append('timeoutSeconds', '1')
  const raw = random.next() < 0.05 ? `&${pick(['%', '%ff=%ff', '&&&', '=', 'a=%zz', '%00=1'])}` : ''
  const headers: Record<string, string> = {}
  for (let n = Math.floor(random.next() * 4); n > 0; n--) {
    const name = pick(Object.keys(HEADERS))
    headers[name] = pick(HEADERS[name]!)
  }
  const method = pick(METHODS)
  const hasBody = ['POST', 'PUT', 'PATCH', 'DELETE'].includes(method) && random.next() < 0.5
  return {
    method,
    path: `${path}?${query.toString()}${raw}`,
    headers,
    ...(hasBody ? { body: pick(['{', '{}', 'x'.repeat(10_000), '\u0000']) } : {}),
  }
}

/** Returns what is wrong with a response, or null. */
function complaint({ method }: RandomRequest, answer: Answer): string | null {
  const { code, ms, text, headers } = answer
  if (ms > MOST_MS) return `took ${Math.round(ms)} ms`
  // HTTP's own answer to an unknown Expect, given before any route; Go's server does the same.
  if (code === 417 && headers['cache-control'] === undefined) return null
  // 504 is for a future revision, 501 for a subresource that needs a kubelet. Nothing here causes a 503 or 500.
  if (code >= 500 && code !== 504 && code !== 501) return `answered ${code}`
  if (headers['cache-control'] === undefined && code !== 101) return `${code} without Cache-Control`
  if (code >= 400 && method !== 'HEAD') {
    const type = String(headers['content-type'])
    if (type.startsWith('application/json') && answer.json?.kind !== 'Status') return `${code} without a Status`
    if (type.startsWith('application/json') && answer.json['code'] !== code) return `${code} with a Status of another`
    if (text === '') return `${code} without a body`
  }
  if (method === 'HEAD' && text !== '') return 'HEAD with a body'
  return null
}

void t.test(`${REQUESTS} random requests are answered as the reference says (seed ${seed})`, async (t) => {
  const objects = Object.fromEntries(
    ['a', 'b', 'c'].map((name) => [`pods/default/${name}`, pod(name, { labels: { a: 'b' } })]),
  )
  const h = await startApp(t, { objects, flags: ['--resource', 'flags=/flags/'] })
  const random = seededRandom(seed)
  const requests = Array.from({ length: REQUESTS }, () => makeRequest(random))
  const codes = new Map<number, number>()
  let next = 0
  let slowest = 0
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < requests.length) {
        const number = next++
        const request = requests[number]!
        let wrong: string | null
        try {
          const answer = await ask(h.url + request.path, request)
          codes.set(answer.code, (codes.get(answer.code) ?? 0) + 1)
          slowest = Math.max(slowest, answer.ms)
          wrong = complaint(request, answer)
        } catch (error) {
          wrong = String(error)
        }
        if (wrong !== null) t.fail(`request ${number} of seed ${seed}: ${wrong}`, { request })
      }
    }),
  )
  t.comment(
    `slowest ${Math.round(slowest)} ms; ${[...codes]
      .toSorted(([a], [b]) => a - b)
      .map(([code, n]) => `${code}: ${n}`)
      .join(', ')}`,
  )
  t.ok((codes.get(200) ?? 0) > REQUESTS / 20, 'many were well formed')
  t.ok((codes.get(400) ?? 0) > REQUESTS / 20, 'and many were not')
  t.equal((await ask(`${h.url}/api/v1/pods`)).json.items.length, 3, 'it serves on')
})

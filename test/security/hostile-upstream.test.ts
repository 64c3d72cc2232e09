/** A server behind `--upstream` that answers with whatever it likes: every read ends, and no wrong data is accepted. */
import { once } from 'node:events'
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { nodeTransport } from '../../src/client/node/node-transport.js'
import { readPages } from '../../src/engine/feed/read-pages.js'
import { keyFromText } from '../../src/engine/model/event.js'
import type { ApiResource } from '../../src/kubernetes/model/api-resource.js'
import { UpstreamError } from '../../src/engine/upstream/upstream.js'
import { HttpResource } from '../../src/kubernetes/upstream/http-resource.js'
import { RemoteApiServer } from '../../src/kubernetes/upstream/remote-api-server.js'
import { JsonClient } from '../../src/server/auth/https-json.js'
import { systemClock } from '../../src/support/clock.js'
import { systemRandom } from '../../src/support/random.js'
import { PODS } from '../support/objects.js'
import { ANSWERS } from './support/hostile-answers.js'

/** Custom objects, which are read as JSON. */
const WIDGETS: ApiResource = {
  ...PODS,
  group: 'example.com',
  plural: 'widgets',
  singular: 'widget',
  kind: 'Widget',
  listKind: 'WidgetList',
  etcdPrefix: keyFromText('/registry/example.com/widgets/'),
}

async function listening(t: Test, server: net.Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function remoteAt(t: Test, url: string): RemoteApiServer {
  const remote = new RemoteApiServer({ transport: nodeTransport({ server: url }), url, clock: systemClock })
  t.teardown(() => remote.close())
  return remote
}

void t.test('whatever it answers, a request ends', async (t) => {
  let bytes = ''
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', () => socket.end(Buffer.from(bytes, 'latin1')))
  })
  const url = await listening(t, server)
  for (const [what, answer] of Object.entries(ANSWERS)) {
    bytes = answer
    const remote = remoteAt(t, url)
    await t.rejects(remote.document({ path: '/version' }), UpstreamError, what)
    const reviewer = new JsonClient({ server: url })
    const { body } = await reviewer.post('/', {}).catch(() => ({ body: undefined }))
    t.equal(body, undefined, `${what}, for a review`)
    reviewer.close()
  }
})

const item = (name: string, resourceVersion = '3'): object => ({
  apiVersion: 'example.com/v1',
  kind: 'Widget',
  metadata: { name, namespace: 'a', resourceVersion },
})
const list = (items: readonly object[], metadata: object = {}): object => ({
  apiVersion: 'example.com/v1',
  kind: 'WidgetList',
  metadata: { resourceVersion: '5', ...metadata },
  items,
})
const endOfState = (resourceVersion: string): object => ({
  type: 'BOOKMARK',
  object: { metadata: { resourceVersion, annotations: { 'k8s.io/initial-events-end': 'true' } } },
})
const added = (object: object): object => ({ type: 'ADDED', object })

/**
 * The responses to lists, page by page, and the events of the initial-state stream; absent if the server has no such
 * stream.
 */
interface Lies {
  readonly pages?: (page: number) => object
  readonly state?: readonly (object | string)[]
  readonly expected: RegExp
}

const LIES: Readonly<Record<string, Lies>> = {
  'one name twice in a list': {
    pages: () => list([item('x'), item('y'), item('x')]),
    expected: /a\/x is listed twice/,
  },
  'the same page again and again': {
    pages: () => list([item('x')], { continue: 'again' }),
    expected: /a page begins with .*\/a\/x, which does not follow/,
  },
  'a page from before': {
    pages: (page) => list([item(page === 0 ? 'm' : 'a')], page === 0 ? { continue: 'more' } : {}),
    expected: /a page begins with .*\/a\/a, which does not follow/,
  },
  'empty pages without an end': { pages: () => list([], { continue: 'again' }), expected: /unexpected page/ },
  'pages of different revisions': {
    pages: (page) => list([item(`x${page}`)], { continue: 'more', resourceVersion: String(5 + page) }),
    expected: /unexpected page/,
  },
  'a list that is none': { pages: () => ({ kind: 'Pod', items: 7 }), expected: /./ },
  'a list without a revision': { pages: () => list([], { resourceVersion: '' }), expected: /./ },
  'a revision below zero': { pages: () => list([], { resourceVersion: '-5' }), expected: /is not a revision/ },
  'a revision beyond 2^53': {
    pages: () => list([], { resourceVersion: '18446744073709551615' }),
    expected: /revision/,
  },
  'an object without a revision': { pages: () => list([item('x', '')]), expected: /is not a revision/ },
  'one name twice in a state': {
    state: [added(item('x')), added(item('x', '4')), endOfState('5')],
    expected: /a\/x is listed twice/,
  },
  'a state with a deletion': {
    state: [{ type: 'DELETED', object: item('x') }, endOfState('5')],
    pages: () => list([item('x'), item('x')]),
    expected: /a\/x is listed twice/,
  },
  'a state that breaks off': { state: [added(item('x'))], expected: /./ },
  'an event of no type': { state: [{ type: '__proto__', object: item('x') }], expected: /./ },
  'no JSON': { state: ['{"type":"ADDED","object":{"metadata":'], expected: /./ },
}

void t.test('a list that contradicts itself is refused', async (t) => {
  let lies: Lies = { expected: /./ }
  let page = 0
  const server = http.createServer(({ url = '' }, response) => {
    const { pathname, searchParams } = new URL(url, 'http://localhost')
    const answer = (body: object): void => void response.end(JSON.stringify(body))
    if (pathname === '/version') return answer({ gitVersion: 'v1.37.2' })
    if (searchParams.get('watch') === null) return answer((lies.pages ?? (() => list([])))(page++))
    if (lies.state === undefined) return void response.writeHead(400).end()
    for (const line of lies.state) response.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`)
    response.end()
  })
  const url = await listening(t, server)
  for (const [what, told] of Object.entries(LIES)) {
    lies = told
    page = 0
    const upstream = new HttpResource({ server: remoteAt(t, url), resource: WIDGETS, random: systemRandom })
    const reading = async (): Promise<number> => {
      const options = { upstream, prefix: WIDGETS.etcdPrefix, revision: null, clock: systemClock }
      let keys = 0
      for await (const { keyValues } of readPages(options)) keys += keyValues.length
      return keys
    }
    await t.rejects(reading(), { message: told.expected }, what)
    t.ok(page < 10, `${what}: ${page} pages read`)
  }
})

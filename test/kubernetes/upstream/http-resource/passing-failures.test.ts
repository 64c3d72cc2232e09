/** Requests that are made again after an API server has once failed to answer them. */
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import type { Transport } from '../../../../src/client/reflector/transport.js'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { HttpResource } from '../../../../src/kubernetes/upstream/http-resource.js'
import { RemoteApiServer } from '../../../../src/kubernetes/upstream/remote-api-server.js'
import { seededRandom } from '../../../../src/support/random.js'
import { PODS, rev } from '../../../support/objects.js'
import { until } from '../../../support/until.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

const prefix = keyFromText('/registry/example.com/things/')
const THINGS = { ...PODS, group: 'example.com', plural: 'things', kind: 'Thing', etcdPrefix: prefix }
const PATH = '/apis/example.com/v1/things'
/** So many that asking for the progress is faster than a list. */
const OBJECTS = 600

const things = Array.from({ length: OBJECTS }, (_, i) => ({
  metadata: { name: `t${i}`, namespace: 'a', resourceVersion: String(i + 1) },
}))
const documents: Readonly<Record<string, object>> = {
  '/version': { gitVersion: 'v1.37.2' },
  '/api/v1/namespaces/kube-system': { metadata: { uid: 'uid' } },
  [PATH]: { metadata: { resourceVersion: '1000' }, items: things },
}

/** A server that streams no state. `streams` counts the requests for one, and the watches are in `bodies`. */
function setUp(t: Test) {
  const clock = new VirtualClock()
  const bodies: PassThrough[] = []
  const counts = { streams: 0 }
  const transport: Transport = {
    async send({ path, query }) {
      const respond = (status: number, body: AsyncIterable<Uint8Array>) => ({ status, header: () => null, body })
      if (query['sendInitialEvents'] !== undefined) {
        counts.streams++
        return respond(422, new PassThrough().end('{}'))
      }
      const body = new PassThrough()
      if (query['watch'] === undefined) return respond(200, body.end(JSON.stringify(documents[path] ?? {})))
      bodies.push(body)
      return respond(200, body)
    },
  }
  const server = new RemoteApiServer({ transport, url: 'http://127.0.0.1', clock })
  t.teardown(() => server.close())
  const resource = new HttpResource({ server, resource: THINGS, random: seededRandom(1) })
  const list = async (): Promise<void> => void t.equal((await resource.read({ prefix })).count, OBJECTS)
  return { clock, bodies, counts, resource, list }
}

void t.test('a state is requested as a stream again, ten minutes after that failed', async (t) => {
  const { clock, counts, list } = setUp(t)
  await list()
  t.equal(counts.streams, 1)
  clock.advance(599_000)
  await list()
  t.equal(counts.streams, 1)
  clock.advance(1_000)
  await list()
  t.equal(counts.streams, 2)
})

void t.test('an API server is asked for its progress, unless its last watch ended without a bookmark', async (t) => {
  const { clock, bodies, resource, list } = setUp(t)
  await resource.status()
  await list()
  t.ok(resource.trustsProgress)
  let opened = false
  const watch = resource.watch(
    { prefix, startRevision: rev(1_001) },
    { onOpen: () => (opened = true), onBatches() {}, onProgress() {}, onEnd: (end) => t.fail(JSON.stringify(end)) },
  )
  t.teardown(() => watch.close())
  await until(() => opened, 'the watch is open')
  const ask = async (): Promise<PassThrough> => {
    const before = bodies.length
    await until(() => {
      watch.requestProgress()
      return bodies.length > before
    }, 'it is asked')
    return bodies.at(-1)!
  }
  const interrupted = await ask()
  interrupted.end()
  const quiet = await ask()
  t.ok(resource.trustsProgress, 'a watch that ends early proves nothing')
  clock.advance(3_000)
  quiet.end()
  await until(() => !resource.trustsProgress, 'it sends no bookmarks')
  const object = { kind: 'Thing', apiVersion: 'example.com/v1', metadata: { resourceVersion: '1001' } }
  bodies[0]!.write(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`)
  await until(() => resource.trustsProgress, 'it does')
})

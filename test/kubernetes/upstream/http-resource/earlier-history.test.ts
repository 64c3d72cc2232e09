/** What a server behind an API server reads back from its watch cache at a start, and what its clients get of it. */
import t, { type Test } from 'tap'
import { nodeTransport } from '../../../../src/client/node/node-transport.js'
import type { TransportRequest } from '../../../../src/client/reflector/transport.js'
import type { Batch } from '../../../../src/engine/model/event.js'
import { nextRevision, type Revision } from '../../../../src/engine/model/revision.js'
import type { UpstreamWatch, WatchEnd } from '../../../../src/engine/upstream/upstream.js'
import { HttpResource } from '../../../../src/kubernetes/upstream/http-resource.js'
import { RemoteApiServer } from '../../../../src/kubernetes/upstream/remote-api-server.js'
import { load } from '../../../../src/server/config/load.js'
import { systemClock } from '../../../../src/support/clock.js'
import { seededRandom } from '../../../../src/support/random.js'
import { type AppHarness, type AppHarnessOptions, startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'
import { wholeObject } from '../../../support/whole-object.js'

interface EventLine {
  readonly type: string
  readonly object: {
    readonly code?: number
    readonly metadata: { readonly name: string; readonly resourceVersion: string }
  }
}

const onNode = (name: string, nodeName: string): object =>
  wholeObject(pod(name, { namespace: 'a', labels: { app: name }, spec: { nodeName } }))

const event = wholeObject({
  apiVersion: 'v1',
  kind: 'Event',
  metadata: { name: 'e', namespace: 'a' },
  involvedObject: { kind: 'Pod', namespace: 'a', name: 'x' },
  reason: 'Started',
})

/** A server that stands in for an API server. A few resources are enough. */
async function frontOf(t: Test, options: AppHarnessOptions): Promise<AppHarness> {
  const loaded = load([], {}, () => '')
  const resources =
    loaded.kind === 'run'
      ? loaded.config.resources.filter(({ resource }) => ['pods', 'configmaps', 'events'].includes(resource.plural))
      : []
  return await startApp(t, { ...options, config: { resources } })
}

function serverOf(front: AppHarness, requests: TransportRequest[]): RemoteApiServer {
  const transport = nodeTransport({ server: front.url })
  return new RemoteApiServer({
    transport: {
      send: (request) => {
        requests.push(request)
        return transport.send(request)
      },
    },
    url: front.url,
    clock: systemClock,
    speaksSse: false,
  })
}

async function behind(t: Test, front: AppHarness, flags: readonly string[] = []) {
  const requests: TransportRequest[] = []
  const atStart = front.upstream.revision
  const server = serverOf(front, requests)
  const back = await startApp(t, { flags: ['--upstream', front.url, ...flags], server })
  /** The past revisions from which a resource was watched, and at which it was listed. */
  const past = (plural: string): { readonly watches: number[]; readonly lists: number[] } => {
    const of = requests.filter(({ path }) => path === `/api/v1/${plural}`).map(({ query }) => query)
    const at = (queries: typeof of): number[] => queries.map(({ resourceVersion }) => Number(resourceVersion))
    return {
      watches: at(of.filter(({ watch, sendInitialEvents }) => watch === '1' && sendInitialEvents === undefined)).filter(
        (revision) => revision < atStart,
      ),
      lists: at(
        of.filter((query) => query['resourceVersionMatch'] === 'Exact' && query['fieldSelector'] === undefined),
      ),
    }
  }
  return { back, past }
}

void t.test('a watch from the past leaves a streamed state to the watch that continues it', async (t) => {
  const front = await frontOf(t, { objects: { 'pods/a/x': onNode('x', 'n1') } })
  const requests: TransportRequest[] = []
  const server = serverOf(front, requests)
  const { resource } = [...front.app.sources].find((one) => one.resource.plural === 'pods')!
  const upstream = new HttpResource({ server, resource, random: seededRandom(1) })
  const page = await upstream.read({ prefix: resource.etcdPrefix, willWatch: true })
  t.ok(page.isContinued)
  const seen: number[] = []
  const follow = (startRevision: Revision): UpstreamWatch => {
    const onEnd = (end: WatchEnd): void => void t.fail(`${startRevision}: ${end.kind}`)
    const onBatches = (batches: readonly Batch[]): void => void seen.push(...batches.map(({ revision }) => revision))
    const handlers = { onOpen: () => {}, onBatches, onProgress: () => {}, onEnd }
    return upstream.watch({ prefix: resource.etcdPrefix, startRevision }, handlers)
  }
  const past = follow(page.revision)
  await until(() => seen.length === 1, 'the event from the past')
  past.close()
  const next = follow(nextRevision(page.revision))
  const written = front.put('pods/a/y', onNode('y', 'n1'))
  await until(() => seen.length === 2, 'the next event')
  next.close()
  t.same(seen, [page.revision, written])
  const watches = requests.filter(({ path, query }) => path === '/api/v1/pods' && query['watch'] === '1')
  t.same(
    watches.map(({ query }) => query['sendInitialEvents'] ?? query['resourceVersion']),
    ['true', String(page.revision - 1)],
    'no request for what comes next',
  )
})

async function watch(h: AppHarness, plural: string, revision: number, query = ''): Promise<string[]> {
  const response = await fetch(`${h.url}/api/v1/${plural}?watch=1&resourceVersion=${revision}&timeoutSeconds=1${query}`)
  return (await response.text())
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const { type, object } = JSON.parse(line) as EventLine
      return `${type} ${object.code ?? object.metadata.name} ${object.metadata.resourceVersion}`
    })
}

void t.test('a watch from before the start gets every event, in every selection, as from that server', async (t) => {
  const front = await frontOf(t, { objects: { 'events/a/e': event, 'configmaps/a/c': { metadata: { name: 'c' } } } })
  front.put('pods/a/x', onNode('x', 'n1'))
  const seen = front.put('pods/a/gone', onNode('gone', 'n1'))
  front.put('pods/a/x', onNode('x', 'n2'))
  front.put('events/a/e', { ...event, count: 2 })
  front.delete('pods/a/gone')
  front.put('pods/a/y', onNode('y', 'n1'))
  const { back, past } = await behind(t, front)
  const expectations: readonly (readonly [query: string, expected: readonly string[]])[] = [
    ['', [`MODIFIED x ${seen + 1}`, `DELETED gone ${seen + 3}`, `ADDED y ${seen + 4}`]],
    ['&fieldSelector=spec.nodeName=n1', [`DELETED x ${seen + 1}`, `DELETED gone ${seen + 3}`, `ADDED y ${seen + 4}`]],
    ['&fieldSelector=spec.nodeName=n2', [`ADDED x ${seen + 1}`]],
    ['&labelSelector=app=gone', [`DELETED gone ${seen + 3}`]],
  ]
  const received = await Promise.all(expectations.map(([query]) => watch(back, 'pods', seen, query)))
  const there = await Promise.all(expectations.map(([query]) => watch(front, 'pods', seen, query)))
  t.same(
    received,
    expectations.map(([, expected]) => expected),
  )
  t.same(there, received, 'the same')
  t.same(past('pods').lists, [1], 'one exact list')
  t.equal(past('pods').watches[0], 1)
  t.same(past('configmaps').lists.length, 1)
  t.same(past('events'), { watches: [], lists: [] }, 'Events are not read back, because API servers do not cache them')
  t.same(await watch(back, 'events', seen), ['ERROR 410 undefined'])
})

void t.test('a position of a poll from before the start is known again', async (t) => {
  const front = await frontOf(t, { objects: { 'pods/a/x': onNode('x', 'n1') } })
  const first = await behind(t, front)
  const list = await fetch(`${first.back.url}/api/v1/pods?history=`)
  const position = list.headers.get('x-distributary-position')!
  await first.back.app.stop()
  front.put('pods/a/x', onNode('x', 'n2'))
  const { back } = await behind(t, front)
  const poll = `watch=1&resourceVersion=${position.split('.')[0]}&history=${position}&wait=5s`
  const answer = await fetch(`${back.url}/api/v1/pods?${poll}`)
  t.equal(answer.status, 200)
  t.match(await answer.text(), /MODIFIED/)
})

void t.test('where that server has just started as well, a watch from before gets 410 as before', async (t) => {
  const objects = { 'pods/a/x': onNode('x', 'n1'), 'pods/a/y': onNode('y', 'n1') }
  const front = await frontOf(t, { objects, flags: ['--backfill-revisions', '0'] })
  const { back, past } = await behind(t, front)
  t.same(await watch(back, 'pods', 2), ['ERROR 410 undefined'])
  t.same(past('pods').watches, [1], 'an empty window is not tried again')
  const seen = front.put('pods/a/x', onNode('x', 'n2'))
  t.same(await watch(back, 'pods', seen - 1), [`MODIFIED x ${seen}`])
})

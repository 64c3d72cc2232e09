/**
 * Events, which an API server does not cache: it sends no bookmarks, ends each watch after some minutes, and etcd has
 * compacted their position by then.
 */
import t, { type Test } from 'tap'
import { nodeTransport } from '../../../../src/client/node/node-transport.js'
import type { Transport } from '../../../../src/client/reflector/transport.js'
import { keyFromText } from '../../../../src/engine/model/event.js'
import type { Revision } from '../../../../src/engine/model/revision.js'
import { RemoteApiServer } from '../../../../src/kubernetes/upstream/remote-api-server.js'
import { load } from '../../../../src/server/config/load.js'
import { systemClock } from '../../../../src/support/clock.js'
import { startApp } from '../../../support/app.js'
import { until } from '../../../support/until.js'
import { type Target, WatchRecorder } from '../../../support/watch-recorder.js'

const PATH = '/api/v1/events'
const events: Target = { groupVersionPath: '/api/v1', plural: 'events', prefix: keyFromText('/registry/events/') }
const event = (name: string): object => ({
  apiVersion: 'v1',
  kind: 'Event',
  metadata: { name, namespace: 'a', uid: `uid-${name}` },
  involvedObject: {},
})

/** The server behind a transport that ends watches of Events, and refuses those from before a compaction. */
async function setUp(t: Test, flags: readonly string[] = []) {
  const loaded = load([], {}, () => '')
  const resources =
    loaded.kind === 'run'
      ? loaded.config.resources.filter(({ resource }) => ['events', 'configmaps'].includes(resource.plural))
      : []
  const front = await startApp(t, { objects: { 'events/a/e': event('e') }, config: { resources } })
  const inner = nodeTransport({ server: front.url })
  let compacted = 0
  let refused = 0
  const open = new Set<() => void>()
  const transport: Transport = {
    async send(request) {
      const { watch, resourceVersion } = request.query
      if (request.path !== PATH || watch !== '1') return await inner.send(request)
      if (resourceVersion !== undefined && Number(resourceVersion) < compacted) {
        refused++
        return gone(resourceVersion)
      }
      const response = await inner.send(request)
      const ended = new Promise<null>((resolve) => open.add(() => resolve(null)))
      return { ...response, body: upTo(response.body, ended) }
    },
  }
  const server = new RemoteApiServer({ transport, url: front.url, clock: systemClock, speaksSse: false })
  const back = await startApp(t, { flags: ['--upstream', front.url, ...flags], server })
  const recorder = new WatchRecorder({ url: back.url })
  t.teardown(() => recorder.close())
  const reaches = async (name: string): Promise<Revision> => {
    const revision = front.put(`events/a/${name}`, event(name))
    await until(async () => (await (await fetch(`${back.url}${PATH}?resourceVersion=0`)).text()).includes(name), name)
    return revision
  }
  /** Nothing happens to Events until their position is compacted and the watch ends. */
  const expire = async (i: number): Promise<void> => {
    for (let j = 0; j < 5; j++) front.put('configmaps/a/c', { metadata: { name: 'c', namespace: 'a' }, data: { i, j } })
    compacted = front.upstream.revision
    const before = refused
    for (const end of open) end()
    await until(() => refused > before, 'the next watch is refused')
  }
  return { front, back, recorder, reaches, expire }
}

function gone(resourceVersion: string) {
  const message = `The resourceVersion for the provided watch is too old: ${resourceVersion}`
  const status = { kind: 'Status', apiVersion: 'v1', status: 'Failure', message, reason: 'Expired', code: 410 }
  const body = (async function* () {
    yield Buffer.from(JSON.stringify(status))
  })()
  return { status: 410, header: (name: string) => (name === 'content-type' ? 'application/json' : null), body }
}

async function* upTo(body: AsyncIterable<Uint8Array>, ended: Promise<null>): AsyncGenerator<Uint8Array> {
  const chunks = body[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await Promise.race([chunks.next(), ended])
      if (next === null || next.done === true) return
      yield next.value
    }
  } finally {
    void chunks.return?.()
  }
}

void t.test('watches of quiet Events survive every end of the watch at the API server', async (t) => {
  const { back, recorder, reaches, expire } = await setUp(t)
  const { metadata } = (await (await fetch(`${back.url}${PATH}`)).json()) as {
    readonly metadata: { readonly resourceVersion: string }
  }
  const watches = [
    recorder.watch({ target: events, sendInitialEvents: true }),
    recorder.watch({ target: events, resourceVersion: metadata.resourceVersion }),
  ]
  const revisions: Revision[] = []
  for (let i = 0; i < 3; i++) {
    const revision = await reaches(`e${i}`)
    revisions.push(revision)
    // The state with which a watch begins must not be read over a response that is about to be ended.
    await Promise.all(watches.map((watch) => watch.untilRevision(revision)))
    await expire(i)
  }
  revisions.push(await reaches('last'))
  for (const watch of watches) {
    await watch.untilRevision(revisions.at(-1)!)
    t.equal(watch.end, 'open')
    const told = watch.items.flatMap((item) => ('revision' in item && item.type !== 'BOOKMARK' ? [item.revision] : []))
    t.same(told.slice(-revisions.length), revisions)
  }
  const { text } = await back.app.metrics.expose()
  const relists = /^distributary_feed_relists_total\{group="",resource="events",reason="coalesce"\} (\d+)$/m.exec(text)
  t.ok(Number(relists?.[1]) >= 3, 'although each end cost a list there')
})

void t.test('with --on-gap=expire they end with 410', async (t) => {
  const { back, recorder, reaches, expire } = await setUp(t, ['--on-gap', 'expire'])
  const watch = recorder.watch({ target: events, sendInitialEvents: true })
  await watch.untilRevision(await reaches('e0'))
  await expire(0)
  await watch.ended
  t.equal(watch.code, 410)
  t.equal((await fetch(`${back.url}${PATH}`)).status, 200)
})

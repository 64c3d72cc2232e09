/**
 * A server behind `--upstream` whose role there loses a permission: the watches of its clients end, and go on where they
 * were, here or at the API server.
 */
import t, { type Test } from 'tap'
import { nodeTransport } from '../../../../src/client/node/node-transport.js'
import { keyFromText } from '../../../../src/engine/model/event.js'
import type { Revision } from '../../../../src/engine/model/revision.js'
import { RemoteApiServer } from '../../../../src/kubernetes/upstream/remote-api-server.js'
import { startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'
import { type RecordedWatch, type Target, WatchRecorder } from '../../../support/watch-recorder.js'
import { LIST, openScene, reads, type Scene, setScene } from './permission-scene.js'

const PATH = '/api/v1/pods'
const pods: Target = { groupVersionPath: '/api/v1', plural: 'pods', prefix: keyFromText('/registry/pods/') }
const headers = { authorization: 'Bearer caller' }
const ALL = reads(['get', ...LIST], '*')
const UNWATCHED = reads(['get', 'list'], '*')

async function statusOfWatch(url: string, query: string): Promise<number> {
  const leaving = new AbortController()
  const { status } = await fetch(`${url}${PATH}?watch=1&${query}`, { headers, signal: leaving.signal })
  leaving.abort()
  return status
}

/** The resourceVersions of the events of a watch, without bookmarks. */
const told = ({ items }: RecordedWatch): readonly number[] =>
  items.flatMap((item) => ('revision' in item && item.type !== 'BOOKMARK' ? [Number(item.revision)] : []))

const relists = (text: string): readonly string[] =>
  text.split('\n').filter((line) => /^distributary_feed_relists_total\{.*resource="pods".* [1-9]/.test(line))

/** Watches that have received an event. */
async function startWatches({ front }: Scene, recorder: WatchRecorder): Promise<readonly RecordedWatch[]> {
  const { revision } = await recorder.list({ target: pods, headers })
  const watches = [
    recorder.watch({ target: pods, resourceVersion: String(revision), headers }),
    recorder.watch({ target: pods, sendInitialEvents: true, headers }),
  ]
  const written = front.put('pods/a/y', pod('y', { namespace: 'a' }))
  await Promise.all(watches.map((watch) => watch.untilRevision(written)))
  return watches
}

async function untilEnded({ later }: Scene, watches: readonly RecordedWatch[]): Promise<void> {
  await until(async () => {
    await later()
    return watches.every(({ end }) => end !== 'open')
  }, 'the watches end')
}

/** Resumes watches that have ended. Each gets the event that was written meanwhile, once. */
async function resume(
  t: Test,
  recorder: WatchRecorder,
  watches: readonly RecordedWatch[],
  written: Revision,
): Promise<void> {
  const resumed = watches.map((watch) => recorder.resume(watch, 'bookmark')!)
  await Promise.all(resumed.map((watch) => watch.untilRevision(written)))
  for (const watch of resumed) t.same(told(watch), [written])
}

void t.test('watches end, and resume without a list when the source allows them again', async (t) => {
  const scene = await setScene(t, ALL)
  const { front, back, permit, answer, later } = scene
  const recorder = new WatchRecorder({ url: back.url })
  t.teardown(() => recorder.close())
  const watches = await startWatches(scene, recorder)
  permit(UNWATCHED)
  await untilEnded(scene, watches)
  for (const { end, items } of watches) {
    t.equal(end, 'eof', 'an informer lists again after an error')
    t.equal(items.at(-1)?.type, 'BOOKMARK')
  }
  const written = front.put('pods/a/z', pod('z', { namespace: 'a' }))
  const after = `resourceVersion=${written - 1}`
  for (const query of [after, 'resourceVersion=0', '', `${after}&wait=5s`]) {
    t.equal(await statusOfWatch(back.url, query), 429, `"${query}" is refused, and an informer keeps what it has`)
  }
  const refused = await answer(`${PATH}?watch=1&resourceVersion=${written - 1}`)
  t.match(refused.text, /the storage refuses this server's own watch/)
  t.notMatch(refused.text, /edge|127\.0\.0\.1|forbidden/i)
  t.ok((await answer(PATH)).text.includes(`"${written}"`), 'lists are still allowed')
  const readiness = (await answer('/readyz?verbose')).text
  t.match(readiness, /^\[\*\]cache-pods not watched: permission-denied: .*"edge" cannot watch/m)
  t.match(readiness, /^\[\*\]upstream-permissions .*cannot watch/m)
  t.equal((await answer('/readyz')).status, 200)

  permit(ALL)
  await until(async () => {
    await later()
    return (await statusOfWatch(back.url, `resourceVersion=${written - 1}`)) === 200
  }, 'it is allowed again')
  await resume(t, recorder, watches, written)
  const { text } = await back.app.metrics.expose()
  t.same(relists(text), [])
  t.match(text, /^distributary_broadcast_watchers_ended_total\{group="",resource="pods",reason="refused"\} 2$/m)
})

void t.test('a refusal that passes within seconds ends no watch', async (t) => {
  const scene = await setScene(t, ALL)
  const { front, back, permit, lines } = scene
  const recorder = new WatchRecorder({ url: back.url })
  t.teardown(() => recorder.close())
  const watches = await startWatches(scene, recorder)
  permit(UNWATCHED)
  await until(() => lines.some((line) => line.includes('"permission":"watch pods"')), 'the watch is refused')
  permit(ALL)
  const written = front.put('pods/a/z', pod('z', { namespace: 'a' }))
  await Promise.all(watches.map((watch) => watch.untilRevision(written)))
  t.same(
    watches.map(({ end }) => end),
    ['open', 'open'],
  )
  t.same(relists((await back.app.metrics.expose()).text), [])
})

void t.test('with --passthrough watches go on at the API server, which then answers everything', async (t) => {
  const scene = await openScene(t, [ALL], true)
  const { front, back, permit, answer } = scene
  await until(async () => (await answer('/readyz?verbose')).text.includes('[+]cache-pods ok'), 'pods are cached')
  const recorder = new WatchRecorder({ url: back.url })
  t.teardown(() => recorder.close())
  const watches = await startWatches(scene, recorder)
  permit()
  await untilEnded(scene, watches)
  for (const { end } of watches) t.equal(end, 'eof')
  const written = front.put('pods/a/z', pod('z', { namespace: 'a' }))
  await resume(t, recorder, watches, written)
  t.ok((await answer(`${PATH}?resourceVersion=0`)).text.includes(`"${written}"`), 'nobody gets old data')
  const events = await answer(`${PATH}?watch=1&resourceVersion=${written - 1}`, 'text/event-stream')
  t.match(events, { status: 200, text: /"code":429/ }, 'an EventSource would give up after the 406 of an API server')
})

void t.test('so do the watches of the next server of a chain, which does not call it a timeout', async (t) => {
  const scene = await setScene(t, ALL)
  const { back, front, permit, later, clock } = scene
  const server = new RemoteApiServer({ transport: nodeTransport({ server: back.url }), url: back.url, clock })
  const last = await startApp(t, { flags: ['--upstream', back.url], server, clock })
  const recorder = new WatchRecorder({ url: last.url })
  t.teardown(() => recorder.close())
  const watches = await startWatches(scene, recorder)
  permit()
  await untilEnded(scene, watches)
  for (const { end } of watches) t.equal(end, 'eof')
  const written = front.put('pods/a/z', pod('z', { namespace: 'a' }))
  t.equal(await statusOfWatch(last.url, `resourceVersion=${written - 1}`), 429)
  t.equal((await fetch(`${last.url}${PATH}`)).status, 503)
  const readiness = await (await fetch(`${last.url}/readyz?verbose`)).text()
  t.notMatch(readiness, /^\[.\]upstream-permissions .*pods/m, 'its own role is not at fault')
  permit(ALL)
  await until(async () => {
    await later()
    return (await statusOfWatch(last.url, `resourceVersion=${written - 1}`)) === 200
  }, 'it is allowed again')
  await resume(t, recorder, watches, written)
  t.same(relists((await last.app.metrics.expose()).text), [])
})

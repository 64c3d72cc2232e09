/**
 * Resources in other etcds (`--etcd-servers-overrides`): each has a watch, a freshness and a history of its own, and
 * what happens to one etcd does not reach the resources of the other.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import type { Revision } from '../../src/engine/model/revision.js'
import { assertGuarantees } from '../guarantees/validate.js'
import { Folder, issue } from '../server/auth/fixtures.js'
import type { IssuedCertificate } from '../support/issue-certificate.js'
import { type EtcdHistoryRecorder, recordEtcdHistory } from '../support/etcd-history.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.js'
import { pod } from '../support/pod.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { pause, until } from '../support/until.js'
import { type RecordedWatch, type Target, WatchRecorder } from '../support/watch-recorder.js'

const PODS = '/api/v1/pods'
const EVENTS = '/api/v1/events'
const NEW_EVENTS = '/apis/events.k8s.io/v1/events'

const event = (name: string, note = ''): object => ({
  apiVersion: 'v1',
  kind: 'Event',
  metadata: { name, namespace: 'a', uid: `uid-of-${name}`, creationTimestamp: '2026-01-01T00:00:00Z' },
  involvedObject: { kind: 'Pod', namespace: 'a', name: 'x' },
  reason: 'Started',
  message: note,
  source: {},
  firstTimestamp: '2026-01-01T00:00:00Z',
  lastTimestamp: '2026-01-01T00:00:00Z',
  type: 'Normal',
  eventTime: null,
  reportingComponent: '',
  reportingInstance: '',
})

interface List {
  readonly metadata: { readonly resourceVersion: string }
  readonly items: readonly { readonly metadata: { readonly name: string; readonly resourceVersion: string } }[]
}

/** Writes to both etcds until their revisions are far apart, and returns those. */
async function filled(main: EtcdProcess, other: EtcdProcess): Promise<{ main: Revision; other: Revision }> {
  const [toMain, toOther] = [new EtcdWriter([main]), new EtcdWriter([other])]
  for (let i = 0; i < 100; i++) await toMain.put('/registry/pods/a/x', pod('x', { labels: { i: String(i) } }))
  // An event that an API server wrote here before it had the option. It no longer counts.
  await toMain.put('/registry/events/a/stale', event('stale'))
  const ofMain = await toMain.put('/registry/pods/a/y', pod('y', { namespace: 'a' }))
  return { main: ofMain, other: await toOther.put('/registry/events/a/e', event('e')) }
}

const flagsFor = (main: string, other: string): string[] => [
  `--etcd-servers=${main}`,
  `--etcd-servers-overrides=/events#${other}`,
]

const get = async (server: ServerProcess, path: string): Promise<Response> => await fetch(server.url + path)

async function list(server: ServerProcess, path: string): Promise<List> {
  const answer = await get(server, path)
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as List
}

const namesIn = ({ items }: List): string[] => items.map(({ metadata }) => metadata.name)

/** The lines about an etcd's outage, each with the etcd that it names. */
const outages = (server: ServerProcess): string[] =>
  server
    .log()
    .split('\n')
    .filter((line) => line.includes('"msg":"upstream is'))
    .map((line) => JSON.parse(line) as { readonly msg: string; readonly etcd?: string })
    .map(({ msg, etcd = 'main' }) => `${etcd}: ${msg.split(';')[0]}`)

for (const workers of [1, 2]) {
  void t.test(`an etcd that is down at the start leaves the other ready, with ${workers} workers`, async (t) => {
    const [main, other] = [await startEtcd(t), await startEtcd(t)]
    await filled(main, other)
    await other.kill()
    const flags = [...flagsFor(main.url, other.url), `--workers=${workers}`]
    const server = await startServer(t, { flags })
    t.equal((await get(server, '/readyz')).status, 200)
    t.match(
      await (await get(server, '/readyz?verbose')).text(),
      `[*]etcd-override-0 is unavailable: ${other.url} (events): `,
    )
    t.same(namesIn(await list(server, PODS)), ['x', 'y'])
    for (const path of [EVENTS, NEW_EVENTS, `${EVENTS}?resourceVersion=0`, `${EVENTS}?watch=1`]) {
      const answer = await get(server, path)
      await answer.arrayBuffer()
      t.equal(answer.status, 429, path)
      t.ok(Number(answer.headers.get('retry-after')) >= 1, `${path} says when to come back`)
    }
    await until(() => outages(server).length > 0, 'a line in the log')
    t.same(outages(server), [`${other.url}: upstream is unavailable`])

    await other.restart()
    await until(async () => (await get(server, EVENTS)).status === 200, 'events can be listed', 30_000)
    for (const path of [EVENTS, NEW_EVENTS]) t.same(namesIn(await list(server, path)), ['e'], path)
    await until(async () => (await (await get(server, '/readyz/etcd-override-0')).text()) === 'ok', 'all is well')
    await until(() => outages(server).length === 2, 'a second line in the log')
    t.equal(outages(server)[1], `${other.url}: upstream is back`)
  })
}

void t.test('a silent etcd does not delay the start', async (t) => {
  const [main, other] = [await startEtcd(t), await startEtcd(t)]
  const proxy = await startFaultProxy({ targetPort: Number(new URL(other.url).port) })
  t.teardown(() => proxy.close())
  proxy.setBlackhole(true)
  const server = await startServer(t, { flags: flagsFor(main.url, `http://127.0.0.1:${proxy.port}`) })
  t.match(await (await get(server, '/readyz?verbose')).text(), /etcd-override-0 is unavailable: .*\n/)
  t.equal((await get(server, PODS)).status, 200)
  proxy.setBlackhole(false)
  await until(async () => (await get(server, EVENTS)).status === 200, 'events can be listed')
})

void t.test('a start waits for the lists of both etcds', async (t) => {
  const [main, other] = [await startEtcd(t), await startEtcd(t)]
  await filled(main, other)
  const proxy = await startFaultProxy({ targetPort: Number(new URL(other.url).port) })
  t.teardown(() => proxy.close())
  proxy.setLatency(500)
  const server = await startServer(t, { flags: flagsFor(main.url, `http://127.0.0.1:${proxy.port}`) })
  t.equal((await list(server, `${EVENTS}?resourceVersion=0`)).items.length, 1)
})

void t.test('revisions of different etcds are not compared', async (t) => {
  const [main, other] = [await startEtcd(t), await startEtcd(t)]
  const at = await filled(main, other)
  t.ok(at.main > at.other + 90, 'the revisions are far apart')
  const server = await startServer(t, { flags: flagsFor(main.url, other.url) })

  for (const query of ['', '?resourceVersion=0', `?resourceVersion=${at.other}`, '?limit=1']) {
    const events = await list(server, `${EVENTS}${query}`)
    t.same(namesIn(events), ['e'], `events${query}`)
    t.equal(Number(events.metadata.resourceVersion), at.other, `the events' own revision, ${query}`)
    t.equal(Number(events.items[0]!.metadata.resourceVersion), at.other)
  }
  t.equal(Number((await list(server, PODS)).metadata.resourceVersion), at.main)
  t.equal((await get(server, '/api/v1/namespaces/a/events/e')).status, 200)

  // The pods' revision is in the future of the events.
  const late = await get(server, `${EVENTS}?resourceVersion=${at.main}`)
  t.match(await late.json(), { code: 504, message: /Too large resource version/ })
  const watch = await get(server, `${EVENTS}?watch=1&resourceVersion=${at.main}`)
  t.match(await watch.text(), new RegExp(`${at.main} has never existed here: the storage is at ${at.other}`))
  // etcd itself has reached that revision, too.
  const recorder = new WatchRecorder({ url: server.url })
  t.teardown(() => recorder.close())
  const ofPods = recorder.watch({ target: pods, resourceVersion: String(at.main) })
  const ofEvents = recorder.watch({ target: eventsTarget, resourceVersion: String(at.other) })
  const next = {
    pod: await new EtcdWriter([main]).put('/registry/pods/a/z', pod('z', { namespace: 'a' })),
    event: await new EtcdWriter([other]).put('/registry/events/a/f', event('f')),
  }
  await Promise.all([ofPods.untilRevision(next.pod), ofEvents.untilRevision(next.event)])

  // Compaction is the events' own, too.
  for (let i = 0; i < 5; i++) await new EtcdWriter([other]).put('/registry/events/a/f', event('f', String(i)))
  const end = await new EtcdWriter([other]).put('/registry/events/a/g', event('g'))
  await ofEvents.untilRevision(end)
  await other.compact(end)
  const again = await startServer(t, { flags: flagsFor(main.url, other.url) })
  const gone = await get(again, `${EVENTS}?watch=1&resourceVersion=${at.other}`)
  t.match(await gone.text(), /"code":410/)
  const kept = await get(again, `${EVENTS}?watch=1&resourceVersion=${end}&timeoutSeconds=1`)
  t.notMatch(await kept.text(), /"code":410/)

  const checked = (await (await fetch(`${server.url}/consistency-check`, { method: 'POST' })).json()) as {
    readonly resources: readonly { readonly resource: string; readonly outcome: string; readonly revision: number }[]
  }
  const rows = new Map(checked.resources.map((row) => [row.resource, row]))
  t.match(rows.get('events'), { outcome: 'equal', revision: end })
  t.match(rows.get('pods'), { outcome: 'equal', revision: next.pod })
  const metrics = await server.metrics()
  t.equal(metrics.get('distributary_cache_resource_version{group="",resource="events"}'), end)
})

void t.test('a resource without a cache is read from its own etcd', async (t) => {
  const [main, other] = [await startEtcd(t), await startEtcd(t)]
  const at = await filled(main, other)
  const flags = [...flagsFor(main.url, other.url), '--watch-cache-sizes=events#0']
  const server = await startServer(t, { flags })
  const events = await list(server, EVENTS)
  t.same([namesIn(events), Number(events.metadata.resourceVersion)], [['e'], at.other])
  const watch = await get(server, `${EVENTS}?watch=1&resourceVersion=${at.other}`)
  await new EtcdWriter([other]).put('/registry/events/a/f', event('f'))
  let text = ''
  for await (const part of watch.body!) {
    text += Buffer.from(part).toString()
    if (text.includes('\n')) break
  }
  t.match(text, /"name":"f"/)
})

void t.test('one certificate and one authority serve for both etcds', async (t) => {
  const folder = new Folder(t)
  const authority = issue('authority')
  const put = (name: string, { cert, key }: IssuedCertificate): { readonly cert: string; readonly key: string } => ({
    cert: folder.write(`${name}.crt`, cert),
    key: folder.write(`${name}.key`, key),
  })
  const clientCa = folder.write('ca.crt', authority.cert)
  const serving = put('serving', issue('localhost', authority, { altNames: ['127.0.0.1', 'localhost'] }))
  const client = put('client', issue('client', authority))
  const tls = { tls: { ...serving, clientCa } }
  const [main, other] = [await startEtcd(t, tls), await startEtcd(t, tls)]
  const files = [`--etcd-cafile=${clientCa}`, `--etcd-certfile=${client.cert}`, `--etcd-keyfile=${client.key}`]
  const server = await startServer(t, { flags: [...flagsFor(main.url, other.url), ...files] })
  for (const path of [PODS, EVENTS]) t.same(namesIn(await list(server, path)), [], path)
})

const pods: Target = { groupVersionPath: '/api/v1', plural: 'pods', prefix: keyFromText('/registry/pods/') }
const eventsTarget: Target = { groupVersionPath: '/api/v1', plural: 'events', prefix: keyFromText('/registry/events/') }

/** One etcd with its resource, behind a proxy, and everything that its watchers see. */
class Side {
  readonly writer: EtcdWriter
  #recorder: WatchRecorder | null = null
  #written = 0

  constructor(
    readonly etcd: EtcdProcess,
    readonly proxy: FaultProxy,
    readonly target: Target,
    public control: EtcdHistoryRecorder,
  ) {
    this.writer = new EtcdWriter([etcd])
  }

  get url(): string {
    return `http://127.0.0.1:${this.proxy.port}`
  }

  get recorder(): WatchRecorder {
    if (this.#recorder === null) throw new Error('nothing is watched yet')
    return this.#recorder
  }

  /** Opens watches from now and from the state, and returns when they run. */
  async watch(t: Test, { url }: ServerProcess): Promise<readonly RecordedWatch[]> {
    this.#recorder ??= new WatchRecorder({ url })
    const { recorder, target } = this
    t.teardown(() => recorder.close())
    const now = await this.write()
    const watches = [
      recorder.watch({ target, resourceVersion: String(now) }),
      recorder.watch({ target, sendInitialEvents: true }),
      recorder.watch({ target, namespace: 'a', resourceVersion: String(now) }),
    ]
    const next = await this.write()
    await Promise.all(watches.map((watch) => watch.untilRevision(next)))
    // The watch can be resumed only after that.
    await watches[1]!.until(({ lastRevision }) => lastRevision !== null)
    return watches
  }

  async write(): Promise<Revision> {
    const name = `o${this.#written++ % 7}`
    const key = `/registry/${this.target.plural}/a/${name}`
    const note = String(this.#written)
    const object = this.target === pods ? pod(name, { namespace: 'a', labels: { note } }) : event(name, note)
    return await this.writer.put(key, object)
  }

  async writes(count: number): Promise<Revision> {
    for (let i = 1; i < count; i++) await this.write()
    return await this.write()
  }

  /**
   * Writes, and compacts that away. The judge must have it first: it may still be reconnecting after the last fault.
   */
  async compact(): Promise<void> {
    const last = await this.writes(5)
    await until(() => this.control.revision >= last, 'the judge has what is compacted')
    await this.etcd.compact(last)
  }

  async judge(t: Test, settledRevision: Revision): Promise<void> {
    const reference = await this.control.finish(this.writer.commits)
    assertGuarantees(t, this.recorder.history(this.writer.writes), reference, { settledRevision })
  }
}

async function startSide(t: Test, target: Target): Promise<Side> {
  const etcd = await startEtcd(t)
  const proxy = await startFaultProxy({ targetPort: Number(new URL(etcd.url).port) })
  t.teardown(() => proxy.close())
  const control = await recordEtcdHistory(t, etcd)
  return new Side(etcd, proxy, target, control)
}

/** Faults, each of which breaks an etcd and resolves when the etcd is repaired. */
const faults: Readonly<Record<string, (side: Side) => Promise<void>>> = {
  'it is cut off': async ({ proxy }) => {
    await proxy.refuse()
    proxy.cut()
    await pause(1_500)
    await proxy.accept()
  },
  'it is killed and restarted': async ({ etcd }) => {
    await etcd.kill()
    await pause(500)
    await etcd.restart()
  },
  'it is compacted': async (side) => await side.compact(),
  'it is compacted while it is cut off': async (side) => {
    await side.proxy.refuse()
    side.proxy.cut()
    await side.compact()
    await side.proxy.accept()
  },
}
for (const which of ['main', 'other'] as const) {
  void t.test(`whatever happens to the ${which} etcd, no event is lost and the other continues`, async (t) => {
    const sides = { main: await startSide(t, pods), other: await startSide(t, eventsTarget) }
    const [broken, whole] = which === 'main' ? [sides.main, sides.other] : [sides.other, sides.main]
    await sides.main.writes(30)
    const server = await startServer(t, { flags: flagsFor(sides.main.url, sides.other.url) })
    const watches = { broken: await broken.watch(t, server), whole: await whole.watch(t, server) }
    for (const [name, strike] of Object.entries(faults)) {
      const struck = strike(broken)
      let isOver = false
      void struck.finally(() => (isOver = true))
      // While one etcd is away, the resources of the other are as fresh as ever.
      while (!isOver) {
        const revision = await whole.write()
        await Promise.all(watches.whole.map((watch) => watch.untilRevision(revision, 5_000)))
        const { metadata } = await list(server, `/api/v1/${whole.target.plural}`)
        if (Number(metadata.resourceVersion) < revision) t.fail(`a consistent list lacks a write: ${name}`)
      }
      await struck
      // Watches that missed compacted events get 410.
      if (name === 'it is compacted while it is cut off') {
        await Promise.all(watches.broken.map((watch) => watch.ended))
        t.same(
          watches.broken.map(({ code }) => code),
          [410, 410, 410],
        )
      } else {
        const last = await broken.writes(3)
        await Promise.all(watches.broken.map((watch) => watch.untilRevision(last)))
      }
    }
    for (const side of [broken, whole]) {
      const last = await side.write()
      const running = side.recorder.watches.filter(({ end }) => end === 'open')
      await Promise.all(running.map((watch) => watch.untilRevision(last)))
      await side.recorder.list({ target: side.target })
      await side.judge(t, last)
    }
    t.same(
      watches.whole.map(({ end }) => end),
      ['open', 'open', 'open'],
    )
    const named = outages(server).map((line) => (line.startsWith('main') ? 'main' : 'other'))
    t.same(new Set(named), new Set([which]), 'only one was away')
  })
}

void t.test('when one etcd is restored from a backup, only its watchers start over', async (t) => {
  const sides = { main: await startSide(t, pods), other: await startSide(t, eventsTarget) }
  const directory = await mkdtemp(join(tmpdir(), 'distributary-backup-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  await sides.other.writes(5)
  await sides.other.etcd.saveSnapshot(join(directory, 'snapshot'))
  const server = await startServer(t, { flags: flagsFor(sides.main.url, sides.other.url) })
  const watches = { main: await sides.main.watch(t, server), other: await sides.other.watch(t, server) }
  const before = await sides.other.writes(10)
  await Promise.all(watches.other.map((watch) => watch.untilRevision(before)))
  await sides.other.judge(t, before)
  await sides.other.etcd.restoreSnapshot(join(directory, 'snapshot'))
  await Promise.all(watches.other.map((watch) => watch.ended))
  t.same(
    watches.other.map(({ code }) => code),
    [410, 410, 410],
  )
  await until(async () => (await list(server, EVENTS).catch(() => null)) !== null, 'events can be listed')
  const events = await list(server, EVENTS)
  t.ok(Number(events.metadata.resourceVersion) < before, 'the restored state')
  const last = await sides.main.writes(3)
  await Promise.all(watches.main.map((watch) => watch.untilRevision(last)))
  t.same(
    watches.main.map(({ end }) => end),
    ['open', 'open', 'open'],
  )
  await sides.main.judge(t, last)
})

void t.test('kill -9 of the server: clients resume where each of the two histories was', async (t) => {
  const sides = { main: await startSide(t, pods), other: await startSide(t, eventsTarget) }
  await sides.main.writes(30)
  const flags = flagsFor(sides.main.url, sides.other.url)
  const server = await startServer(t, { flags })
  for (const side of [sides.main, sides.other]) await side.watch(t, server)
  const { port } = server
  await server.kill()
  for (const side of [sides.main, sides.other]) await side.writes(5)
  await startServer(t, { flags: [...flags, '--port', String(port)] })
  for (const side of [sides.main, sides.other]) {
    const ended = [...side.recorder.watches]
    const resumed = ended.flatMap((watch) => side.recorder.resume(watch, 'event') ?? [])
    t.equal(resumed.length, ended.length)
    const last = await side.writes(3)
    await Promise.all(resumed.map((watch) => watch.untilRevision(last)))
    t.same(new Set(resumed.map(({ end }) => end)), new Set(['open']))
    await side.judge(t, last)
  }
})

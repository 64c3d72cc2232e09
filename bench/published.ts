/**
 * Question: how do we do under loads for which others published figures? Each load has their source and figures in
 * `support/published-rows.ts`. Where it can, the API server does the same work in the same run.
 *
 * `--scale 0.1` measures a tenth of the size of a load, whose rows say so. `--subjects` names loads, not servers.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import {
  CREATED,
  customResource,
  EMPTY_MARK,
  MAGIC,
  type BenchObject,
  type BenchResource,
  uidOf,
} from './support/objects.js'
import { requireOpenFiles, resetPeak, sleep, usage, type Usage } from './support/processes.js'
import { PUBLISHED, type PublishedName, publishedNames } from './support/published-rows.js'
import type { Value } from './support/record.js'
import { type Scene, type SceneOptions, withScene } from './support/scene.js'
import { startWatchers, type Watchers, type WatchersOptions, type WatchRequest } from './support/watchers.js'

const QUICK_SCALE = 0.01
const BOTH = ['distributary/http1-tls', 'apiserver/http1-tls']
/** The smallest objects of the bench, of about 0.7 KB. */
const SMALL = { nodes: 100, bytes: 0 }

type Measure = (choice: Choice, target: Target, scale: number) => Promise<Record<string, Value>>

/** The servers and the measurement of each load. */
const loads: Readonly<Record<PublishedName, readonly [servers: readonly string[], measure: Measure]>> = {
  'initial-states': [BOTH, initialStates],
  'large-objects': [BOTH, largeObjects],
  'cilium-endpoints': [['distributary/http2-tls', 'apiserver/http2-tls'], ciliumEndpoints],
  'clients-at-once': [['distributary/http1'], clientsAtOnce],
  'terminated-watchers': [['distributary/http2-tls', 'apiserver/http2-tls'], terminatedWatchers],
  browsers: [['distributary/websocket'], browsers],
}

export const published: Question = async (choice) => {
  const scale = choice.scale ?? (choice.quick ? QUICK_SCALE : 1)
  const unknown = choice.subjects.filter((name) => !Object.hasOwn(PUBLISHED, name))
  if (unknown.length > 0) throw new Error(`no load ${unknown.join(', ')}; there are ${publishedNames.join(', ')}`)
  for (const load of publishedNames) {
    if (choice.subjects.length > 0 && !choice.subjects.includes(load)) continue
    const [servers, measure] = loads[load]
    for (const target of targets({ ...choice, subjects: [] }, servers)) {
      const row = { question: 'published', subject: target.kind.name, wire: target.wire, load, scale }
      await attempt(choice, row, async () => {
        choice.recorder.row({ ...row, ...(await measure(choice, target, scale)) })
      })
    }
  }
}

/** Rounds a part of a count up. */
const part = (count: number, scale: number): number => Math.max(1, Math.ceil(count * scale))

const secondsOf = (choice: Choice, usual: number): number => choice.seconds ?? (choice.quick ? 2 : usual)

function sceneOf(
  choice: Choice,
  target: Target,
  own: Pick<SceneOptions, 'watchers' | 'objects'> & { readonly resource?: BenchResource },
): SceneOptions {
  const most = `${own.watchers + 1_000}`
  const limits =
    target.kind.name === 'distributary' ? [`--max-watchers=${most}`, `--max-watchers-per-client=${most}`] : []
  return { ...choice, ...target, serverFlags: [...choice.serverFlags, ...limits], ...own }
}

/** A watch that begins with all objects. */
function withInitialStates(request: WatchRequest): WatchRequest {
  const query = 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true'
  return { ...request, path: `${request.path}&${query}` }
}

const STATES_MS = 1_200_000

interface States {
  readonly seconds: number
  readonly bytes: number
  /** The number of watches that the server ended before they had everything. Their clients would begin again. */
  readonly ended: number
}

/** Opens the watches at once, and resolves when each that was not ended has received as many objects as there are. */
async function receiveStates({ subject }: Scene, clients: number, objects: number): Promise<States> {
  const begin = performance.now()
  const { watchers, ready } = startWatchers(withInitialStates(subject.watch({})), {
    connections: clients,
    burst: clients,
    readyTimeoutMs: STATES_MS,
  })
  await ready
  for (;;) {
    const { received, totalBytes, ended } = await watchers.report()
    const seconds = (performance.now() - begin) / 1000
    if (received >= (clients - ended) * objects) return { seconds, bytes: totalBytes, ended }
    if (seconds * 1000 > STATES_MS) throw new Error(`${received} of ${clients * objects} objects came`)
    await sleep(50)
  }
}

/** @throws Error when a watch was ended. */
async function receiveAllStates(scene: Scene, clients: number, objects: number): Promise<States> {
  const states = await receiveStates(scene, clients, objects)
  if (states.ended > 0) throw new Error(`${states.ended} watches were ended`)
  return states
}

const STATES_AT_ONCE = 50
const BYSTANDERS = 10
const EVENTS_PER_SECOND = 50

async function initialStates(choice: Choice, target: Target, scale: number): Promise<Record<string, Value>> {
  const count = part(500_000, scale)
  const options = sceneOf(choice, target, {
    watchers: BYSTANDERS + STATES_AT_ONCE,
    objects: { count, ...SMALL },
  })
  return await withScene(options, async (scene) => {
    const { subject, source } = scene
    const bystanders = await scene.openWatchers({ connections: BYSTANDERS })
    const run = { rate: EVENTS_PER_SECOND, count: 1e9, ms: secondsOf(choice, 20) * 1000 }
    const without = await measureStretch({ subject, source, watchers: bystanders, run })
    await bystanders.mark()
    let isOver = false
    const writing = (async () => {
      let { next } = without.run
      do next = (await source.run({ ...run, ms: 1_000 })).next
      while (!isOver)
      return next
    })()
    // It is awaited below, also if the states fail.
    writing.catch(() => {})
    const states = await receiveStates(scene, STATES_AT_ONCE, count).finally(() => {
      isOver = true
    })
    const report = await bystanders.caughtUp(await writing, 60_000)
    const { delayMs, event, missing, repeated, ended } = report
    if (missing + repeated > 0 || (event === 'late' && ended === 0)) {
      throw new Error(`not every event came once: ${JSON.stringify({ event, missing, repeated, ended })}`)
    }
    const after = usage(subject.pid)
    return {
      objects: count,
      states: STATES_AT_ONCE,
      seconds: states.seconds,
      ended: states.ended + ended,
      megabytes: states.bytes / 2 ** 20,
      p50Ms: delayMs.p50,
      p99Ms: delayMs.p99,
      maxMs: delayMs.max,
      p99MsWithout: without.report.delayMs.p99,
      maxMsWithout: without.report.delayMs.max,
      peakResidentMb: after.peakResidentBytes / 2 ** 20,
    }
  })
}

const LARGE_BYTES = 1.3 * 2 ** 20
const SETTLE_MS = 10_000
/** An API server ends the watches of a new custom resource once, a moment after its start. */
const ESTABLISHED_MS = 3_000

/** An object of many small members, which a decoded object pays for. */
function largeObject({ apiVersion, kind, prefix }: BenchResource, index: number, bytes: number): BenchObject {
  const name = `large-${String(index).padStart(3, '0')}`
  const item = (i: number): object => ({
    name: `item-${i}`,
    image: `registry.example/image-${i % 97}:1.0.${i % 13}`,
    labels: { app: `app-${i % 31}`, tier: 'backend' },
    limits: { cpu: `${i % 8}`, memory: '128Mi' },
    ports: [i % 65_536, 443],
    isReady: i % 2 === 0,
  })
  const object = (items: number): string =>
    JSON.stringify({
      kind,
      apiVersion,
      metadata: {
        name,
        namespace: 'bench',
        uid: uidOf(index),
        creationTimestamp: CREATED,
        annotations: { mark: EMPTY_MARK },
      },
      spec: { nodeName: 'n0', items: Array.from({ length: items }, (_, i) => item(i)) },
    })
  const each = (object(1_000).length - object(0).length) / 1_000
  const value = object(Math.max(1, Math.floor(bytes / each)))
  return { key: `${prefix}bench/${name}`, value: Buffer.from(value), mark: value.indexOf(MAGIC) }
}

async function largeObjects(choice: Choice, target: Target, scale: number): Promise<Record<string, Value>> {
  const resource = customResource('report')
  const used = async (large: readonly BenchObject[]): Promise<Usage> => {
    const written = [largeObject(resource, 999, 1_024)]
    const options = sceneOf(choice, target, {
      resource,
      watchers: 1,
      objects: { written, large, resources: [resource] },
    })
    return await withScene(options, async (scene) => {
      await sleep(ESTABLISHED_MS)
      // A server that reads objects only on demand must have them, so one client watches.
      await receiveAllStates(scene, 1, written.length + large.length)
      await sleep(choice.quick ? 1_000 : SETTLE_MS)
      return usage(scene.subject.pid)
    })
  }
  const count = part(100, Math.max(scale, 0.05))
  const large = Array.from({ length: count }, (_, i) => largeObject(resource, i, LARGE_BYTES))
  const json = large.reduce((sum, { value }) => sum + (value?.length ?? 0), 0)
  const without = await used([])
  const { residentBytes, peakResidentBytes } = await used(large)
  return {
    scale: count / 100,
    objects: count,
    jsonMb: json / 2 ** 20,
    residentMbWithout: without.residentBytes / 2 ** 20,
    residentMb: residentBytes / 2 ** 20,
    ofJson: (residentBytes - without.residentBytes) / json,
    peakOfJson: (peakResidentBytes - without.residentBytes) / json,
  }
}

/** Each pod has three events: it is created, waits for its identity, and is ready. */
const ENDPOINT_EVENTS = 30 * 3

async function ciliumEndpoints(choice: Choice, target: Target, scale: number): Promise<Record<string, Value>> {
  const watchers = part(1_000, scale)
  return await fannedOut(choice, target, { watchers, rate: ENDPOINT_EVENTS, resource: customResource('endpoint') })
}

async function browsers(choice: Choice, target: Target, scale: number): Promise<Record<string, Value>> {
  const watchers = part(32_000, scale)
  requireOpenFiles(watchers + 200)
  return await fannedOut(choice, target, { watchers, rate: 7, resource: customResource('message') })
}

/** Opens the watches once the resource has settled, from etcd's revision of then: an API server began after that of the scene. */
async function openFromNow(
  { subject, etcd, openWatchers }: Scene,
  more: Partial<WatchersOptions> = {},
): Promise<Watchers> {
  await sleep(ESTABLISHED_MS)
  const request = subject.watch(etcd === null ? {} : { afterRevision: await etcd.revision() })
  return await openWatchers({ readyTimeoutMs: 300_000, ...more }, request)
}

async function fannedOut(
  choice: Choice,
  target: Target,
  own: { readonly watchers: number; readonly rate: number; readonly resource: BenchResource },
): Promise<Record<string, Value>> {
  const options = sceneOf(choice, target, { ...own, objects: { count: 100, ...SMALL } })
  return await withScene(options, async (scene) => {
    const { subject, source } = scene
    const opened = await openFromNow(scene)
    const rate = choice.rates[0] ?? own.rate
    const warm = await source.run({ rate, count: 1e9, ms: choice.quick ? 500 : 5_000 })
    await opened.caughtUp(warm.next, 60_000)
    const run = { rate, count: 1e9, ms: secondsOf(choice, 30) * 1000 }
    const stretch = await measureStretch({ subject, source, watchers: opened, run })
    return { watchers: opened.count, rate, openedMs: opened.openedMs, ...stretchColumns(stretch) }
  })
}

async function clientsAtOnce(choice: Choice, target: Target, scale: number): Promise<Record<string, Value>> {
  const [clients, count] = [part(500, scale), part(500_000, scale)]
  const options = sceneOf(choice, target, { watchers: clients, objects: { count, ...SMALL } })
  return await withScene(options, async (scene) => {
    const { pid } = scene.subject
    await sleep(choice.quick ? 500 : 3_000)
    resetPeak(pid)
    const before = usage(pid)
    const { seconds, bytes } = await receiveAllStates(scene, clients, count)
    const after = usage(pid)
    return {
      clients,
      objects: count,
      seconds,
      megabytes: bytes / 2 ** 20,
      cpuMinutes: (after.cpuSeconds - before.cpuSeconds) / 60,
      peakAboveMb: (after.peakResidentBytes - before.residentBytes) / 2 ** 20,
    }
  })
}

const SLICE_EVENTS = 20
const STALL_EVERY = 20
/** With those of the loopback, nobody would notice that a reader has stopped. */
const SMALL_BUFFERS = { receiveBufferBytes: 16 * 1024, segmentBytes: 1_400 }

/** All watch all slices, and one in twenty reads nothing for a third of the time. */
async function terminatedWatchers(choice: Choice, target: Target, scale: number): Promise<Record<string, Value>> {
  const watchers = part(5_000, scale)
  const count = part(1_000, scale)
  const resource = customResource('slice')
  const options = sceneOf(choice, target, { resource, watchers, objects: { count, ...SMALL } })
  return await withScene(options, async (scene) => {
    const { subject, source } = scene
    const opened = await openFromNow(scene, SMALL_BUFFERS)
    const warm = await source.run({ rate: SLICE_EVENTS, count: 1e9, ms: choice.quick ? 500 : 5_000 })
    await opened.caughtUp(warm.next, 60_000)
    await opened.mark()
    const [before, begin, ms] = [usage(subject.pid), performance.now(), secondsOf(choice, 60) * 1000]
    await opened.stall(STALL_EVERY, ms / 3)
    const { next } = await source.run({ rate: SLICE_EVENTS, count: 1e9, ms })
    const report = await opened.caughtUp(next, 30_000)
    const [after, seconds] = [usage(subject.pid), (performance.now() - begin) / 1000]
    const { event, ended, missing, repeated, strays, deliveries, delayMs } = report
    if (missing + repeated + strays > 0 || (event === 'late' && ended === 0)) {
      throw new Error(`not every delivery came once: ${JSON.stringify({ event, missing, repeated, strays, ended })}`)
    }
    return {
      watchers: opened.count,
      stalled: Math.ceil(opened.count / STALL_EVERY),
      stallMs: ms / 3,
      rate: SLICE_EVENTS,
      ended,
      // A client whose watch is ended lists all objects again.
      listedAgain: ended * count,
      deliveries,
      deliveriesPerSecond: deliveries / seconds,
      serverBusy: (after.cpuSeconds - before.cpuSeconds) / seconds,
      p99Ms: delayMs.p99,
      maxMs: delayMs.max,
    }
  })
}

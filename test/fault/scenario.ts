/**
 * The setting of every fault test: a real etcd (or three members), a proxy in front of each member that injects network
 * faults, the server behind the proxies, watchers that record, a load that writes, and etcd's own history, which is
 * read past the proxies.
 *
 * `settle` ends all faults and waits until every running watch has received the last write; `judge` checks what was
 * recorded against every guarantee. Waits are for conditions, never for a time.
 */
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { type Config, load } from '../../src/server/config/load.js'
import { nodeTransport } from '../../src/client/node/node-transport.js'
import type { Transport } from '../../src/client/reflector/transport.js'
import { keyFromText } from '../../src/engine/model/event.js'
import type { Revision } from '../../src/engine/model/revision.js'
import { type Random, randomInteger, seededRandom } from '../../src/support/random.js'
import { type Clock, systemClock } from '../../src/support/clock.js'
import { type Logger, silentLogger } from '../../src/support/log.js'
import { RemoteApiServer } from '../../src/kubernetes/upstream/remote-api-server.js'
import { connectEtcd } from '../../src/engine/upstream/etcd/etcd-upstream.js'
import type { Upstream } from '../../src/engine/upstream/upstream.js'
import { assertGuarantees, validate } from '../guarantees/validate.js'
import type { Violation } from '../guarantees/violation.js'
import { ControlBesideUs } from './control-beside-us.js'
import { type AppHarness, startApp } from '../support/app.js'
import { type PodFields, pod } from '../support/pod.js'
import { pause, until } from '../support/until.js'
import { type EtcdHistoryRecorder, recordEtcdHistory } from '../support/etcd-history.js'
import type { RecordedHistory, ReferenceHistory, WatchRecord } from '../support/history.js'
import { type EtcdOptions, type EtcdProcess, startEtcd, startEtcdCluster } from '../support/etcd-process.js'
import { EtcdWriter, type Written } from '../support/etcd-writer.js'
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.js'
import { type PeerNetwork, startEtcdWithPeerNetwork } from '../support/peer-network.js'
import { freePort } from '../support/free-port.js'
import {
  ListError,
  type RequestScope,
  type Target,
  type RecordedWatch,
  WatchRecorder,
} from '../support/watch-recorder.js'
import { wholeObject } from '../support/whole-object.js'

export const pods: Target = { groupVersionPath: '/api/v1', plural: 'pods', prefix: keyFromText('/registry/pods/') }
/** One name is a prefix of another. Watchers of one namespace must not get events of the other. */
export const namespaces = ['a', 'ab', 'b'] as const
export const apps = ['web', 'db', 'api'] as const
export const nodes = ['n1', 'n2'] as const

interface TestPod {
  readonly metadata: { readonly labels?: { readonly app?: string } }
  readonly spec: { readonly nodeName?: string }
}

const appOf = (object: unknown): string => (object as TestPod).metadata.labels?.app ?? ''
const nodeOf = (object: unknown): string => (object as TestPod).spec.nodeName ?? ''

export const scopes: readonly RequestScope[] = [
  { target: pods },
  { target: pods, namespace: 'a' },
  { target: pods, labelSelector: 'app=web', selects: (object) => appOf(object) === 'web' },
  {
    target: pods,
    labelSelector: 'app in (db,api)',
    fieldSelector: 'spec.nodeName!=n1',
    selects: (object) => ['db', 'api'].includes(appOf(object)) && nodeOf(object) !== 'n1',
  },
  { target: pods, fieldSelector: 'spec.nodeName=n1', selects: (object) => nodeOf(object) === 'n1' },
  { target: pods, namespace: 'b', labelSelector: '!app', selects: (object) => appOf(object) === '' },
]

export type Chain = 'sse' | 'protobuf' | 'json'

export interface ScenarioOptions {
  readonly members?: 1 | 3
  /** Whether a plain watch of etcd goes through the same proxy. */
  readonly hasControlBesideUs?: boolean
  /** Whether the links between three members can be broken, through `peers`. */
  readonly hasPeerNetwork?: boolean
  readonly seed?: number
  readonly flags?: readonly string[]
  readonly config?: Partial<Config>
  readonly etcdFlags?: readonly string[]
  readonly etcd?: Pick<EtcdOptions, 'dataRoot'>
  /** The keepalive times, instead of those that detect a dead peer within a second. */
  readonly times?: Partial<typeof KEEP_ALIVE>
  /**
   * Adds a server in between: it reads etcd, and feeds the watched server (`--upstream`) through one more proxy, over
   * SSE, or as if it were a kube-apiserver, which writes one object per revision: in protobuf, or in JSON lines as
   * custom resources.
   */
  readonly chain?: Chain
  /** The clock of the server and its connection to etcd. Default: real time. */
  readonly clock?: Clock
  /** The server's logger. Default: no log. */
  readonly logger?: Logger
  /** Wraps the upstream of the server, to make a broken build. */
  readonly wrap?: (upstream: Upstream) => Upstream
}

export interface Verdict {
  readonly reference: ReferenceHistory
  readonly history: RecordedHistory
  /** Violations seen by clients of the server. */
  readonly ours: readonly Violation[]
  /** Events that the clients missed and a plain watch of etcd also missed. */
  readonly throughUs: readonly Violation[]
  /** Violations seen by a watch directly on etcd. */
  readonly straight: readonly Violation[]
  /** Violations seen by a watch through the same faults. */
  readonly besideUs: readonly Violation[]
}

/** A few resources are enough here, and start faster. */
const loaded = load([], {}, () => '')
const servedHere =
  loaded.kind === 'run'
    ? loaded.config.resources.filter(({ resource }) => ['pods', 'configmaps', 'nodes'].includes(resource.plural))
    : []

/** A dead peer is noticed within a second; etcd must be configured to allow this many pings. */
const KEEP_ALIVE = { keepAliveTimeMs: 700, keepAliveTimeoutMs: 500, requestTimeoutMs: 3_000, connectTimeoutMs: 1_000 }
const ALLOW_PINGS = ['--grpc-keepalive-min-time=200ms']
const SETTLE_MS = 45_000

export async function startScenario(t: Test, options: ScenarioOptions = {}): Promise<Scenario> {
  const flags = [...ALLOW_PINGS, ...(options.etcdFlags ?? [])]
  const { members, peers } =
    options.hasPeerNetwork === true
      ? await startEtcdWithPeerNetwork(t, { flags })
      : {
          members:
            options.members === 3
              ? await startEtcdCluster(t, { flags, ...options.etcd })
              : [await startEtcd(t, { flags, ...options.etcd })],
          peers: null,
        }
  const proxies = await Promise.all(
    members.map(({ url }) => startFaultProxy({ targetPort: Number(new URL(url).port) })),
  )
  t.teardown(() => Promise.all(proxies.map((proxy) => proxy.close())))
  const scenario = new Scenario(t, members, proxies, peers, options)
  await scenario.start()
  return scenario
}

export class Scenario {
  readonly random: Random
  readonly writer: EtcdWriter
  recorder!: WatchRecorder
  control!: EtcdHistoryRecorder
  besideUs: ControlBesideUs | null = null
  h!: AppHarness
  /** In a chain, the server that reads etcd, and the proxy in front of it. */
  inner: AppHarness | null = null
  hop: FaultProxy | null = null
  readonly #t: Test
  readonly #options: ScenarioOptions
  #isLoaded = false
  #load: Promise<void> = Promise.resolve()
  readonly #paused = new Set<RecordedWatch>()

  constructor(
    t: Test,
    readonly members: readonly EtcdProcess[],
    readonly proxies: readonly FaultProxy[],
    readonly peers: PeerNetwork | null,
    options: ScenarioOptions,
  ) {
    this.#t = t
    this.#options = options
    this.random = seededRandom(options.seed ?? 1)
    this.writer = new EtcdWriter(members)
  }

  /** The only member, or the first. */
  get etcd(): EtcdProcess {
    return this.members[0]!
  }

  get proxy(): FaultProxy {
    return this.proxies[0]!
  }

  async start(): Promise<void> {
    this.control = await recordEtcdHistory(this.#t, this.etcd)
    await this.write()
    if (this.#options.hasControlBesideUs === true) {
      const besideUs = new ControlBesideUs(this.#t, this.etcd, this.proxy)
      this.besideUs = besideUs
      besideUs.start()
      this.#t.teardown(() => besideUs.close())
    }
    await this.startServer()
  }

  /** Starts a server; an earlier one keeps running until the test ends. */
  async startServer(): Promise<void> {
    const endpoints = this.proxies.map(({ port }) => `http://127.0.0.1:${port}`)
    const { wrap, flags = [], config, chain, times, clock = systemClock, logger = silentLogger } = this.#options
    const upstream = connectEtcd({ endpoints, ...KEEP_ALIVE, ...times, clock })
    if (chain !== undefined) return await this.#startChain(chain)
    this.h = await startApp(this.#t, {
      upstream: wrap?.(upstream) ?? upstream,
      flags: ['--etcd-servers', endpoints.join(), ...flags],
      config: { bookmarkInterval: 200, resources: servedHere, ...config },
      clock,
      logger,
    })
    this.#record()
  }

  /** Whether the server stands behind an API server, which writes one object per revision. */
  get #isBehindApiServer(): boolean {
    return this.#options.chain === 'protobuf' || this.#options.chain === 'json'
  }

  #record(): void {
    this.recorder = new WatchRecorder({ url: this.h.url })
    const { recorder } = this
    this.#t.teardown(() => recorder.close())
  }

  /** The watched server starts first and waits for the other. */
  async #startChain(chain: Chain): Promise<void> {
    const port = await freePort()
    this.hop = await startFaultProxy({ targetPort: port })
    const { hop } = this
    this.#t.teardown(() => hop.close())
    const url = `http://127.0.0.1:${hop.port}`
    this.h = await startApp(this.#t, {
      flags: ['--upstream', url, ...(this.#options.flags ?? [])],
      config: { bookmarkInterval: 200, ...this.#options.config },
      server: new RemoteApiServer({
        transport: chain === 'json' ? withoutProtobuf(nodeTransport({ server: url })) : nodeTransport({ server: url }),
        url,
        clock: systemClock,
        heartbeatMs: 300,
        heartbeatTimeoutMs: 700,
        ...(chain === 'sse' ? {} : { speaksSse: false }),
      }),
      ready: false,
    })
    await this.startInner(port)
    await until(() => this.h.app.isReady, 'the server behind is ready', SETTLE_MS)
    this.#record()
  }

  /**
   * In a chain, starts the inner server or restarts it on the same port.
   *
   * @param config of the server.
   */
  async startInner(port = this.inner?.port ?? 0, proxies = this.proxies, config: Partial<Config> = {}): Promise<void> {
    const endpoints = proxies.map(({ port }) => `http://127.0.0.1:${port}`)
    this.inner = await startApp(this.#t, {
      upstream: connectEtcd({ endpoints, ...KEEP_ALIVE }),
      flags: ['--etcd-servers', endpoints.join(), '--port', String(port)],
      config: { bookmarkInterval: 200, resources: servedHere, ...config },
    })
  }

  /** In a chain, restarts the inner server as an API server restarts: with a cache that has no history. */
  async restartApiServer(away: () => Promise<void>): Promise<void> {
    await this.inner!.app.stop()
    await away()
    await this.startInner(this.inner!.port, this.proxies, { backfillRevisions: 0 })
  }

  /** Checks that open watches, which began with the state, have brought their clients to etcd's state at `last`. */
  async judgeStates(t: Test, watches: readonly RecordedWatch[], last: Revision): Promise<void> {
    const reference = await this.control.finish()
    for (const watch of watches) {
      const state = new Map<string, string | null>()
      for (const item of watch.items) {
        if (item.type === 'BOOKMARK') continue
        if (item.type === 'DELETED') state.delete(item.id)
        else state.set(item.id, item.fingerprint)
      }
      const expected = reference.stateAt({ ...watch.request, prefix: pods.prefix }, last)
      const wanted = [...expected.values()].map(({ id, fingerprint }) => [id, fingerprint])
      t.same(Object.fromEntries(state), Object.fromEntries(wanted), watch.name)
      const revisions = watch.items.filter(({ type }) => type === 'BOOKMARK').map(({ revision }) => revision)
      const ascending = revisions.toSorted((a, b) => a - b)
      t.same(revisions, ascending, 'it never goes back')
    }
  }

  /** Starts new records of the clients and of etcd after a restore. */
  async forget(): Promise<void> {
    this.control = await recordEtcdHistory(this.#t, this.etcd)
    this.writer.writes.length = 0
    this.writer.commits.length = 0
    this.recorder.close()
    const recorder = new WatchRecorder({ url: this.h.url })
    this.recorder = recorder
    this.#t.teardown(() => recorder.close())
  }

  /** Changes a few random pods in one revision, occasionally with many keys. */
  async write(): Promise<Revision> {
    return await this.#commit(this.randomChange(), 3_000)
  }

  /** Writes through the other members while the first is cut off. */
  async writeElsewhere(member: number): Promise<Revision> {
    const others = new EtcdWriter(this.members.filter((_, i) => i !== member))
    const end = performance.now() + SETTLE_MS
    for (;;) {
      const revision = await others.tryCommit(this.randomChange())
      this.writer.writes.push(...others.writes.splice(0))
      this.writer.commits.push(...others.commits.splice(0))
      if (revision !== null) return revision
      if (performance.now() > end) throw new Error('etcd takes no writes')
    }
  }

  randomChange(): Record<string, Written> {
    const { random } = this
    const count = random.next() < 0.1 && !this.#isBehindApiServer ? randomInteger(random, 2, 30) : 1
    const change: Record<string, Written> = {}
    for (let i = 0; i < count; i++) {
      const namespace = this.pick(namespaces)
      const name = `p${randomInteger(random, 0, 19)}`
      const labels = {
        ...(random.next() < 0.8 ? { app: this.pick(apps) } : {}),
        note: String(randomInteger(random, 0, 1e9)),
      }
      const object = this.#pod(name, { namespace, labels, spec: { nodeName: this.pick(nodes) } })
      change[`/registry/pods/${namespace}/${name}`] = random.next() < 0.25 ? null : object
    }
    return change
  }

  #pod(name: string, fields: PodFields): object {
    const object = pod(name, fields)
    return this.#options.chain === 'protobuf' ? wholeObject(object) : object
  }

  pick<T>(from: readonly T[]): T {
    return from[randomInteger(this.random, 0, from.length - 1)] as T
  }

  /** Writes continuously until `settle`; an unavailable etcd only delays it. */
  startLoad(lanes = 2, betweenMs = 0): void {
    if (this.#isLoaded) return
    this.#isLoaded = true
    // A failed test must not keep writing until its file times out.
    this.#t.teardown(() => this.stopLoad())
    const lane = async (): Promise<void> => {
      while (this.#isLoaded) {
        if ((await this.writer.tryCommit(this.randomChange())) === null) await pause(20)
        else if (betweenMs > 0) await pause(betweenMs)
      }
    }
    this.#load = Promise.all(Array.from({ length: lanes }, lane)).then(() => {})
  }

  async stopLoad(): Promise<void> {
    this.#isLoaded = false
    await this.#load
  }

  /** Opens watches of every scope: from now, from some revisions ago, and with the state first. */
  async watchAll(): Promise<readonly RecordedWatch[]> {
    const now = await this.write()
    const watches = scopes.flatMap((scope) => [
      this.recorder.watch({ ...scope, resourceVersion: String(now) }),
      this.recorder.watch({ ...scope, resourceVersion: '1' }),
      this.recorder.watch({ ...scope, sendInitialEvents: true }),
    ])
    const ended = (): number => watches.filter(({ end }) => end !== 'open').length
    await until(() => this.h.watchers + ended() >= watches.length, 'all watches run')
    return watches
  }

  pauseWatch(watch: RecordedWatch): void {
    watch.pause()
    this.#paused.add(watch)
  }

  unpauseAll(): void {
    for (const watch of this.#paused) watch.unpause()
    this.#paused.clear()
  }

  /** The revision of the server's cache of the pods. */
  get cacheRevision(): Revision {
    return this.podSource.cache.revision
  }

  get podSource() {
    for (const source of this.h.app.sources) if (source.resource.plural === 'pods') return source
    throw new Error('no pods are served')
  }

  /** Resolves when the cache has reached the revision. */
  async reached(revision: Revision, withinMs = SETTLE_MS): Promise<void> {
    await until(() => this.cacheRevision >= revision, `the cache comes to revision ${revision}`, withinMs)
  }

  /** The sum of one of our counters over all resources. */
  async count(metric: string, label = ''): Promise<number> {
    const { text } = await this.h.app.metrics.expose()
    let sum = 0
    for (const line of text.split('\n')) {
      if (!line.startsWith(`distributary_${metric}`) || !line.includes(label)) continue
      sum += Number(line.slice(line.lastIndexOf(' ') + 1))
    }
    return sum
  }

  async relists(): Promise<number> {
    return await this.count('feed_relists_total')
  }

  /** Ends all faults, and waits until all running watches have received a last write that concerns every scope. */
  async settle(): Promise<Revision> {
    this.peers?.heal()
    for (const proxy of this.hop === null ? this.proxies : [...this.proxies, this.hop]) {
      proxy.release()
      proxy.setLatency(0)
      proxy.setBlackhole(false)
      await proxy.accept()
    }
    this.unpauseAll()
    await this.stopLoad()
    const last = await this.writeMarks()
    await this.reached(last)
    const running = this.recorder.watches.filter(
      ({ end, request }) => end === 'open' && Number(request.resourceVersion ?? 0) <= last,
    )
    const arrived = ({ end, items }: RecordedWatch): boolean => end !== 'open' || (items.at(-1)?.revision ?? 0) >= last
    await until(() => running.every(arrived), `${running.length} watches come to revision ${last}`, SETTLE_MS)
    for (const request of [{}, { resourceVersion: '0' }, { limit: 7 }]) await this.#list({ target: pods, ...request })
    // Surplus events from a faulty server would come after that.
    await pause(100)
    return last
  }

  /** Retries while etcd answers too late, which on a slow machine is nobody's fault. @throws ListError */
  async #list(request: Parameters<WatchRecorder['list']>[0]): Promise<void> {
    const end = performance.now() + SETTLE_MS
    for (;;) {
      try {
        await this.recorder.list(request)
        return
      } catch (error) {
        if (!(error instanceof ListError) || error.status !== 504 || performance.now() > end) throw error
      }
    }
  }

  /** Writes one revision with an event for every scope. */
  async writeMarks(): Promise<Revision> {
    const change: Record<string, Written> = {}
    for (const namespace of namespaces) {
      for (const node of nodes) {
        for (const app of [...apps, null]) {
          const name = `mark-${node}-${app}`
          const labels = { ...(app === null ? {} : { app }), note: String(randomInteger(this.random, 0, 1e9)) }
          change[`/registry/pods/${namespace}/${name}`] = this.#pod(name, {
            namespace,
            labels,
            spec: { nodeName: node },
          })
        }
      }
    }
    if (!this.#isBehindApiServer) return await this.#commit(change)
    let last: Revision | null = null
    for (const [key, object] of Object.entries(change)) last = await this.#commit({ [key]: object })
    // A watch without a last event learns of the last revision by a bookmark.
    return last!
  }

  async #commit(change: Record<string, Written>, timeoutMs?: number): Promise<Revision> {
    const end = performance.now() + SETTLE_MS
    for (;;) {
      const revision = await this.writer.tryCommit(change, timeoutMs)
      if (revision !== null) return revision
      if (performance.now() > end) throw new Error('etcd takes no writes')
      await pause(50)
    }
  }

  /** Checks every guarantee over everything that was recorded. */
  async judge(t: Test, settledRevision: Revision): Promise<void> {
    const reference = await this.control.finish(this.writer.commits)
    assertGuarantees(t, this.recorder.history(this.writer.writes), reference, { settledRevision })
    t.same(
      this.recorder.watches.flatMap(({ malformed }) => malformed ?? []),
      [],
      'every line is an event',
    )
  }

  /** Checks the same, and separates what etcd itself did wrong to a plain watch, direct or through the same faults. */
  async verdict(settledRevision: Revision): Promise<Verdict> {
    const reference = await this.control.finish(this.writer.commits)
    const history = this.recorder.history(this.writer.writes)
    const judged = (watches: readonly WatchRecord[]): Violation[] =>
      validate({ watches, lists: [], writes: [] }, reference)
    const straight = judged([this.control.control(pods.prefix)])
    await this.besideUs?.close()
    const besideUs = judged(this.besideUs?.records(pods.prefix) ?? [])
    const lost = new Set([...straight, ...besideUs].flatMap(({ missing }) => missing ?? []))
    const all = validate(history, reference, { settledRevision })
    const isEtcds = ({ missing }: Violation): boolean => missing !== null && lost.has(missing)
    const ours = all.filter((violation) => !isEtcds(violation))
    return { reference, history, ours, throughUs: all.filter(isEtcds), straight, besideUs }
  }

  async violations(settledRevision: Revision): Promise<Violation[]> {
    const reference = await this.control.finish(this.writer.commits)
    return validate(this.recorder.history(this.writer.writes), reference, { settledRevision })
  }
}

/** Returns how the watches ended, with counts: `open ×12`. */
export function ends(watches: readonly RecordedWatch[]): string[] {
  const counts = new Map<string, number>()
  for (const { end, code } of watches) {
    const way = code === undefined ? end : `${end} ${code}`
    counts.set(way, (counts.get(way) ?? 0) + 1)
  }
  return [...counts].map(([way, count]) => `${way} ×${count}`).sort()
}

/** Cuts the server off, runs `meanwhile` on etcd, and reconnects. */
export async function whileCutOff(s: Scenario, meanwhile: () => Promise<void>): Promise<void> {
  await s.proxy.refuse()
  s.proxy.cut()
  await until(() => s.podSource.cache.source.disconnectedReason !== null, 'the feed is disconnected')
  await meanwhile()
  await s.proxy.accept()
}

/** Makes the server answer without protobuf, as an API server does for custom resources. */
function withoutProtobuf(transport: Transport): Transport {
  return {
    send: (request) =>
      request.accept.includes('protobuf')
        ? Promise.resolve({ status: 406, header: () => null, body: Readable.from([]) })
        : transport.send(request),
  }
}

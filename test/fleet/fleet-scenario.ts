/**
 * A fleet as it is run: four processes (two candidates, two edges), three nats-servers, an etcd, and a proxy on every
 * link between them. A whole fleet is `main` with all built-in resources and a third candidate. Watchers hop between
 * the replicas and a load writes, while things are killed, stopped and cut; `settle` ends all faults and waits until
 * every watch has received the last write, and `judge` checks all of it against every guarantee.
 */
import type { Test } from 'tap'
import { namesOf } from '../../src/fleet/stream/names.js'
import { type ApiResource, resourceId } from '../../src/kubernetes/model/api-resource.js'
import { keyFromText } from '../../src/engine/model/event.js'
import { type Revision, toRevision } from '../../src/engine/model/revision.js'
import { type Random, randomInteger, seededRandom } from '../../src/support/random.js'
import { validate } from '../guarantees/validate.js'
import type { Violation } from '../guarantees/violation.js'
import { type EtcdHistoryRecorder, recordEtcdHistory } from '../support/etcd-history.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter, type Written } from '../support/etcd-writer.js'
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.js'
import { freePort } from '../support/free-port.js'
import type { RecordedHistory } from '../support/history.js'
import { type NatsProcess, startNatsCluster } from '../support/nats-process.js'
import { programFile } from '../support/program.js'
import { type ServerProcess, startServer, total } from '../support/server-process.js'
import { ListError, type RecordedWatch, type RequestScope, WatchRecorder } from '../support/watch-recorder.js'
import { pause, until } from '../support/until.js'
import {
  builtIn,
  describeServed,
  type FleetResource,
  pods,
  storedValue,
  widgetDefinition,
  widgets,
  writable,
} from './fleet-resources.js'

/** The names of the pods' stream, for tests that damage it. */
export const podNames = namesOf('default', pods.resource)

const podsProgram = programFile('replica')
const wholeProgram = programFile('main')
const SETTLE_MS = 60_000
/** One name is a prefix of the other. Watchers of one namespace must not get events of the other. */
const NAMESPACES = ['default', 'default2'] as const
const APPS = ['web', 'db'] as const
/** `mark` writes the object `marked`, and `settle` writes `last`. */
const OBJECT_NAMES = ['marked', 'last', ...Array.from({ length: 15 }, (_, i) => `p${i}`)] as const
/**
 * Ages below this are possible with an etcd or publisher that has just fallen silent, or 200 ms away from NATS: a
 * status each second, behind two writes of 400 ms.
 */
const FRESH_SECONDS = 3

export interface Replica {
  readonly name: string
  readonly role: 'auto' | 'edge'
  readonly recorder: WatchRecorder
  /** The proxies to the nats-servers, one for each. */
  readonly toNats: readonly FaultProxy[]
  readonly toEtcd: FaultProxy | null
  /** The program that runs, as a compiled file. */
  program: string
  /** The port, which stays the same after a restart. */
  readonly port: number
  server: ServerProcess
}

interface Labelled {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> }
}

interface Running {
  watch: RecordedWatch
  at: Replica
}

export interface FleetOptions {
  readonly seed?: number
  readonly watchers?: number
  readonly flags?: readonly string[]
  /** Further flags for the replicas that can be elected. */
  readonly candidateFlags?: readonly string[]
  /** Whether to run `main` with all built-in resources, three candidates and two edges. */
  readonly isWhole?: boolean
  /** The compiled `main` of the last release, which some replicas of a whole fleet run at random. */
  readonly previous?: string
}

export async function startFleet(t: Test, options: FleetOptions = {}): Promise<FleetScenario> {
  const routes = new Map<number, Map<number, FaultProxy>>()
  const servers = [
    startEtcd(t, { flags: ['--grpc-keepalive-min-time=200ms'] }),
    startNatsCluster(t, { routeProxies: routes, isSupervised: true }),
  ] as const
  // If one fails, the teardown must know of the other first.
  await Promise.allSettled(servers)
  const [etcd, nats] = await Promise.all(servers)
  const scenario = new FleetScenario(t, etcd, nats, routes, options)
  await scenario.start()
  return scenario
}

export class FleetScenario {
  readonly random: Random
  readonly writer: EtcdWriter
  readonly replicas: Replica[] = []
  control!: EtcdHistoryRecorder
  /** Answers to lists that no contract allows. */
  readonly unexpected: string[] = []
  /** How often NATS servers had to be restarted, because they had not recovered a minute after a fault. */
  natsRestarts = 0
  readonly #t: Test
  readonly #options: FleetOptions
  readonly #running: Running[] = []
  readonly #requests = new Set<Promise<void>>()
  /** Writes that a replica has confirmed. */
  readonly #acknowledged: { readonly revision: Revision; readonly key: string }[] = []
  #isLoaded = false
  #load: Promise<unknown> = Promise.resolve()
  #last: Revision | null = null
  readonly #stopped = new Set<Replica>()
  /** Running replicas that cannot reach NATS. */
  readonly #cutOff = new Set<Replica>()
  /** Every resource that has a publisher. */
  readonly #served: readonly FleetResource[]
  /** The resources among these that are written and watched. */
  readonly #written: readonly FleetResource[]
  /** The programs that a starting replica may run. */
  readonly #programs: readonly string[]
  readonly #leaseMs: number

  constructor(
    t: Test,
    readonly etcd: EtcdProcess,
    readonly nats: readonly NatsProcess[],
    readonly routes: ReadonlyMap<number, ReadonlyMap<number, FaultProxy>>,
    options: FleetOptions,
  ) {
    this.#t = t
    this.#options = options
    this.random = seededRandom(options.seed ?? 1)
    this.writer = new EtcdWriter([etcd])
    const isWhole = options.isWhole ?? false
    this.#served = isWhole ? [...builtIn, widgets] : [pods]
    this.#written = isWhole ? writable : [pods]
    const previous = options.previous === undefined ? [] : [options.previous]
    this.#programs = isWhole ? [wholeProgram, ...previous] : [podsProgram]
    this.#leaseMs = isWhole ? 5_000 : 1_000
  }

  get resourceCount(): number {
    return this.#served.length
  }

  get programs(): readonly string[] {
    return this.#programs
  }

  async start(): Promise<void> {
    this.control = await recordEtcdHistory(this.#t, this.etcd)
    if (this.#options.isWhole) {
      const ready = NAMESPACES.map((name) => [`/registry/namespaces/${name}`, namespaceObject(name)] as const)
      await this.writer.commit({ ...widgetDefinition, ...Object.fromEntries(ready) })
    }
    for (let i = 0; i < 10; i++) await this.#writeToEtcd()
    const more = this.#options.isWhole ? (['auto'] as const) : []
    const roles = [...more, 'auto', 'auto', 'edge', 'edge'] as const
    await Promise.all(roles.map((role, i) => this.#startReplica(`${role}-${i}`, role)))
    for (let i = 0; i < (this.#options.watchers ?? 12); i++) {
      const at = this.replicas[i % this.replicas.length]!
      const scope = this.#scopeOf(this.#written[i % this.#written.length]!)
      this.#running.push({ watch: at.recorder.watch({ ...scope, sendInitialEvents: true }), at })
    }
    await this.#oneWatchEach()
  }

  pick<T>(from: readonly T[]): T {
    return from[randomInteger(this.random, 0, from.length - 1)] as T
  }

  /** The watches on etcd other than the test's own. */
  async etcdWatches(): Promise<number> {
    return ((await this.etcd.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? 0) - 1
  }

  async #oneWatchEach(): Promise<void> {
    const count = this.resourceCount
    await this.eventually(async () => (await this.etcdWatches()) === count, `etcd has ${count} watches`)
  }

  /** Returns the replica that publishes most of the resources. */
  async publisher(): Promise<Replica> {
    let found: Replica | undefined
    await this.eventually(async () => {
      let most = 0
      for (const replica of this.candidates) {
        if (this.#stopped.has(replica)) continue
        const samples = await replica.server.metrics().catch(() => null)
        const count = samples === null ? 0 : total(samples, 'distributary_fleet_publishing')
        if (count > most) [found, most] = [replica, count]
      }
      return found !== undefined
    }, 'somebody publishes')
    return found!
  }

  /**
   * Counts the resources that have a publisher: a running candidate with a link to NATS claims it and, with `isFresh`,
   * an edge has received its report about etcd.
   */
  async published(options: { readonly isFresh: boolean }): Promise<number> {
    return (await this.#published(options)).length
  }

  /** Names the resources that `published` does not count, and what each lacks. */
  async unpublished({ isFresh }: { readonly isFresh: boolean }): Promise<readonly string[]> {
    const claimed = await this.#published({ isFresh: false })
    const published = isFresh ? await this.#published({ isFresh }) : claimed
    const isIn = (samples: readonly string[], { group, plural }: ApiResource): boolean => {
      return samples.includes(`{group="${group}",resource="${plural}"}`)
    }
    const lacking = this.#served.map(({ resource }) => resource).filter((resource) => !isIn(published, resource))
    return lacking.map((one) => `${resourceId(one)} ${isIn(claimed, one) ? 'is not heard' : 'is not claimed'}`)
  }

  async #published({ isFresh }: { readonly isFresh: boolean }): Promise<readonly string[]> {
    const labelled = async (from: readonly Replica[], name: string, holds: (value: number) => boolean) => {
      const found = new Set<string>()
      const reachable = from.filter((replica) => !this.#stopped.has(replica) && !this.#cutOff.has(replica))
      const answers = await Promise.all(reachable.map(({ server }) => server.metrics().catch(() => new Map())))
      for (const samples of answers) {
        for (const [sample, value] of samples as ReadonlyMap<string, number>) {
          if (sample.startsWith(`${name}{`) && holds(value)) found.add(sample.slice(name.length))
        }
      }
      return found
    }
    const claimed = await labelled(this.candidates, 'distributary_fleet_publishing', (value) => value === 1)
    if (!isFresh) return [...claimed]
    const fresh = await labelled(this.edges, 'distributary_cache_staleness_seconds', (value) => value < FRESH_SECONDS)
    return [...claimed].filter((labels) => fresh.has(labels))
  }

  /**
   * Waits until no effect of a fault remains: every NATS server has everything, and every replica is ready and fresh.
   * NATS servers that do not recover on their own are restarted one after another, and the restarts are counted.
   */
  async recovered(): Promise<void> {
    try {
      await this.#recovered()
    } catch (error) {
      if (await this.#isNatsWhole()) throw error
      this.natsRestarts++
      for (const server of this.nats) {
        await server.kill('SIGTERM')
        await server.restart()
        await until(() => this.#isNatsWhole(), 'NATS is whole again', SETTLE_MS).catch(() => {})
      }
      await this.#recovered()
    }
  }

  async #recovered(): Promise<void> {
    await this.eventually(async () => {
      if (!(await this.#isNatsWhole())) return false
      if ((await this.published({ isFresh: true })) < this.resourceCount) return false
      const ages = this.replicas.map(async ({ server }) => {
        const samples = await server.metrics()
        return total(samples, 'distributary_cache_staleness_seconds')
      })
      return (await Promise.all(ages)).every((age) => age === 0)
    }, 'the fleet is whole again')
  }

  /** Whether every stream has a leader, and every NATS server is current. */
  async #isNatsWhole(): Promise<boolean> {
    return (await Promise.all(this.nats.map((server) => server.isCurrent()))).every(Boolean)
  }

  get candidates(): readonly Replica[] {
    return this.replicas.filter(({ role }) => role === 'auto')
  }

  get edges(): readonly Replica[] {
    return this.replicas.filter(({ role }) => role === 'edge')
  }

  get runningEdges(): readonly Replica[] {
    return this.edges.filter((replica) => !this.#stopped.has(replica))
  }

  // Load

  async #writeToEtcd(): Promise<void> {
    const change: Record<string, Written> = {}
    for (let i = this.random.next() < 0.1 ? randomInteger(this.random, 2, 20) : 1; i > 0; i--) {
      const { resource, name, namespace, object } = this.#randomObject()
      change[resource.keyOf(name, namespace)] = this.random.next() < 0.2 ? null : object
    }
    this.#last = (await this.writer.tryCommit(change)) ?? this.#last
  }

  #randomObject() {
    const resource = this.pick(this.#written)
    const name = this.pick(OBJECT_NAMES.slice(2))
    const note = String(randomInteger(this.random, 0, 1e9))
    if (!this.#options.isWhole) {
      return { resource, name, namespace: NAMESPACES[0], object: resource.object(name, { note }) }
    }
    const namespace = this.pick(NAMESPACES)
    const json = resource.object(name, { note, app: this.pick(APPS) }, namespace)
    const object = this.random.next() < 0.5 ? json : storedValue(resource, json)
    return { resource, name, namespace, json, object }
  }

  /** Changes one object through a candidate, whose answer counts as much as etcd's. */
  async #writeToReplica(): Promise<void> {
    const { resource, name, namespace, json } = this.#randomObject()
    const running = this.candidates.filter((replica) => !this.#stopped.has(replica))
    if (running.length === 0) return
    const { target } = resource
    const inNamespace = resource.resource.namespaced ? `/namespaces/${namespace}` : ''
    const all = `${this.pick(running).server.url}${target.groupVersionPath}${inNamespace}/${target.plural}`
    const method = this.pick(['POST', 'PATCH', 'PUT', 'DELETE'] as const)
    const answer = await fetch(method === 'POST' ? all : `${all}/${name}`, {
      method,
      headers: { 'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json' },
      ...(method === 'DELETE' ? {} : { body: JSON.stringify(json) }),
      signal: AbortSignal.timeout(SETTLE_MS),
    })
    const text = await answer.text()
    const returnedAtMs = performance.now()
    // 501: it is stored as protobuf, and so belongs to an API server.
    if (![200, 201, 404, 409, 422, 429, 501, 503, 504].includes(answer.status)) {
      this.unexpected.push(`${method} of ${target.plural} was answered with ${answer.status}: ${text.slice(0, 200)}`)
    }
    if (!answer.ok || method === 'DELETE') return
    const { metadata } = JSON.parse(text) as { metadata: { resourceVersion: string } }
    const revision = toRevision(metadata.resourceVersion)
    this.writer.writes.push({ revision, returnedAtMs })
    this.#acknowledged.push({ revision, key: resource.keyOf(name, namespace) })
  }

  /** A random part of a resource. */
  #scopeOf({ target, resource }: FleetResource): RequestScope {
    if (!this.#options.isWhole) return { target }
    const app = (object: unknown): string | undefined => (object as Labelled).metadata.labels?.['app']
    const name = (object: unknown): string => (object as Labelled).metadata.name
    return this.pick<RequestScope>([
      { target },
      { target, ...(resource.namespaced ? { namespace: NAMESPACES[0] } : {}) },
      { target, labelSelector: 'app=web', selects: (object) => app(object) === 'web' },
      { target, fieldSelector: 'metadata.name=p3', selects: (object) => name(object) === 'p3' },
    ])
  }

  startLoad(): void {
    if (this.#isLoaded) return
    this.#isLoaded = true
    this.#t.teardown(() => {
      this.#isLoaded = false
    })
    this.#load = (async () => {
      for (let i = 0; this.#isLoaded; i++) {
        if (this.#options.isWhole && this.random.next() < 0.3) this.#inBackground(this.#writeToReplica())
        else await this.#writeToEtcd()
        if (i % 5 === 0) this.hop()
        if (i % (this.#options.isWhole ? 3 : 12) === 0) this.list()
        await pause(randomInteger(this.random, 0, this.#options.isWhole ? 60 : 12))
      }
    })()
  }

  /** Moves one watcher to another replica, at its last bookmark; one that was cut off or expired starts over. */
  hop(): void {
    const entry = this.pick(this.#running)
    const { watch, at } = entry
    const others = this.replicas.filter((replica) => replica !== at && !this.#stopped.has(replica))
    const next = this.pick(others)
    const { sendInitialEvents: _, resourceVersion: __, ...scope } = watch.request
    const bookmark = watch.lastBookmark
    if (watch.end === 'open' && bookmark === null) return
    watch.destroy()
    const hasExpired = watch.code === 410
    entry.at = next
    entry.watch =
      bookmark === null || hasExpired
        ? next.recorder.watch({ ...scope, sendInitialEvents: true })
        : next.recorder.watch({ ...scope, resourceVersion: String(bookmark) })
  }

  /**
   * Lists on some replica: consistently, at least as new as the last write, for which a lagging replica has to wait, or
   * from its cache, with the age that it states.
   */
  list(): void {
    const { recorder } = this.pick(this.replicas.filter((replica) => !this.#stopped.has(replica)))
    const scope = this.#scopeOf(this.pick(this.#written))
    const resourceVersion = String(this.#last ?? 1)
    const request = this.pick([
      scope,
      { ...scope, limit: 5 },
      { ...scope, resourceVersion, resourceVersionMatch: 'NotOlderThan' as const },
      { ...scope, resourceVersion: '0' },
    ])
    const list = async (): Promise<void> => {
      try {
        await recorder.list(request)
      } catch (error) {
        if (!(error instanceof ListError)) throw error
        // Something is down: the list gets an error that the contract allows.
        const mayBeMissing = scope.target.plural === 'widgets'
        const allowed = [410, 429, 503, 504, ...(mayBeMissing ? [404] : [])]
        if (!allowed.includes(error.status)) this.unexpected.push(String(error))
      }
    }
    this.#inBackground(list())
  }

  /** The connection of a request may end with the process. */
  #inBackground(request: Promise<void>): void {
    const ended = request.catch(() => {}).finally(() => this.#requests.delete(ended))
    this.#requests.add(ended)
  }

  // Faults

  async kill(replica: Replica): Promise<void> {
    this.#stopped.add(replica)
    await replica.server.kill('SIGKILL')
  }

  /** Ends a replica gracefully, and then starts another in its place. */
  async replace(replica: Replica, program = this.pick(this.#programs)): Promise<void> {
    this.#stopped.add(replica)
    await replica.server.kill('SIGTERM')
    await this.restart(replica, { program, ready: true })
  }

  /** Starts a new process on the same port. */
  async restart(
    replica: Replica,
    {
      program = this.pick(this.#programs),
      ready = false,
    }: { readonly program?: string; readonly ready?: boolean } = {},
  ): Promise<void> {
    replica.program = program
    replica.server = await startServer(this.#t, { program, ready, flags: this.#flags(replica) })
    this.#stopped.delete(replica)
  }

  /** Stops a replica for longer than its lease, so that another publishes before it wakes up. */
  async freeze(replica: Replica, forMs = this.#leaseMs * 2.5): Promise<void> {
    this.suspend(replica)
    await pause(forMs)
    this.wake(replica)
  }

  suspend(replica: Replica): void {
    this.#stopped.add(replica)
    process.kill(replica.server.pid, 'SIGSTOP')
  }

  wake(replica: Replica): void {
    process.kill(replica.server.pid, 'SIGCONT')
    this.#stopped.delete(replica)
  }

  async cutOff(links: readonly FaultProxy[], how: 'silence' | 'refusal', forMs: number): Promise<void> {
    await this.separate(links, how)
    await pause(forMs)
    await this.join(links)
  }

  async separate(links: readonly FaultProxy[], how: 'silence' | 'refusal'): Promise<void> {
    for (const replica of this.replicas) {
      if (replica.toNats.every((link) => links.includes(link))) this.#cutOff.add(replica)
    }
    if (how === 'silence') for (const link of links) link.stall()
    else {
      for (const link of links) {
        await link.refuse()
        link.cut()
      }
    }
  }

  /** Ends `separate`. */
  async join(links: readonly FaultProxy[]): Promise<void> {
    for (const link of links) {
      link.release()
      await link.accept()
      link.cut()
    }
    for (const replica of this.replicas) {
      if (replica.toNats.some((link) => links.includes(link))) this.#cutOff.delete(replica)
    }
  }

  /** Returns a revision up to which the stream of every written resource is complete. */
  async mark(): Promise<Revision> {
    const { recorder } = this.pick(this.runningEdges)
    const revisionOf = async (of: readonly FleetResource[], rest: { readonly resourceVersion?: string }) => {
      const lists = await Promise.all(of.map(({ target }) => recorder.list({ target, ...rest })))
      return toRevision(Math.min(...lists.map(({ revision }) => revision)))
    }
    // An edge's state arrived through the streams.
    const streams = (): Promise<Revision> => revisionOf(this.#written, { resourceVersion: '0' })
    let consistent: Revision | null = null
    await this.eventually(async () => {
      consistent = await revisionOf(this.#served, {})
      return true
    }, 'a consistent list of everything')
    if ((await streams()) >= consistent!) return await streams()
    // The progress of such an etcd cannot be trusted: only events advance a stream.
    const written = await this.#writeToAll('marked')
    await this.eventually(async () => (await streams()) >= written, `every stream reaches revision ${written}`)
    return await streams()
  }

  /** Compacts etcd's history up to a revision that the test's own watch has received. */
  async compact(revision: Revision): Promise<void> {
    await this.etcd.compact(Math.min(revision, this.control.revision))
  }

  /** Deletes all widgets and then their definition, as an API server does, and soon recreates it. */
  async replaceDefinition(): Promise<void> {
    const keys = NAMESPACES.flatMap((namespace) => OBJECT_NAMES.map((name) => widgets.keyOf(name, namespace)))
    const isDone = async (change: Readonly<Record<string, Written>>): Promise<boolean> => {
      return (await this.writer.tryCommit(change)) !== null
    }
    const gone = (of: readonly string[]): Record<string, null> => Object.fromEntries(of.map((key) => [key, null]))
    await this.eventually(() => isDone(gone(keys)), 'no widgets')
    await this.eventually(() => isDone(gone(Object.keys(widgetDefinition))), 'no definition')
    await pause(randomInteger(this.random, 0, 4_000))
    await this.eventually(() => isDone(widgetDefinition), 'the definition')
  }

  /** Returns all links between two nats-servers. */
  between(a: number, b: number): readonly FaultProxy[] {
    return [this.routes.get(a)?.get(b), this.routes.get(b)?.get(a)].filter((link) => link !== undefined)
  }

  // The end

  async settle(): Promise<Revision> {
    this.#isLoaded = false
    await this.#load
    await Promise.all(this.replicas.filter((replica) => this.#stopped.has(replica)).map((one) => this.restart(one)))
    for (const { recorder } of this.replicas) {
      const isAnswered = async (): Promise<boolean> => {
        const lists = this.#written.map(({ target }) => recorder.list({ target }))
        return (await Promise.allSettled(lists)).every(({ status }) => status === 'fulfilled')
      }
      await this.eventually(isAnswered, 'a consistent list on every replica')
    }
    await Promise.all(this.#requests)
    const last = await this.#writeToAll('last')
    // A watcher that was cut off comes back, as a client would.
    const isThere = ({ watch }: Running): boolean =>
      watch.end === 'open' && Math.max(watch.items.at(-1)?.revision ?? 0, watch.lastBookmark ?? 0) >= last
    await this.eventually(async () => {
      for (const entry of this.#running) {
        while (entry.watch.end !== 'open') this.#return(entry)
      }
      await pause(20)
      return this.#running.every(isThere)
    }, `every watch reaches revision ${last}`)
    await this.#oneWatchEach()
    return last
  }

  /** Makes every replica compare its own cache with etcd, until all could be compared. @returns the outcomes. */
  async checkConsistency(): Promise<readonly string[]> {
    const outcomes = this.replicas.map(async ({ name, server }) => {
      let outcome = ''
      await this.eventually(async () => {
        const answer = await fetch(`${server.url}/consistency-check`, { method: 'POST' })
        outcome = ((await answer.json()) as { outcome?: string }).outcome ?? String(answer.status)
        return outcome !== 'incomplete'
      }, `a whole check of ${name}`)
      return outcome
    })
    return await Promise.all(outcomes)
  }

  async violations(settledRevision: Revision): Promise<Violation[]> {
    const reference = await this.control.finish([], describeServed)
    const made = new Set(
      reference.batches.flatMap(({ revision, changes }) => changes.map(({ key }) => `${key}@${revision}`)),
    )
    for (const { key, revision } of this.#acknowledged) {
      if (!made.has(`${keyFromText(key)}@${revision}`))
        this.unexpected.push(`${key}@${revision} was confirmed, and is not in etcd`)
    }
    return validate(this.history(), reference, { settledRevision })
  }

  history(): RecordedHistory {
    const histories = this.replicas.map(({ recorder }) => recorder.history())
    return {
      watches: histories.flatMap(({ watches }) => watches),
      lists: histories.flatMap(({ lists }) => lists),
      writes: this.writer.writes,
    }
  }

  async eventually(condition: () => Promise<boolean>, what: string): Promise<void> {
    try {
      await until(condition, what, SETTLE_MS)
    } catch (error) {
      const logs = this.replicas.map(({ name, server }) => `${name}:\n${server.log().slice(-1_500)}`).join('\n')
      throw new Error(`${(error as Error).message}\n${await this.#state()}\n${logs}`, { cause: error })
    }
  }

  /** Describes the state, for diagnosing a wait that failed. */
  async #state(): Promise<string> {
    const watches = this.#running.map(({ watch, at }) => {
      return `${at.name} ${watch.end} ${watch.code ?? ''} at ${watch.lastRevision}, bookmark ${watch.lastBookmark}`
    })
    const replicas = this.replicas.map(async ({ name, server }) => {
      const samples = await server.metrics().catch(() => new Map<string, number>())
      const of = (metric: string): number => total(samples, `distributary_${metric}`)
      return `${name}: revision ${of('cache_resource_version')}, publishing ${of('fleet_publishing')}, stale ${of('cache_staleness_seconds')} s`
    })
    return [...(await Promise.all(replicas)), ...watches].join('\n')
  }

  /** Returns a watcher to its replica, or to the next one. */
  #return(entry: Running): void {
    const { watch, at } = entry
    const { sendInitialEvents: _, resourceVersion: __, ...scope } = watch.request
    const bookmark = watch.lastBookmark
    entry.watch =
      bookmark === null || watch.code === 410
        ? at.recorder.watch({ ...scope, sendInitialEvents: true })
        : at.recorder.watch({ ...scope, resourceVersion: String(bookmark) })
  }

  async #writeToAll(name: string): Promise<Revision> {
    const labels = { note: String(randomInteger(this.random, 0, 1e9)) }
    const change = this.#written.map((resource) => [resource.keyOf(name), resource.object(name, labels)] as const)
    return await this.writer.commit(Object.fromEntries(change))
  }

  async #startReplica(name: string, role: 'auto' | 'edge'): Promise<void> {
    const proxy = async (targetPort: number): Promise<FaultProxy> => {
      const opened = await startFaultProxy({ targetPort })
      this.#t.teardown(() => opened.close())
      return opened
    }
    const toNats = await Promise.all(this.nats.map(({ port }) => proxy(port)))
    const toEtcd = role === 'edge' ? null : await proxy(Number(new URL(this.etcd.url).port))
    const program = this.pick(this.#programs)
    const links = { name, role, toNats, toEtcd, port: await freePort() }
    const server = await startServer(this.#t, { program, flags: this.#flags(links) })
    const recorder = new WatchRecorder({ url: server.url })
    this.#t.teardown(() => recorder.close())
    this.replicas.push({ ...links, program, server, recorder })
  }

  #flags({ role, toNats, toEtcd, port }: Pick<Replica, 'role' | 'toNats' | 'toEtcd' | 'port'>): string[] {
    return [
      `--nats-servers=${toNats.map(({ port }) => `nats://127.0.0.1:${port}`).join()}`,
      `--nats-role=${role}`,
      `--nats-lease=${this.#leaseMs}ms`,
      '--nats-replicas=3',
      // Many streams share a small disk, and a test cannot wait a minute for bookmarks.
      ...(this.#options.isWhole ? ['--nats-stream-bytes=8MiB', '--bookmark-interval=1s'] : []),
      ...(this.#options.isWhole && role === 'auto' ? ['--enable-writes'] : []),
      ...(toEtcd === null ? [] : ['--etcd-servers', `http://127.0.0.1:${toEtcd.port}`]),
      `--port=${port}`,
      ...(this.#options.flags ?? []),
      ...(role === 'auto' ? (this.#options.candidateFlags ?? []) : []),
    ]
  }
}

function namespaceObject(name: string): object {
  const labels = { 'kubernetes.io/metadata.name': name }
  return {
    kind: 'Namespace',
    apiVersion: 'v1',
    metadata: { name, uid: `uid-${name}`, labels },
    status: { phase: 'Active' },
  }
}

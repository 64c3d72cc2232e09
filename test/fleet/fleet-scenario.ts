/**
 * A fleet as it is run: four processes (two candidates, two edges), three nats-servers, an etcd, and a proxy on every link
 * between them. Watchers hop between the replicas and a load writes, while things are killed, stopped and cut; `settle` ends
 * all faults and waits until every watch has been told of the last write, and `judge` holds all of it together against every
 * guarantee.
 */
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { namesOf } from '../../src/fleet/nats/names.js'
import { keyFromText } from '../../src/model/event.js'
import type { Revision } from '../../src/model/revision.js'
import { load } from '../../src/config/load.js'
import { type Random, randomInteger, seededRandom } from '../../src/support/random.js'
import { validate } from '../guarantees/validate.js'
import type { Violation } from '../guarantees/violation.js'
import { pod } from '../support/app.js'
import { type EtcdHistoryRecorder, recordEtcdHistory } from '../support/etcd-history.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter, type Written } from '../support/etcd-writer.js'
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.js'
import { freePort } from '../support/free-port.js'
import type { RecordedHistory } from '../support/history.js'
import { type NatsProcess, startNatsCluster } from '../support/nats-process.js'
import { type ServerProcess, startServer, total } from '../support/server-process.js'
import { ListError, type RecordedWatch, type Target, WatchRecorder } from '../support/watch-recorder.js'
import { pause, until } from '../support/until.js'

export const pods: Target = { groupVersionPath: '/api/v1', plural: 'pods', prefix: keyFromText('/registry/pods/') }
/** The names of the pods' stream, for tests that damage it. */
export const podNames = namesOf('default', podResource())

const program = fileURLToPath(new URL('replica-main.js', import.meta.url))
const SETTLE_MS = 60_000
const LEASE_MS = 1_000

export interface Replica {
  readonly name: string
  readonly role: 'auto' | 'edge'
  readonly recorder: WatchRecorder
  /** One proxy for each nats-server. */
  readonly toNats: readonly FaultProxy[]
  readonly toEtcd: FaultProxy | null
  /** The same after a restart. */
  readonly port: number
  server: ServerProcess
}

interface Running {
  watch: RecordedWatch
  at: Replica
}

export interface FleetOptions {
  readonly seed?: number
  readonly watchers?: number
  readonly flags?: readonly string[]
}

export async function startFleet(t: Test, options: FleetOptions = {}): Promise<FleetScenario> {
  const routes = new Map<number, Map<number, FaultProxy>>()
  const [etcd, nats] = await Promise.all([
    startEtcd(t, { flags: ['--grpc-keepalive-min-time=200ms'] }),
    startNatsCluster(t, { routeProxies: routes }),
  ])
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
  readonly #t: Test
  readonly #options: FleetOptions
  readonly #running: Running[] = []
  readonly #lists = new Set<Promise<void>>()
  #isLoaded = false
  #load: Promise<unknown> = Promise.resolve()
  #last: Revision | null = null
  readonly #stopped = new Set<Replica>()

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
  }

  async start(): Promise<void> {
    this.control = await recordEtcdHistory(this.etcd)
    this.#t.teardown(() => this.control.close())
    for (let i = 0; i < 10; i++) await this.write()
    const roles = ['auto', 'auto', 'edge', 'edge'] as const
    await Promise.all(roles.map((role, i) => this.#startReplica(`${role}-${i}`, role)))
    for (let i = 0; i < (this.#options.watchers ?? 12); i++) {
      const at = this.replicas[i % this.replicas.length]!
      this.#running.push({ watch: at.recorder.watch({ target: pods, sendInitialEvents: true }), at })
    }
    await this.eventually(async () => (await this.etcdWatches()) === 1, 'etcd has one watch')
  }

  pick<T>(from: readonly T[]): T {
    return from[randomInteger(this.random, 0, from.length - 1)] as T
  }

  /** The watches on etcd besides the test's own. */
  async etcdWatches(): Promise<number> {
    return ((await this.etcd.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? 0) - 1
  }

  async publisher(): Promise<Replica> {
    let found: Replica | undefined
    await this.eventually(async () => {
      for (const replica of this.replicas) {
        if (replica.role !== 'auto' || this.#stopped.has(replica)) continue
        const samples = await replica.server.metrics().catch(() => null)
        if (samples !== null && total(samples, 'distributary_fleet_publishing') === 1) found = replica
      }
      return found !== undefined
    }, 'somebody publishes')
    return found!
  }

  get edges(): readonly Replica[] {
    return this.replicas.filter(({ role }) => role === 'edge')
  }

  // What happens in the world

  async write(): Promise<void> {
    const change: Record<string, Written> = {}
    for (let i = this.random.next() < 0.1 ? randomInteger(this.random, 2, 20) : 1; i > 0; i--) {
      const name = `p${randomInteger(this.random, 0, 14)}`
      const labels = { note: String(randomInteger(this.random, 0, 1e9)) }
      change[`/registry/pods/default/${name}`] = this.random.next() < 0.2 ? null : pod(name, { labels })
    }
    this.#last = (await this.writer.tryCommit(change)) ?? this.#last
  }

  startLoad(): void {
    if (this.#isLoaded) return
    this.#isLoaded = true
    this.#t.teardown(() => {
      this.#isLoaded = false
    })
    this.#load = (async () => {
      for (let i = 0; this.#isLoaded; i++) {
        await this.write()
        if (i % 5 === 0) this.hop()
        if (i % 12 === 0) this.list()
        await pause(randomInteger(this.random, 0, 12))
      }
    })()
  }

  /** Moves one watcher to another replica, at its last bookmark; one that was cut off or expired starts afresh. */
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
   * Lists on some replica: consistently, or at least as new as the last write, for which a replica that is behind has
   * to wait.
   */
  list(): void {
    const { recorder } = this.pick(this.replicas.filter((replica) => !this.#stopped.has(replica)))
    const resourceVersion = String(this.#last ?? 1)
    const request = this.pick([
      { target: pods },
      { target: pods, limit: 5 },
      { target: pods, resourceVersion, resourceVersionMatch: 'NotOlderThan' as const },
    ])
    const list = recorder
      .list(request)
      .then(
        () => {},
        (error: unknown) => {
          // Something is away: the list gets an honest answer, or its connection ended with the process.
          if (error instanceof ListError && ![410, 429, 500, 503, 504].includes(error.status)) {
            this.unexpected.push(String(error))
          }
          if (error instanceof ListError && error.status === 500) this.unexpected.push(String(error))
        },
      )
      .finally(() => this.#lists.delete(list))
    this.#lists.add(list)
  }

  // What goes wrong

  async kill(replica: Replica): Promise<void> {
    this.#stopped.add(replica)
    await replica.server.kill('SIGKILL')
  }

  /** Starts a new process at the same port. */
  async restart(replica: Replica): Promise<void> {
    replica.server = await startServer(this.#t, { program, ready: false, flags: this.#flags(replica) })
    this.#stopped.delete(replica)
  }

  /** Stops a replica for longer than its lease, so that another publishes before it wakes up. */
  async freeze(replica: Replica, forMs = LEASE_MS * 2.5): Promise<void> {
    this.#stopped.add(replica)
    process.kill(replica.server.pid, 'SIGSTOP')
    await pause(forMs)
    process.kill(replica.server.pid, 'SIGCONT')
    this.#stopped.delete(replica)
  }

  async cutOff(links: readonly FaultProxy[], how: 'silence' | 'refusal', forMs: number): Promise<void> {
    if (how === 'silence') for (const link of links) link.stall()
    else {
      for (const link of links) {
        await link.refuse()
        link.cut()
      }
    }
    await pause(forMs)
    for (const link of links) {
      link.release()
      await link.accept()
      link.cut()
    }
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
      const isAnswered = (): Promise<boolean> =>
        recorder.list({ target: pods }).then(
          () => true,
          () => false,
        )
      await this.eventually(isAnswered, 'a consistent list on every replica')
    }
    await Promise.all(this.#lists)
    const name = 'last'
    const labels = { note: String(randomInteger(this.random, 0, 1e9)) }
    const last = await this.writer.put(`/registry/pods/default/${name}`, pod(name, { labels }))
    // A watcher that was cut off comes back, as a client would.
    const isThere = ({ watch }: Running): boolean =>
      watch.end === 'open' && Math.max(watch.items.at(-1)?.revision ?? 0, watch.lastBookmark ?? 0) >= last
    await this.eventually(async () => {
      for (const entry of this.#running) {
        while (entry.watch.end !== 'open') this.#return(entry)
      }
      await pause(20)
      return this.#running.every(isThere)
    }, `every watch comes to revision ${last}`)
    await this.eventually(async () => (await this.etcdWatches()) === 1, 'etcd has one watch again')
    return last
  }

  /** Lets every replica compare its own cache with etcd, until it could compare everything. @returns the outcomes. */
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
    return validate(this.history(), await this.control.finish(), { settledRevision })
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

  /** Describes the state for whoever has to find out why a wait failed. */
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

  async #startReplica(name: string, role: 'auto' | 'edge'): Promise<void> {
    const proxy = async (targetPort: number): Promise<FaultProxy> => {
      const opened = await startFaultProxy({ targetPort })
      this.#t.teardown(() => opened.close())
      return opened
    }
    const toNats = await Promise.all(this.nats.map(({ port }) => proxy(port)))
    const toEtcd = role === 'edge' ? null : await proxy(Number(new URL(this.etcd.url).port))
    const links = { name, role, toNats, toEtcd, port: await freePort() }
    const server = await startServer(this.#t, { program, flags: this.#flags(links) })
    const recorder = new WatchRecorder({ url: server.url })
    this.#t.teardown(() => recorder.close())
    this.replicas.push({ ...links, server, recorder })
  }

  #flags({ role, toNats, toEtcd, port }: Pick<Replica, 'role' | 'toNats' | 'toEtcd' | 'port'>): string[] {
    return [
      `--nats-servers=${toNats.map(({ port }) => `nats://127.0.0.1:${port}`).join()}`,
      `--nats-role=${role}`,
      `--nats-lease=${LEASE_MS}ms`,
      '--nats-replicas=3',
      ...(toEtcd === null ? [] : ['--etcd-servers', `http://127.0.0.1:${toEtcd.port}`]),
      `--port=${port}`,
      ...(this.#options.flags ?? []),
    ]
  }
}

function podResource() {
  const loaded = load([], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('no configuration')
  return loaded.config.resources.find(({ resource }) => resource.plural === 'pods' && resource.group === '')!.resource
}

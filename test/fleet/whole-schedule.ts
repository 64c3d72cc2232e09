/**
 * A seeded random schedule of faults over a whole fleet. A single fault lasts until every resource has a publisher
 * again, which is timed; others are two at once, rolling restarts, and compactions while publishers change. The next
 * begins when no effect of the last remains.
 */
import { toRevision } from '../../src/engine/model/revision.js'
import { type Random, randomInteger } from '../../src/support/random.js'
import type { FaultProxy } from '../support/fault-proxy.js'
import { pause, until } from '../support/until.js'
import type { FleetScenario, Replica } from './fleet-scenario.js'

/**
 * After nearly every single fault, each resource has a publisher within this time: 9 s until another candidate has seen
 * the lease of 5 s expire, and as long again if one of its reads came late and the lease counted from the start
 * (test/soak/README.md).
 */
export const PUBLISHER_WITHIN_MS = 20_000
/** Two elections in NATS of at most 10 s each, and then our own retries. */
const NATS_WITHIN_MS = 40_000
/** Nothing bounds the elections while two of three servers have lost contact, so this only ends the fault. */
const APART_MS = 180_000
/** A missing publisher is noticed when its lease expires, and its missing report when an edge's wait for it ends. */
const NOTICED_MS = 8_000
const SLOW_LINK_MS = 200

interface Single {
  /** Begins the fault. @returns a function that ends it. */
  begin(s: FleetScenario): Promise<() => Promise<unknown>>
  /** Nobody can confirm freshness while it lasts. */
  readonly hidesEtcd?: true
  /** Default: `PUBLISHER_WITHIN_MS`. null: no time is too long. */
  readonly withinMs?: number | null
}

const how = (s: FleetScenario): 'silence' | 'refusal' => s.pick(['silence', 'refusal'] as const)

async function killed(s: FleetScenario, replica: Replica): Promise<() => Promise<unknown>> {
  await s.kill(replica)
  return () => s.restart(replica, { ready: true })
}

async function stopped(s: FleetScenario, replica: Replica): Promise<() => Promise<unknown>> {
  s.suspend(replica)
  return async () => s.wake(replica)
}

async function apart(s: FleetScenario, links: readonly FaultProxy[]): Promise<() => Promise<unknown>> {
  await s.separate(links, how(s))
  return () => s.join(links)
}

async function slow(links: readonly FaultProxy[]): Promise<() => Promise<unknown>> {
  for (const link of links) link.setLatency(SLOW_LINK_MS)
  return async () => {
    for (const link of links) link.setLatency(0)
  }
}

const singles: Readonly<Record<string, Single>> = {
  'candidate killed': { begin: async (s) => await killed(s, await s.publisher()) },
  'candidate stopped': { begin: async (s) => await stopped(s, await s.publisher()) },
  'edge killed': { begin: async (s) => await killed(s, s.pick(s.runningEdges)) },
  'edge stopped': { begin: async (s) => await stopped(s, s.pick(s.runningEdges)) },
  'NATS server killed': {
    begin: async (s) => {
      const server = s.pick(s.nats)
      await server.kill()
      return () => server.restart()
    },
    withinMs: NATS_WITHIN_MS,
  },
  'NATS server stopped': {
    begin: async (s) => {
      const server = s.pick(s.nats)
      await server.kill('SIGSTOP')
      return () => server.kill('SIGCONT')
    },
    withinMs: NATS_WITHIN_MS,
  },
  'etcd killed': {
    begin: async (s) => {
      await s.etcd.kill()
      return () => s.etcd.restart()
    },
    hidesEtcd: true,
  },
  'etcd stopped': {
    begin: async (s) => {
      await s.etcd.kill('SIGSTOP')
      return () => s.etcd.kill('SIGCONT')
    },
    hidesEtcd: true,
  },
  'NATS servers apart': {
    begin: async (s) => {
      const a = randomInteger(s.random, 0, 2)
      return await apart(s, s.between(a, (a + 1) % 3))
    },
    withinMs: null,
  },
  'candidate and NATS apart': { begin: async (s) => await apart(s, (await s.publisher()).toNats) },
  'edge and NATS apart': { begin: async (s) => await apart(s, s.pick(s.runningEdges).toNats) },
  'candidate and etcd apart': {
    begin: async (s) => await apart(s, [(await s.publisher()).toEtcd!]),
    hidesEtcd: true,
  },
  'links to NATS broken': {
    begin: async (s) => {
      for (const { toNats } of s.replicas) for (const link of toNats) link.cut(s.pick(['rst', 'fin'] as const))
      return async () => {}
    },
  },
  'slow link of a candidate': { begin: async (s) => await slow((await s.publisher()).toNats) },
  'slow link of an edge': { begin: async (s) => await slow(s.pick(s.runningEdges).toNats) },
  'slow link between NATS servers': {
    begin: async (s) => {
      const a = randomInteger(s.random, 0, 2)
      return await slow(s.between(a, (a + 1) % 3))
    },
  },
}

const others: Readonly<Record<string, (s: FleetScenario) => Promise<unknown>>> = {
  'two at once': async (s) => {
    const [a, b] = shuffled(s.random, Object.values(singles))
    const endFirst = await a!.begin(s)
    const endSecond = await b!.begin(s)
    await pause(randomInteger(s.random, 500, NOTICED_MS))
    await endFirst()
    await endSecond()
  },
  'rolling restart of everything': async (s) => {
    const program = s.pick(s.programs)
    for (const replica of s.replicas) {
      await s.replace(replica, program)
      await s.recovered()
    }
    for (const server of s.nats) {
      await server.kill('SIGTERM')
      await server.restart()
      await s.recovered()
    }
    await s.etcd.restart()
  },
  'definition deleted and made again': (s) => s.replaceDefinition(),
  'compactions while publishers change': async (s) => {
    for (let i = 0; i < 2; i++) {
      const publisher = await s.publisher()
      // Anything missing from the streams would be unreadable for the next publisher: that would be a gap.
      const marked = await s.mark()
      await s.kill(publisher)
      for (let compactions = 0; compactions < 10; compactions++) {
        await s.compact(toRevision(marked - 9 + compactions))
        await pause(randomInteger(s.random, 100, 700))
      }
      await s.restart(publisher, { ready: true })
    }
  },
}

export interface Injected {
  readonly fault: string
  /** When every resource had a publisher again; null unless it is a single fault. */
  readonly publishedAfterMs: number | null
  /** Whether that took too long. */
  readonly isLate: boolean
  /** The resources that had none at the deadline. */
  readonly missing: readonly string[]
}

export class WholeSchedule {
  readonly #s: FleetScenario
  /** The faults, in the order in which they started. */
  readonly faults: Injected[] = []
  #due: string[] = []

  readonly #only: string | null

  /** @param only the one fault to inject repeatedly. Default: all of them. */
  constructor(s: FleetScenario, only?: string) {
    if (only !== undefined && !(only in singles) && !(only in others)) throw new Error(`no fault is called "${only}"`)
    this.#s = s
    this.#only = only ?? null
  }

  async run(durationMs: number): Promise<void> {
    this.#s.startLoad()
    const end = performance.now() + durationMs
    do {
      await this.#s.recovered()
      await this.#one()
    } while (performance.now() < end)
    await this.#s.recovered()
  }

  /** Single faults after which a resource had no publisher for too long. */
  get late(): readonly Injected[] {
    return this.faults.filter(({ isLate }) => isLate)
  }

  async #one(): Promise<void> {
    if (this.#due.length === 0) {
      const all = shuffled(this.#s.random, [...Object.keys(singles), ...Object.keys(others)])
      this.#due = this.#only === null ? all : [this.#only]
    }
    const fault = this.#due.pop()!
    const single = singles[fault]
    if (single === undefined) {
      this.faults.push({ fault, publishedAfterMs: null, isLate: false, missing: [] })
      await others[fault]!(this.#s)
      return
    }
    const startedMs = performance.now()
    const end = await single.begin(this.#s)
    const injected = await this.#publishedAfter(startedMs, single)
    this.faults.push({ fault, ...injected })
    await end()
  }

  /**
   * Measures from `startedMs` until the last moment at which a resource had no publisher; 0 when every resource always
   * had one.
   */
  async #publishedAfter(startedMs: number, single: Single): Promise<Omit<Injected, 'fault'>> {
    const options = { isFresh: single.hidesEtcd === undefined }
    const { withinMs = PUBLISHER_WITHIN_MS } = single
    const mostMs = withinMs === null ? APART_MS : 2 * withinMs
    let publishedAfterMs = 0
    let missing: readonly string[] | null = null
    const isOver = async (): Promise<boolean> => {
      const hasAll = (await this.#s.published(options)) === this.#s.resourceCount
      const nowMs = performance.now() - startedMs
      if (!hasAll) publishedAfterMs = nowMs
      if (!hasAll && nowMs > (withinMs ?? PUBLISHER_WITHIN_MS)) missing ??= await this.#s.unpublished(options)
      return nowMs > mostMs || (hasAll && nowMs > NOTICED_MS)
    }
    await until(isOver, 'the fault is over', 2 * mostMs)
    return {
      publishedAfterMs: Math.round(publishedAfterMs),
      isLate: withinMs !== null && publishedAfterMs > withinMs,
      missing: missing ?? [],
    }
  }
}

function shuffled<T>(random: Random, items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, at: random.next() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}

/** The bounds of what runs at one time: lists, initial states, writes, watchers and memory. */
import { FairGate } from '../auth/fair-gate.js'
import type { Limit } from '../model/limit.js'
import type { Resources } from '../pipeline/resources.js'
import { BodyBudget } from '../transports/bodies/body-budget.js'
import { BodyCache } from '../transports/bodies/body-cache.js'
import { MemoryGate } from '../transports/limits/memory-gate.js'
import { WatcherLimits } from '../transports/limits/watcher-limits.js'
import type { Basis } from './basis.js'
import { isOpenToAll } from './open-gate.js'
import { defaultMemoryTarget } from './memory-target.js'

/** As many as an API server takes at once by default (`--max-mutating-requests-inflight`). */
const MAX_WRITES = 200
/** The most past states that are rebuilt at one time: each walks through the history, in the event loop that all share. */
const PAST_STATES = 4
/** The number of threads for writes. One identity has at most one of them, where identities are told apart. */
const WRITE_THREADS = 2
/** The share of the memory target for the bodies of lists that are being sent, and the bytes for them without a target. */
const SENT_SHARE = 1 / 4
const SENT_BYTES = 512 * 1024 * 1024
/** How long a list or an initial state may wait for its slot: as long as the API server lets a read wait for its state. */
const GATE_WAIT_MS = 3_000
/** Requests that wait for each slot: they hold a connection and no object. */
const WAITING_PER_SLOT = 16

export interface Limits {
  readonly bodies: BodyCache
  /** Slots for making states of the past. */
  readonly pastStates: FairGate
  readonly initialStates: FairGate
  readonly writes: FairGate
  /** Slots of the threads that compute the writes that are not small. */
  readonly writeThreads: FairGate
  readonly memory: MemoryGate
  readonly watchers: WatcherLimits
}

export function openLimits(basis: Basis, resources: Resources): Limits {
  const { config, live, clock, metrics } = basis
  const lists = fairGate(basis, 'lists', config.maxInitialStates)
  const initialStates = fairGate(basis, 'initial-states', config.maxInitialStates)
  metrics.observeInitialStates(() => initialStates.running + lists.running)
  // With workers, the primary and each of them share what the container has.
  const targetBytes = config.memoryTarget ?? defaultMemoryTarget(config.workers > 1 ? config.workers + 1 : 1)
  const budget = new BodyBudget({
    maxBytes: targetBytes === null ? SENT_BYTES : Math.floor(targetBytes * SENT_SHARE),
    maxWaitMs: GATE_WAIT_MS,
    clock,
    onRejected: () => metrics.rejected('list-bytes'),
  })
  const bodies = new BodyCache({ maxBytes: config.listCacheBytes, gate: lists, budget })
  return {
    bodies,
    pastStates: fairGate(basis, 'past-states', PAST_STATES),
    initialStates,
    writes: fairGate(basis, 'writes', MAX_WRITES),
    writeThreads: fairGate(basis, 'write-threads', WRITE_THREADS),
    memory: new MemoryGate({
      targetBytes,
      residentBytes: () => process.memoryUsage.rss(),
      clock,
      relieve: () => {
        bodies.clear()
        for (const pipeline of resources.pipelines()) pipeline.relieveMemory()
      },
      onRejected: () => metrics.rejected('memory'),
    }),
    watchers: new WatcherLimits({
      total: () => live.current.maxWatchers,
      perClient: () => live.current.maxWatchersPerClient,
      onRejected: (limit) => metrics.rejected(limit),
    }),
  }
}

/** Without authentication all clients share one identity: behind one proxy or NAT there are thousands of them. */
function fairGate({ config, clock, metrics }: Basis, limit: Limit, slots: number): FairGate {
  const isShared = isOpenToAll(config)
  const maxWaiting = WAITING_PER_SLOT * slots
  return new FairGate({
    slots,
    maxWaiting,
    maxSlotsPerIdentity: isShared ? slots : Math.max(1, Math.floor((slots * 3) / 4)),
    maxWaitingPerIdentity: isShared ? maxWaiting : maxWaiting / 2,
    maxWaitMs: GATE_WAIT_MS,
    clock,
    onRejected: () => metrics.rejected(limit),
  })
}

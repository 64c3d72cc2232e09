/**
 * Opens the limits on concurrent work: the limits on clients, which all processes share, and the limits of this
 * process.
 */
import { FairSemaphore } from '../auth/fair-semaphore.js'
import type { IdentitySemaphore } from '../../engine/model/shared-limits.js'
import type { ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import type { Resources } from '../../engine/pipeline/resources.js'
import { BodyBudget } from '../transports/bodies/body-budget.js'
import { BodyCache } from '../transports/bodies/body-cache.js'
import { MemoryPressure } from '../transports/limits/memory-pressure.js'
import { IdleConnections } from '../transports/limits/idle-connections.js'
import type { Basis } from './basis.js'
import {
  type ClientLimits,
  isOpenToAll,
  openSemaphore,
  SEMAPHORE_WAIT_MS,
  withoutQueue,
  withQueue,
} from './open-client-limits.js'
import { setHeapGrowth } from './heap-flags.js'
import { memoryTargetOf } from './memory-target.js'

/**
 * The number of past states that a process rebuilds at once. To rebuild a state, the process walks through the history
 * on its event loop.
 */
const PAST_STATES = 4
/**
 * The number of reads in a process that may wait for resources to load. Each of them holds only its connection or
 * stream. If identities are known, one identity may have half of them.
 */
const LOADING_READS = 10_000
/** The number of write threads per process. If identities are known, one identity may use only one of them. */
const WRITE_THREADS = 2
/** The number of lists and watches that may begin at once in a process whose memory exceeds its target. */
const MEMORY_TURNS = 8
/** The share of the memory target for list bodies being sent, and the limit in bytes without a target. */
const SENT_SHARE = 1 / 4
const SENT_BYTES = 512 * 1024 * 1024
/**
 * The share of the memory target for connections of unknown clients, and the limit in bytes without a target. The waiting
 * connections of known clients have another share of the same size.
 */
const IDLE_CONNECTIONS_SHARE = 1 / 4
const IDLE_CONNECTIONS_BYTES = 1024 * 1024 * 1024
/** While caches have to shrink, the time that a connection may wait before its client is known. */
const UNKNOWN_CONNECTION_MS = 2_000

export interface Limits {
  readonly bodies: BodyCache
  /** Slots for rebuilding past states. */
  readonly pastStates: FairSemaphore
  readonly loadingReads: FairSemaphore
  readonly initialStates: IdentitySemaphore
  readonly writes: IdentitySemaphore
  /** Slots of the threads that compute larger writes. */
  readonly writeThreads: FairSemaphore
  readonly memory: MemoryPressure
  readonly idleConnections: IdleConnections
  readonly watchers: IdentitySemaphore
}

export function openLimits(basis: Basis, resources: Resources<ServedResource>, { semaphores }: ClientLimits): Limits {
  const { config, live, clock, metrics } = basis
  const { lists, 'initial-states': initialStates, writes, watchers } = semaphores
  metrics.beforeScrape(() => metrics.process.initialStates(initialStates.running + lists.running))
  const targetBytes = memoryTargetOf(config)
  const budget = new BodyBudget({
    maxBytes: sentBytes(targetBytes),
    maxWaitMs: SEMAPHORE_WAIT_MS,
    clock,
    onRejected: () => metrics.requests.rejected('list-bytes'),
  })
  const bodies = new BodyCache({ maxBytes: config.listCacheBytes, semaphore: lists, budget })
  const idleConnections = new IdleConnections({
    clock,
    maxBytes: idleConnectionsBytes(targetBytes),
    isFull: () => memory.isFull,
    onRejected: () => metrics.requests.rejected('connections'),
  })
  const memory: MemoryPressure = new MemoryPressure({
    targetBytes,
    residentBytes: () => process.memoryUsage.rss(),
    clock,
    relieve: () => {
      idleConnections.closeOlderThan(UNKNOWN_CONNECTION_MS)
      bodies.clear()
      for (const pipeline of resources.pipelines()) pipeline.relieveMemory()
    },
    onShort: (isShort) => setHeapGrowth(isShort, process.execArgv),
    onRejected: () => metrics.requests.rejected('memory'),
    turns: openSemaphore(basis, 'memory', { boundsOf: () => withQueue(config, MEMORY_TURNS) }),
  })
  live.onChange((changed) => {
    const target = memoryTargetOf(changed)
    bodies.resize(changed.listCacheBytes)
    budget.setMaxBytes(sentBytes(target))
    idleConnections.setMaxBytes(idleConnectionsBytes(target))
    memory.setTarget(target)
  })
  return {
    bodies,
    pastStates: openSemaphore(basis, 'past-states', { boundsOf: () => withQueue(config, PAST_STATES) }),
    loadingReads: new FairSemaphore({
      ...withoutQueue(LOADING_READS, isOpenToAll(config) ? LOADING_READS : LOADING_READS / 2),
      maxWaitMs: 0,
      clock,
      onRejected: () => {},
    }),
    initialStates,
    writes,
    writeThreads: openSemaphore(basis, 'write-threads', { boundsOf: () => withQueue(config, WRITE_THREADS) }),
    memory,
    idleConnections,
    watchers,
  }
}

function sentBytes(targetBytes: number | null): number {
  return targetBytes === null ? SENT_BYTES : Math.floor(targetBytes * SENT_SHARE)
}

function idleConnectionsBytes(targetBytes: number | null): number {
  return targetBytes === null ? IDLE_CONNECTIONS_BYTES : Math.floor(targetBytes * IDLE_CONNECTIONS_SHARE)
}

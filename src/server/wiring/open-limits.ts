/**
 * Opens the limits on concurrent work: the limits on clients, which all processes share, and the limits of this
 * process.
 */
import { FairSemaphore } from '../limits/fair-semaphore.js'
import type { IdentitySemaphore } from '../../engine/model/shared-limits.js'
import type { ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import type { Resources } from '../../engine/pipeline/resources.js'
import { BodyBudget } from '../transports/bodies/body-budget.js'
import { BodyCache } from '../transports/bodies/body-cache.js'
import { MemoryPressure } from '../transports/limits/memory-pressure.js'
import { IdleConnections } from '../transports/limits/idle-connections.js'
import type { ServerDeps } from './server-deps.js'
import { type ClientLimits, isOpenToAll, openSemaphore, SEMAPHORE_WAIT_MS } from './open-client-limits.js'
import { setHeapGrowth } from './heap-flags.js'
import { memoryTargetOf } from './memory-target.js'
import {
  IDLE_CONNECTIONS_BYTES,
  IDLE_CONNECTIONS_SHARE,
  LOADING_READS,
  SENT_BYTES,
  SENT_SHARE,
} from '../limits/fixed-limits.js'

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

export function openLimits(
  deps: ServerDeps,
  resources: Resources<ServedResource>,
  { semaphores }: ClientLimits,
): Limits {
  const { config, live, clock, metrics } = deps
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
    turns: openSemaphore(deps, 'memory'),
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
    pastStates: openSemaphore(deps, 'past-states'),
    loadingReads: new FairSemaphore({
      slots: LOADING_READS,
      maxSlotsPerIdentity: isOpenToAll(config) ? LOADING_READS : LOADING_READS / 2,
      maxWaiting: 0,
      maxWaitingPerIdentity: 0,
      maxWaitMs: 0,
      clock,
      onRejected: () => {},
    }),
    initialStates,
    writes,
    writeThreads: openSemaphore(deps, 'write-threads'),
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

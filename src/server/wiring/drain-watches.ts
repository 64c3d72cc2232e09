/**
 * Ends all watches within a grace period, so that their clients do not all reconnect at once. A small number of watches
 * ends sooner, because other replicas easily handle 200 reconnects a second.
 */
import type { ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import type { Resources } from '../../engine/pipeline/resources.js'
import { type Clock, sleep } from '../../support/clock.js'

/** The time between two steps. Each step ends some watches. */
const STEP_MS = 50
/** The fewest watches that a step ends. This makes 200 a second, as in the API server. */
const STEP_WATCHES = 10

export async function drainWatches(
  resources: Resources<ServedResource>,
  graceMs: number,
  clock: Clock,
  isStopped: () => boolean,
): Promise<void> {
  let running = [...resources.dispatchers()].flatMap((dispatcher) =>
    [...dispatcher.cursors].map((cursor) => ({ dispatcher, cursor })),
  )
  for (let steps = Math.max(1, Math.floor(graceMs / STEP_MS)); running.length > 0 && !isStopped(); steps--) {
    const now = Math.max(STEP_WATCHES, Math.ceil(running.length / Math.max(1, steps)))
    for (const { dispatcher, cursor } of running.slice(0, now)) dispatcher.drain(cursor)
    // Skip watches that have ended in the meantime.
    running = running.slice(now).filter(({ cursor }) => cursor.state !== 'ended')
    if (running.length > 0) await sleep(clock, STEP_MS)
  }
}

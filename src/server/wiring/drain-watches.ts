/**
 * Ends all watches within a grace period, so that their clients do not all reconnect at once. A small number of watches
 * ends sooner, because other replicas easily handle 200 reconnects a second.
 *
 * A watch ends with a bookmark from which its client resumes, perhaps after a compaction. So the positions of quiet
 * resources are brought up to date first, where progress on request can be trusted.
 */
import { type OtherEtcd, otherOf } from '../../kubernetes/dialect/other-etcds.js'
import type { ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import { drain } from '../../engine/broadcast/endings.js'
import { ENDING_STEP_MS, ENDINGS_PER_STEP } from '../../engine/broadcast/paced-endings.js'
import type { Revision } from '../../engine/model/revision.js'
import type { ResourcePipeline } from '../../engine/pipeline/resource-pipeline.js'
import type { Resources } from '../../engine/pipeline/resources.js'
import { type Clock, sleep } from '../../support/clock.js'
import { orAborted } from '../../support/deadline.js'
import { getOrMake } from '../../support/memo.js'

/** The longest wait for current positions. */
const POSITION_MS = 1_000

export interface DrainOptions {
  readonly resources: Resources<ServedResource>
  readonly otherEtcds: readonly OtherEtcd[]
  readonly graceMs: number
  readonly clock: Clock
  readonly isStopped: () => boolean
}

export async function drainWatches(options: DrainOptions): Promise<void> {
  const { resources, graceMs, clock, isStopped } = options
  await advancePositions(options)
  let running = [...resources.allPipelines()].flatMap(({ dispatcher }) => [...dispatcher.cursors])
  for (let steps = Math.max(1, Math.floor(graceMs / ENDING_STEP_MS)); running.length > 0 && !isStopped(); steps--) {
    const now = Math.max(ENDINGS_PER_STEP, Math.ceil(running.length / Math.max(1, steps)))
    for (const cursor of running.slice(0, now)) drain(cursor)
    // Skip watches that have ended in the meantime.
    running = running.slice(now).filter((cursor) => cursor.state !== 'ended')
    if (running.length > 0) await sleep(clock, ENDING_STEP_MS)
  }
}

/** Asks each etcd once for its revision, and then its watches for their progress up to that. Gives up without an error. */
async function advancePositions({ resources, otherEtcds, clock }: DrainOptions): Promise<void> {
  const late = new AbortController()
  const timer = clock.setTimer(POSITION_MS, () => late.abort(new Error('the source does not answer')))
  const current = new Map<OtherEtcd | undefined, Promise<Revision> | undefined>()
  // A cache that lives for one watch knows only its own position, so another cache asks for the revision.
  const revisionOf = (etcd: OtherEtcd | undefined): Promise<Revision> | undefined =>
    [...resources.pipelines()]
      .find(({ cache, resource }) => cache.source.disconnectedReason === null && otherOf(otherEtcds, resource) === etcd)
      ?.cache.reads.sourceRevision()
  const advance = async ({ cache, resource }: ResourcePipeline): Promise<void> => {
    const revision = await getOrMake(current, otherOf(otherEtcds, resource), revisionOf)
    if (revision !== undefined) await cache.reads.waitUntil(revision, late.signal)
  }
  const quiet = [...resources.allPipelines()].filter(
    ({ cache, dispatcher }) =>
      dispatcher.watchers > 0 && cache.reads.trustsProgress && cache.source.disconnectedReason === null,
  )
  await orAborted(Promise.allSettled(quiet.map(advance)), late.signal).catch(() => {})
  timer.cancel()
}

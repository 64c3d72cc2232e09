/** Chooses the revision of a list so that the watch after it replays as much history as requested and available. */
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { Clock } from '../../support/clock.js'
import type { UpstreamWatch, UpstreamWatcher } from '../upstream/upstream.js'
import type { ReplaceReason } from '../model/feed-sink.js'
import type { FeedPlace } from './feed-state.js'

export interface ListPlan {
  readonly revision: Revision
  readonly reason: ReplaceReason
}

export interface ListPlanInput {
  /** etcd's revision, read linearizably. */
  readonly now: Revision
  /** The first revision that can be read; null if it is not known. */
  readonly floor: Revision | null
  /** How many times in a row a compaction has restarted the list. */
  readonly restarts: number
  readonly backfillRevisions: number
  readonly reason: ReplaceReason
  readonly place: FeedPlace | null
  readonly isSameCluster: boolean
}

/**
 * The revision is max(compacted, now − backfill), and never before the place that the same history has already been
 * delivered up to. From the second restart on, each restart halves the backfill. After a restart without a known floor,
 * the current state is listed. It is also listed after a change of history, so that watchers go from the old state
 * straight to the current one and never through the past.
 */
export function planList(input: ListPlanInput): ListPlan {
  const { now, floor, restarts, place } = input
  const isOther = place !== null && (!input.isSameCluster || now < place.position)
  const reason = isOther ? 'history-changed' : input.reason
  const isContinued = reason === 'gap' || reason === 'coalesce'
  const backfill =
    reason === 'history-changed' || (restarts > 0 && floor === null)
      ? 0
      : Math.floor(input.backfillRevisions / 2 ** Math.max(0, restarts - 1))
  const lowest = Math.max(1, floor ?? 1, isContinued && place !== null ? place.position : 1)
  return { revision: Math.min(now, Math.max(lowest, now - backfill)) as Revision, reason }
}

/**
 * Finds the first revision that can still be read when `revision` turned out to be compacted. The error of a range read
 * does not contain it, but when etcd cancels a watch that starts at `revision`, its message does. Returns null when
 * etcd does not answer in time.
 */
export function learnCompactRevision(
  upstream: UpstreamWatcher,
  options: { prefix: Key; revision: Revision; clock: Clock; timeoutMs: number; signal: AbortSignal },
): Promise<Revision | null> {
  const { prefix, revision, clock, timeoutMs, signal } = options
  if (signal.aborted) return Promise.resolve(null)
  return new Promise((resolve) => {
    let watch: UpstreamWatch | null = null
    let isDone = false
    const finish = (result: Revision | null): void => {
      if (isDone) return
      isDone = true
      timer.cancel()
      signal.removeEventListener('abort', giveUp)
      watch?.close()
      resolve(result)
    }
    const giveUp = (): void => finish(null)
    const timer = clock.setTimer(timeoutMs, giveUp)
    signal.addEventListener('abort', giveUp, { once: true })
    watch = upstream.watch(
      { prefix, startRevision: revision },
      {
        onOpen() {},
        onBatches: giveUp,
        onProgress: giveUp,
        onEnd: (end) => finish(end.kind === 'compacted' ? end.compactRevision : null),
      },
    )
    if (isDone) watch.close()
  })
}

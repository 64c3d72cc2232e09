/**
 * Reads back the history from before the first state of a source that keeps its latest events in memory, as an API
 * server does in its watch cache. So watches from before a restart of this server resume. A past state is expensive
 * there, which is why the feed began with the current one and is ready by now.
 *
 * First, a watch from an older revision collects the events up to the first state. A list at the exact revision where it
 * begins finds the values that they replaced; without events, no list is needed. If the source no longer has that
 * revision, the next try begins at a later one. After the last try there is no earlier history, as without this module.
 */
import { type Batch, batchInOwnMemory, eventKey, inOwnMemory, type KeyValue } from '../model/event.js'
import { EARLIER_BYTES } from '../model/limits.js'
import { nextRevision, type Revision } from '../model/revision.js'
import { sleep, type Timer } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { inTurns, partsOf, sourceTurns } from '../../support/turns.js'
import { UpstreamError, type UpstreamWatch, type WatchEnd } from '../upstream/upstream.js'
import { addInTurns } from './add-in-turns.js'
import type { FeedOptions } from './feed-options.js'
import { sizeOf } from './held-batches.js'
import { asUpstreamError } from './history-reader.js'
import { READ_TIMEOUT_MS, readPages } from './read-pages.js'

const TRIES = 3
/** If nothing has arrived for this long, the source is asked for its progress. */
const QUIET_MS = 200
/** The pause after a try that the source could not answer. */
const AGAIN_MS = 1_000
/** Bytes of events delivered between two reads of the clock. */
const PART_BYTES = 64 * 1024

/** @param until the revision of the first state. Never rejects. After the signal has aborted, the sink is not called. */
export async function readEarlier(options: FeedOptions, until: Revision, signal: AbortSignal): Promise<void> {
  const { name: resource, sink, lists, logger, backfillRevisions } = options
  if (sink.earlier === undefined || backfillRevisions === 0) return
  sink.seeking?.(true)
  lists.earlier.begin()
  let after: Revision | null = null
  let giveBack = (): void => {}
  try {
    giveBack = await lists.earlier.slots.acquire(signal, () => sink.isAwaited === true)
    after = await readInTries(options, until, signal)
    logger.debug({ resource, resumableAfter: after }, 'history from before the start has been read back')
  } catch (error) {
    const why = asUpstreamError(error, options).message
    logger.debug({ resource, why }, 'no history from before the start')
  } finally {
    giveBack()
    lists.earlier.end(after ?? (signal.aborted ? 'stopped' : 'none'), logger)
    if (!signal.aborted) sink.seeking?.(false)
  }
}

/** @returns the revision after which the history begins. @throws UpstreamError */
async function readInTries(options: FeedOptions, until: Revision, signal: AbortSignal): Promise<Revision> {
  let after = Math.max(1, until - options.backfillRevisions) as Revision
  let batches: readonly Batch[] | null = null
  for (let tries = 1; ; tries++) {
    try {
      if (after >= until) throw new UpstreamError('protocol', 'there is nothing before the first state')
      if (batches === null) ({ after, batches } = await collect(options, after, until, signal))
      else batches = batches.filter(({ revision }) => revision > after)
      const replaced = await readReplaced(options, after, batches, signal)
      await deliver(options, { after, until, replaced, batches }, signal)
      return after
    } catch (error) {
      if (!(error instanceof UpstreamError) || signal.aborted || tries === TRIES) throw error
      if (error.code === 'unavailable') {
        await sleep(options.clock, AGAIN_MS, signal)
        continue
      }
      if (error.code !== 'compacted' && error.code !== 'too-large') throw error
      after = nearer(after, until, error.compactRevision ?? after)
    }
  }
}

/** Leaves some room, because the source drops events while it is asked again. */
function nearer(after: Revision, until: Revision, oldest: Revision): Revision {
  return (
    oldest > after ? oldest + Math.ceil((until - oldest) / 8) : until - Math.floor((until - after) / 8)
  ) as Revision
}

interface Collected {
  readonly after: Revision
  readonly batches: readonly Batch[]
}

/** Collects the batches between the revisions. Beyond `EARLIER_BYTES`, the oldest are left out. */
async function collect(
  { upstream, prefix, clock }: FeedOptions,
  after: Revision,
  until: Revision,
  signal: AbortSignal,
): Promise<Collected> {
  let watch: UpstreamWatch | null = null
  let timer: Timer | null = null
  const batches: Batch[] = []
  let floor = after
  let bytes = 0
  let isOpen = false
  let hasArrived = false
  const add = (batch: Batch): void => {
    batches.push(batch)
    bytes += sizeOf(batch)
    while (bytes > EARLIER_BYTES) {
      const oldest = batches.shift()!
      bytes -= sizeOf(oldest)
      floor = oldest.revision
    }
  }
  const collecting = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const ask = (): void => {
        if (!hasArrived) watch?.requestProgress()
        hasArrived = false
        timer = clock.setTimer(QUIET_MS, ask)
      }
      const onBatches = (arrived: readonly Batch[]): void => {
        hasArrived = true
        for (const batch of arrived) {
          if (batch.revision <= until) add(batchInOwnMemory(batch))
          if (batch.revision >= until) return resolve()
        }
      }
      watch = upstream.watch(
        { prefix, startRevision: nextRevision(after) },
        {
          onOpen: () => {
            isOpen = true
            timer = clock.setTimer(QUIET_MS, ask)
          },
          onBatches,
          onProgress: (revision) => {
            if (revision >= until) resolve()
          },
          onEnd: (end) => reject(asError(end)),
        },
      )
    })
  try {
    await withDeadline(clock, READ_TIMEOUT_MS, signal, () => late(isOpen), collecting)
  } finally {
    ;(timer as Timer | null)?.cancel()
    ;(watch as UpstreamWatch | null)?.close()
  }
  return { after: floor, batches }
}

/** Returns the values, at a revision, of the keys that the batches change. */
async function readReplaced(
  { upstream, prefix, clock }: FeedOptions,
  revision: Revision,
  batches: readonly Batch[],
  signal: AbortSignal,
): Promise<readonly KeyValue[]> {
  if (batches.length === 0) return []
  const keys = new Set(batches.flatMap(({ events }) => events.map(eventKey)))
  const found: KeyValue[] = []
  let bytes = 0
  for await (const { keyValues } of readPages({ upstream, prefix, revision, clock, signal })) {
    for (const keyValue of keyValues) {
      if (!keys.has(keyValue.key)) continue
      found.push(inOwnMemory(keyValue))
      bytes += keyValue.value.length
    }
    if (bytes > EARLIER_BYTES) throw new UpstreamError('too-large', `the replaced values exceed ${EARLIER_BYTES} bytes`)
  }
  return found
}

interface Earlier extends Collected {
  readonly until: Revision
  readonly replaced: readonly KeyValue[]
}

async function deliver(options: FeedOptions, earlier: Earlier, signal: AbortSignal): Promise<void> {
  const { after, until, replaced, batches } = earlier
  const history = options.sink.earlier!(after, until)
  await addInTurns(replaced, (part) => history.add(part), signal)
  for await (const part of inTurns(partsOf(batches, sizeOf, PART_BYTES), sourceTurns)) {
    signal.throwIfAborted()
    history.apply(part)
  }
  signal.throwIfAborted()
  if (!history.commit()) throw new UpstreamError('protocol', 'the history does not lead to the state held here')
}

/** A source that reports no progress does not report it to the next try either. */
function late(isOpen: boolean): UpstreamError {
  const within = `within ${READ_TIMEOUT_MS} ms`
  return isOpen
    ? new UpstreamError('protocol', `the source has not shown ${within} that nothing else happened`)
    : new UpstreamError('unavailable', `the source has not opened the watch ${within}`)
}

function asError(end: WatchEnd): UpstreamError {
  if ('error' in end) return end.error
  if (end.kind === 'contradicted') return new UpstreamError('protocol', `revision ${end.revision} came in parts`)
  const { compactRevision } = end
  return new UpstreamError('compacted', `events after ${compactRevision} only`, { compactRevision })
}

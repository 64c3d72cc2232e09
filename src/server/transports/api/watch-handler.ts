/**
 * Opens a watch: finds where it starts, takes a slot for it, and creates its cursor. This is the same for all
 * transports; a `WatchTransport` covers the differences.
 *
 * The error for a revision that is gone or too far ahead is sent in the stream, after a 200, because clients of the API
 * server look for it there. Every other rejection is an ordinary response.
 */
import type { CursorRequest, CursorStart } from '../../../engine/broadcast/dispatcher.js'
import type { Cursor } from '../../../engine/broadcast/cursor.js'
import { endWithError, revoke } from '../../../engine/broadcast/endings.js'
import { type Compression, errorUnit } from '../../../engine/broadcast/wire-format.js'
import type { Negotiated } from '../../../kubernetes/dialect/accept.js'
import type { WatchParameters } from '../../../kubernetes/dialect/list-options.js'
import { parameter } from '../../../kubernetes/dialect/query.js'
import type { Key } from '../../../engine/model/event.js'
import { listedPrefix } from '../../../kubernetes/model/api-resource.js'
import { nextRevision, type Revision, ZERO_REVISION } from '../../../engine/model/revision.js'
import {
  ExpiredError,
  StatusError,
  TooLargeResourceVersionError,
  TooManyRequestsError,
} from '../../../kubernetes/model/status.js'
import { statusOf } from '../../../kubernetes/model/status-of.js'
import type { Exchange } from '../exchange/exchange.js'
import type { OpenStream, WatchTransport } from '../watch/watch-transport.js'
import { answerAfter } from './answer-after.js'
import type { ApiContext } from './api-context.js'
import { inMemoryTurn, readSnapshot, seekEarlier } from './read-state.js'
import { assertNotDraining, type WatchRequest } from './request.js'
import { checkObjects } from './check-unknown-fields.js'

const nothing = (): void => {}

/** The things a watch holds: its slot among the watchers, the slot for its initial state, and its permission checks. */
class WatchSlots {
  initialSlot: () => void = nothing
  checks: () => void = nothing
  gaps: () => void = nothing

  constructor(private readonly leave: () => void) {}

  /** Releases the slot for the initial state. Bound, because the cursor calls it. */
  readonly releaseInitial = (): void => this.initialSlot()

  /** Releases everything when the watch has ended. Also bound. */
  readonly release = (): void => {
    this.initialSlot()
    this.leave()
    this.checks()
    this.gaps()
  }
}

/** Makes the transport of a watch that may begin. */
export type TransportOf = (exchange: Exchange, form: Negotiated) => WatchTransport

/** @throws StatusError before the transport is opened only. */
export async function handleWatch(context: ApiContext, request: WatchRequest, transportOf: TransportOf): Promise<void> {
  // The request has just been parsed, so it refers to the resource's current form, and this is the history of that
  // form.
  const history = request.live.cache.history.name
  const { start } = request.options
  if (start.kind === 'after') await seekEarlier(context, request.live.cache, start.revision, request)
  await inMemoryTurn(context, request, () => openWatch(context, request, transportOf, history))
}

async function openWatch(
  context: ApiContext,
  request: WatchRequest,
  transportOf: TransportOf,
  history: string,
): Promise<void> {
  const { live, exchange, caller, options, form } = request
  const held = new WatchSlots(await context.watchers.acquire(caller.identity, exchange.signal))
  try {
    const findStart = async (): Promise<CursorStart | StatusError> => {
      if (options.start.kind === 'initial-state') {
        held.initialSlot = await context.initialStates.acquire(caller.identity, exchange.signal)
      }
      const start = await startOf(request)
      if (!(start instanceof StatusError) && start.kind === 'initial') await warnOfUnknown(context, request, start)
      return start
    }
    await answerAfter(request, findStart, (answering, start) => {
      if (exchange.signal.aborted) return held.release()
      // The drain may have begun in the meantime, and would not end this watch.
      assertNotDraining(context)
      // The definition, and with it the form of the objects, may have changed in the meantime.
      if (live.cache.history.name !== history) throw changedMeanwhile()
      const cursor = begin(context, request, transportOf(answering, form), start, held)
      if (cursor === null || cursor.state === 'ended') return
      keepChecking(request, cursor, held)
      if (endsAtGaps(request)) held.gaps = endBeforeGap(request, cursor)
    })
  } catch (error) {
    held.release()
    throw error
  }
}

async function warnOfUnknown(
  context: ApiContext,
  request: WatchRequest,
  { snapshot }: Extract<CursorStart, { kind: 'initial' }>,
): Promise<void> {
  const { options, encoder } = request
  const selected = { prefix: prefixOf(request), selector: options.selector, apiVersion: encoder.schemaVersion }
  await checkObjects(context, request, snapshot, selected, false)
}

function prefixOf({ live, path, options }: WatchRequest): Key {
  return listedPrefix(live.served.resource, path.namespace, options.keyPrefix)
}

function changedMeanwhile(): StatusError {
  return new TooManyRequestsError('the resource has changed while the watch was being opened', 1)
}

/** A separate function, because its closure lives as long as the watch and must not keep the request alive. */
function keepChecking({ caller }: WatchRequest, cursor: Cursor, held: WatchSlots): void {
  held.checks = caller.keep((error) => revoke(cursor, error, error.code === 401))
}

/**
 * Whether the caller wants every version or 410, whatever this server's policy is. A server that reads this one does:
 * it decides by its own policy, and its long polls must know of the gap.
 */
function endsAtGaps({ exchange }: WatchRequest): boolean {
  return parameter(exchange.query, 'onGap') === 'expire'
}

/** A separate function, as `keepChecking`. */
function endBeforeGap({ live: { cache } }: WatchRequest, cursor: Cursor): () => void {
  return cache.history.beforeGap((until) => {
    if (cursor.state !== 'ended') endWithError(cursor, missed(cursor.revision, until), 'expired')
  })
}

/** @param until the end of the gap; the message tells the caller to list there or later. */
function missed(after: Revision, until: Revision): ExpiredError {
  return ExpiredError.tooOld(after, nextRevision(until))
}

/** @param start an error is sent in the stream. @returns null if the watch has already ended with an error. */
function begin(
  context: ApiContext,
  request: WatchRequest,
  transport: WatchTransport,
  start: CursorStart | StatusError,
  held: WatchSlots,
): Cursor | null {
  const { live, options } = request
  const stream = transport.open(compressionOf(context, options))
  if (start instanceof StatusError) return fail(request, stream, start, held)
  try {
    const cursor = live.dispatcher.open(watchRequest(context, request, stream, start, held), stream.output)
    stream.output.attach(cursor)
    transport.started()
    return cursor
  } catch (error) {
    return fail(request, stream, statusOf(error), held)
  }
}

/**
 * The result must contain no closure over this scope, which would keep the whole request alive as long as the watch.
 */
function watchRequest(
  context: ApiContext,
  request: WatchRequest,
  { wire }: OpenStream,
  start: CursorStart,
  held: WatchSlots,
): CursorRequest {
  const { path, caller, options, encoder } = request
  const statePrefix = prefixOf(request)
  return {
    scope: path.namespace,
    prefix: options.keyPrefix === '' ? null : statePrefix,
    statePrefix,
    identity: caller.identity,
    selector: options.selector,
    encoder,
    wire,
    start,
    bookmarks: options.bookmarks,
    deadlineMs: context.clock.monotonic() + timeoutMs(context, options),
    onInitialComplete: held.releaseInitial,
    onEnd: held.release,
  }
}

function fail(
  { encoder, live }: WatchRequest,
  { wire, output }: OpenStream,
  error: StatusError,
  held: WatchSlots,
): null {
  const { bytes, checksum } = errorUnit(wire, encoder.failure(error))
  output.end(bytes, error, checksum)
  if (error instanceof ExpiredError) live.metrics.resumeExpired()
  held.release()
  return null
}

async function startOf(request: WatchRequest): Promise<CursorStart | StatusError> {
  const { start } = request.options
  const { cache } = request.live
  try {
    switch (start.kind) {
      case 'after':
        assertHistory(parameter(request.exchange.query, 'history'), cache.history.name)
        cache.history.assertResumable(start.revision)
        if (endsAtGaps(request)) {
          const gap = cache.history.gapBetween(start.revision, cache.revision)
          if (gap !== null) throw missed(start.revision, gap)
        }
        return { kind: 'after', revision: start.revision }
      case 'now':
        return { kind: 'reached', revision: (await readSnapshot(cache, start.freshness, request)).revision }
      case 'initial-state': {
        const { freshness } = start
        const snapshot = await readSnapshot(cache, freshness, request)
        const minRevision =
          freshness.kind === 'cached'
            ? ZERO_REVISION
            : freshness.kind === 'not-older-than'
              ? freshness.revision
              : snapshot.revision
        return { kind: 'initial', snapshot, minRevision, marksEnd: start.endBookmark }
      }
    }
  } catch (caught) {
    const error = statusOf(caught)
    if (error instanceof ExpiredError || error instanceof TooLargeResourceVersionError) return error
    throw caught
  }
}

/**
 * Checks that the saved state of a returning client is from the current history, because its revision means nothing in
 * another one.
 * @throws ExpiredError
 */
function assertHistory(requested: string | undefined, history: string): void {
  if (requested === undefined || requested === history) return
  throw new ExpiredError(`history ${JSON.stringify(requested.slice(0, 64))} is not the current one`)
}

/** The API server compresses only watches with an initial list, for clients that accept gzip. */
export function compressionOf(context: ApiContext, { compress, start }: WatchParameters): Compression {
  if (compress || context.compressesWatches) return 'everything'
  return start.kind === 'initial-state' && start.endBookmark ? 'initial-state' : 'none'
}

function timeoutMs(context: ApiContext, options: WatchParameters): number {
  if (options.timeoutSeconds !== null) return options.timeoutSeconds * 1000
  return context.minRequestTimeoutMs * (1 + context.random.next())
}

/**
 * Opens a watch: finds where it starts, takes a slot for it, and creates its cursor. This is the same for all
 * transports; a `WatchTransport` covers the differences.
 *
 * The error for a revision that is gone or too far ahead is sent in the stream, after a 200, because clients of the API
 * server look for it there. Every other rejection is an ordinary response.
 */
import type { CursorRequest, CursorStart } from '../../../engine/broadcast/dispatcher.js'
import type { Cursor } from '../../../engine/broadcast/cursor.js'
import { type Compression, errorUnit } from '../../../engine/broadcast/wire-format.js'
import type { WatchParameters } from '../../../kubernetes/dialect/list-options.js'
import { parameter } from '../../../kubernetes/dialect/query.js'
import { listedPrefix } from '../../../engine/model/resource.js'
import { ZERO_REVISION } from '../../../engine/model/revision.js'
import {
  ExpiredError,
  StatusError,
  TooLargeResourceVersionError,
  TooManyRequestsError,
} from '../../../engine/model/status.js'
import type { OpenStream, WatchTransport } from '../watch/watch-transport.js'
import type { ApiContext } from './api-context.js'
import { readSnapshot } from './read-state.js'
import type { WatchRequest } from './request.js'
import { checkObjects } from './unknown-fields.js'

const nothing = (): void => {}

/** The things a watch holds: its slot among the watchers, the slot for its initial state, and its permission checks. */
class Occupied {
  initialSlot: () => void = nothing
  checks: () => void = nothing
  readonly #leave: () => void

  constructor(leave: () => void) {
    this.#leave = leave
  }

  /** Releases the slot for the initial state. Bound, because the cursor calls it. */
  readonly releaseInitial = (): void => this.initialSlot()

  /** Releases everything when the watch has ended. Also bound. */
  readonly release = (): void => {
    this.initialSlot()
    this.#leave()
    this.checks()
  }
}

/** @throws StatusError before `transport.open` only. */
export async function handleWatch(
  context: ApiContext,
  request: WatchRequest,
  transport: WatchTransport,
): Promise<void> {
  const { live, exchange, caller } = request
  live.cache.assertReadable()
  // The request has just been parsed, so it refers to the resource's current form, and this is the history of that
  // form.
  const { history } = live.cache
  const leave = await context.memory.admitInTurn(caller.identity, exchange.signal)
  try {
    await openWatch(context, request, transport, history)
  } finally {
    leave?.()
  }
}

async function openWatch(
  context: ApiContext,
  request: WatchRequest,
  transport: WatchTransport,
  history: string,
): Promise<void> {
  const { live, exchange, caller, options } = request
  const held = new Occupied(await context.watchers.acquire(caller.identity, exchange.signal))
  try {
    if (options.start.kind === 'initial-state') {
      held.initialSlot = await context.initialStates.acquire(caller.identity, exchange.signal)
    }
    const start = await startOf(request)
    if (!(start instanceof StatusError) && start.kind === 'initial') await warnOfUnknown(context, request, start)
    await caller.confirm()
    // The read may have waited for a value that turned out to be unreadable.
    live.cache.assertReadable()
    if (exchange.signal.aborted) return held.release()
    // The definition, and with it the form of the objects, may have changed in the meantime.
    if (live.cache.history !== history) throw changedMeanwhile()
    const cursor = begin(context, request, transport, start, held)
    if (cursor !== null && cursor.state !== 'ended') keepChecking(request, cursor, held)
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
  const { live, path, options, encoder } = request
  const prefix = listedPrefix(live.served.resource, path.namespace, options.keyPrefix)
  const { apiVersion } = encoder
  await checkObjects(context, request, snapshot, { prefix, selector: options.selector, apiVersion }, false)
}

function changedMeanwhile(): StatusError {
  return new TooManyRequestsError('the resource has changed while the watch was being opened', 1)
}

/** A separate function, because its closure lives as long as the watch and must not keep the request alive. */
function keepChecking({ caller, live: { dispatcher } }: WatchRequest, cursor: Cursor, held: Occupied): void {
  held.checks = caller.keep((error) => dispatcher.revoke(cursor, error))
}

/** @param start an error is sent in the stream. @returns null if the watch has already ended with an error. */
function begin(
  context: ApiContext,
  request: WatchRequest,
  transport: WatchTransport,
  start: CursorStart | StatusError,
  held: Occupied,
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
    return fail(request, stream, StatusError.from(error), held)
  }
}

/**
 * The result must contain no closure over this scope, which would keep the whole request alive as long as the watch.
 */
function watchRequest(
  context: ApiContext,
  { path, live, caller, options, encoder }: WatchRequest,
  { wire }: OpenStream,
  start: CursorStart,
  held: Occupied,
): CursorRequest {
  return {
    namespace: path.namespace,
    prefix: options.keyPrefix === '' ? null : listedPrefix(live.served.resource, path.namespace, options.keyPrefix),
    identity: caller.identity,
    selector: options.selector,
    encoder,
    wire,
    start,
    bookmarks: options.bookmarks,
    deadlineMs: context.clock.monotonic() + timeoutMs(context, options),
    pace: caller.pace,
    onInitialComplete: held.releaseInitial,
    onEnd: held.release,
  }
}

function fail({ encoder, live }: WatchRequest, { wire, output }: OpenStream, error: StatusError, held: Occupied): null {
  const status = error.toStatus()
  const { bytes, checksum } = errorUnit(wire, encoder.status(status), status)
  output.end(bytes, status, checksum)
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
        assertHistory(parameter(request.exchange.query, 'history'), cache.history)
        cache.assertResumable(start.revision)
        return { kind: 'after', revision: start.revision }
      case 'now':
        return { kind: 'after', revision: (await readSnapshot(cache, start.freshness, request)).revision }
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
  } catch (error) {
    if (error instanceof ExpiredError || error instanceof TooLargeResourceVersionError) return error
    throw error
  }
}

/**
 * Checks that the saved state of a returning client is from the current history, because its revision means nothing in
 * another one.
 * @throws ExpiredError
 */
export function assertHistory(requested: string | undefined, history: string): void {
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

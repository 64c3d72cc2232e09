/**
 * A watch, up to the moment when a cursor takes over: where it starts, in which form, on which wire. One for all
 * transports; what differs between them is a `WatchTransport`.
 *
 * A revision that is gone or too far ahead is told in the stream, after a 200: that is where clients of the API server
 * look for it. Everything else that is wrong is an ordinary answer.
 */
import type { WatchRequest, WatchStart } from '../../broadcast/broadcaster.js'
import type { Cursor, EndReason, WatcherSink } from '../../broadcast/cursor.js'
import { type Wire, writeUnit } from '../../broadcast/wire.js'
import type { WatchCache } from '../../cache/watch-cache.js'
import type { Snapshot } from '../../cache/store.js'
import type { Negotiated } from '../../dialect/accept.js'
import type { ObjectEncoder } from '../../dialect/encoding/object-encoder.js'
import { type RequestedFreshness, type WatchParameters, parseWatchParameters } from '../../dialect/list-options.js'
import { ZERO_REVISION } from '../../model/revision.js'
import { ExpiredError, ServiceUnavailableError, StatusError, TooLargeResourceVersionError } from '../../model/status.js'
import type { Admitted } from '../limits/request-gate.js'
import type { Collection } from './list-handler.js'
import type { LiveResource, ResourceContext } from './resource-context.js'

/** A connection that has been answered with a 200 and now takes frames. */
export interface OpenStream {
  readonly wire: Wire
  readonly sink: WatcherSink & { attach(cursor: Cursor): void }
}

export interface WatchTransport {
  readonly query: URLSearchParams
  readonly lastEventId: string | undefined
  /** Whose watch it is, and whether it still may run. */
  readonly admitted: Admitted
  readonly signal: AbortSignal
  /** Sends the head. @param compress the stream is to be gzipped, if the client accepts that and the transport can. */
  open(compress: boolean): OpenStream
  /** The cursor has taken over: what belongs to the request alone may go. */
  begun(): void
}

/** What a watch asks for, before anything is held for it. @throws StatusError when it would be refused as it stands. */
export function readWatch(
  context: ResourceContext,
  { query, lastEventId }: Pick<WatchTransport, 'query' | 'lastEventId'>,
  { served }: LiveResource,
  collection: Collection,
  form: Negotiated,
): { readonly options: WatchParameters; readonly encoder: ObjectEncoder } {
  if (context.isDraining()) {
    throw new ServiceUnavailableError('the server is shutting down', { details: { retryAfterSeconds: 1 } })
  }
  const options = parseWatchParameters(query, {
    resource: served.resource,
    ...(collection.name === null ? {} : { name: collection.name }),
    ...(lastEventId === undefined ? {} : { lastEventId }),
  })
  return { options, encoder: context.encoder(served, form, options.includeObject, options.projection) }
}

/** @throws StatusError before `transport.open` only. */
export async function handleWatch(
  context: ResourceContext,
  transport: WatchTransport,
  live: LiveResource,
  collection: Collection,
  form: Negotiated,
): Promise<void> {
  const { options, encoder } = readWatch(context, transport, live, collection, form)
  live.cache.assertReadable()
  context.memory.admit()
  const leave = context.watchers.enter(transport.admitted.identity)
  let releaseInitial = (): void => {}
  try {
    if (options.start.kind === 'initial-state') {
      releaseInitial = await context.initialStates.enter(transport.admitted.identity, transport.signal)
    }
    const start = await startOf(live.cache, options, transport.signal)
    // What it waited for may have been the very value that cannot be read.
    live.cache.assertReadable()
    if (transport.signal.aborted) {
      releaseInitial()
      leave()
      return
    }
    let stopKeeping = (): void => {}
    const onEnd = (_reason: EndReason): void => {
      releaseInitial()
      leave()
      stopKeeping()
    }
    const cursor = begin(context, transport, live, { collection, options, encoder, start, releaseInitial, onEnd })
    if (cursor !== null && cursor.state !== 'ended') {
      stopKeeping = transport.admitted.keep((error) => live.broadcaster.fail(cursor, error, 'revoked'))
    }
  } catch (error) {
    releaseInitial()
    leave()
    throw error
  }
}

interface Prepared {
  readonly collection: Collection
  readonly options: WatchParameters
  readonly encoder: ObjectEncoder
  /** An error is told in the stream. */
  readonly start: WatchStart | StatusError
  readonly releaseInitial: () => void
  readonly onEnd: (reason: EndReason) => void
}

/** null: it ended with an error at once. */
function begin(
  context: ResourceContext,
  transport: WatchTransport,
  live: LiveResource,
  prepared: Prepared,
): Cursor | null {
  const { collection, options, encoder, start } = prepared
  const { wire, sink } = transport.open(options.compress || context.compressesWatches)
  const fail = (error: StatusError): null => {
    const status = error.toStatus()
    const frames = [wire.frame('ERROR', encoder.status(status), null)]
    const after = wire.afterError(status)
    if (after !== null) frames.push(after)
    const { bytes, checksum } = writeUnit(wire, frames)
    sink.end(bytes, status, checksum)
    if (error instanceof ExpiredError) live.metrics.resumeExpired()
    prepared.onEnd('expired')
    return null
  }
  if (start instanceof StatusError) return fail(start)
  const request: WatchRequest = {
    namespace: collection.namespace,
    selector: options.selector,
    encoder,
    wire,
    start,
    bookmarks: options.bookmarks,
    deadlineMs: context.clock.monotonic() + timeoutMs(context, options),
    // No function of this scope: for as long as the watch runs it would keep everything that the request was made of.
    pace: transport.admitted.pace,
    onInitialComplete: prepared.releaseInitial,
    onEnd: prepared.onEnd,
  }
  try {
    const cursor = live.broadcaster.open(request, sink)
    sink.attach(cursor)
    transport.begun()
    return cursor
  } catch (error) {
    return fail(StatusError.from(error))
  }
}

async function startOf(
  cache: WatchCache,
  { start }: WatchParameters,
  signal: AbortSignal,
): Promise<WatchStart | StatusError> {
  try {
    switch (start.kind) {
      case 'after':
        cache.assertResumable(start.revision)
        return { kind: 'after', revision: start.revision }
      case 'now':
        return { kind: 'after', revision: (await fresh(cache, start.freshness, signal)).revision }
      case 'initial-state': {
        const snapshot = await fresh(cache, start.freshness, signal)
        const minRevision =
          start.freshness.kind === 'cached'
            ? ZERO_REVISION
            : start.freshness.kind === 'not-older-than'
              ? start.freshness.revision
              : snapshot.revision
        return { kind: 'initial', snapshot, minRevision, marksEnd: start.endBookmark }
      }
    }
  } catch (error) {
    if (error instanceof ExpiredError || error instanceof TooLargeResourceVersionError) return error
    throw error
  }
}

async function fresh(cache: WatchCache, freshness: RequestedFreshness, signal: AbortSignal): Promise<Snapshot> {
  switch (freshness.kind) {
    case 'cached':
      return cache.snapshot()
    case 'consistent':
      return await cache.consistentSnapshot(signal)
    case 'not-older-than':
      return await cache.snapshotNotOlderThan(freshness.revision, signal)
  }
}

function timeoutMs(context: ResourceContext, options: WatchParameters): number {
  if (options.timeoutSeconds !== null) return options.timeoutSeconds * 1000
  return context.minRequestTimeoutMs * (1 + context.random.next())
}

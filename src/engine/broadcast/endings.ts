/** Ends watchers, with the last bytes for each: a bookmark, a mark, an error, or nothing. */
import type { WatchCache } from '../cache/watch-cache.js'
import type { EndReason } from '../model/end-reason.js'
import type { Revision } from '../model/revision.js'
import { ExpiredError, ServiceUnavailableError, type Status, StatusError } from '../model/status.js'
import type { Cursor, CursorOwner } from './cursor.js'
import type { WriteUnit } from './wire-format.js'

export interface EndingsOptions {
  readonly cache: WatchCache
  readonly owner: Pick<CursorOwner, 'finish'>
  /** Called when an encoder failed because of a bug. */
  readonly onInternalError: (error: StatusError) => void
}

export class Endings {
  readonly #cache: WatchCache
  readonly #owner: Pick<CursorOwner, 'finish'>
  readonly #onInternalError: (error: StatusError) => void

  constructor({ cache, owner, onInternalError }: EndingsOptions) {
    this.#cache = cache
    this.#owner = owner
    this.#onInternalError = onInternalError
  }

  /** Ends the stream without an error, after a last bookmark or mark if the watcher is at the head. */
  endCleanly(cursor: Cursor, reason: EndReason): void {
    if (cursor.lastError !== null) return this.endWithError(cursor, cursor.lastError.error, cursor.lastError.reason)
    let last: WriteUnit | null = null
    if (cursor.isAtHead && !cursor.isBlocked) {
      const { group } = cursor
      if (reason === 'drain' && cursor.options.bookmarks) last = cursor.bookmark(this.#cache.revision)
      else if (group.wire.mark !== null) last = group.mark(this.#cache.revision)
    }
    this.#owner.finish(cursor, reason)
    cursor.output.end(last?.bytes ?? null, null, last?.checksum ?? null)
  }

  endWithError(cursor: Cursor, error: StatusError, reason: EndReason): void {
    const status: Status = error.toStatus()
    const { bytes, checksum } = cursor.group.error(status)
    this.#owner.finish(cursor, reason)
    cursor.output.end(bytes, status, checksum)
  }

  /**
   * The credential is no longer valid, or the permission is gone. Agents replace their token every hour, and on an
   * ERROR their clients list everything again, or exit. So when a credential expires, a plain HTTP stream ends cleanly,
   * and the client's next request shows whether it has a newer token. A web page cannot see why its EventSource or
   * WebSocket was refused, so these streams end with the ERROR.
   */
  revoke(cursor: Cursor, error: StatusError): void {
    const { transport } = cursor.group.wire
    const canRetry = transport === 'http1' || transport === 'http2'
    if (error.code === 401 && canRetry && cursor.state !== 'initial') this.endCleanly(cursor, 'revoked')
    else this.endWithError(cursor, error, 'revoked')
  }

  /**
   * Ends a watcher at its next turn of the pump, because thousands may end at once. If this is called several times for
   * a watcher, it sends the first error.
   */
  endSoon(cursor: Cursor, error: StatusError, reason: EndReason): void {
    if (cursor.state !== 'ending') cursor.endSoon({ error, reason })
  }

  expire(cursor: Cursor): void {
    this.endWithError(cursor, this.expired(cursor), 'expired')
  }

  expired(cursor: Cursor): ExpiredError {
    return ExpiredError.tooOld(cursor.revision, (this.#cache.floorRevision + 1) as Revision)
  }

  drain(cursor: Cursor): void {
    if (cursor.state === 'ended') return
    if (cursor.state !== 'initial') return this.endCleanly(cursor, 'drain')
    const error = new ServiceUnavailableError('the server is shutting down; the initial state is incomplete')
    this.endWithError(cursor, error, 'drain')
  }

  endAtDeadline(cursor: Cursor): void {
    if (cursor.state !== 'initial') return this.endCleanly(cursor, 'timeout')
    const error = new ServiceUnavailableError('the watch timed out before its initial state was complete', {
      details: { retryAfterSeconds: 1 },
    })
    this.endWithError(cursor, error, 'timeout')
  }

  /** The resource, or the requested version of it, is no longer served. */
  endUnserved(cursor: Cursor): void {
    if (cursor.state === 'initial') this.endWithError(cursor, noLongerServed(), 'removed')
    else this.endCleanly(cursor, 'removed')
  }

  /**
   * Returns the error for streams that need an event which cannot be encoded. These streams end, because a missing
   * event would be worse.
   */
  unwritable(error: unknown): StatusError {
    const status = StatusError.from(error)
    if (status.code === 500) this.#onInternalError(status)
    return status
  }
}

export function noLongerServed(): ServiceUnavailableError {
  return new ServiceUnavailableError('the resource is no longer served here', { details: { retryAfterSeconds: 1 } })
}

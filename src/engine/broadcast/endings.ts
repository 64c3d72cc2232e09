/** The ways in which a watcher ends, with its last bytes: a bookmark, a mark, an error, or nothing. */
import type { EndReason } from '../model/end-reason.js'
import { type EngineError, RefusedWatchError, RevisionExpiredError, UnservedError } from '../model/errors.js'
import { nextRevision } from '../model/revision.js'
import type { Cursor } from './cursor.js'

/** The client comes back at once, perhaps to another server, which may have less history. */
const COMES_BACK: ReadonlySet<EndReason> = new Set(['drain', 'rebalance', 'refused'])

/** Ends the stream without an error, after a last bookmark or mark if the watcher has a position. */
export function endCleanly(cursor: Cursor, reason: EndReason): void {
  if (cursor.lastError !== null) return endWithError(cursor, cursor.lastError.error, cursor.lastError.reason)
  const last = cursor.farewell(COMES_BACK.has(reason) && cursor.options.bookmarks)
  cursor.finish(reason)
  cursor.output.end(last?.bytes ?? null, null, last?.checksum ?? null)
}

export function endWithError(cursor: Cursor, error: Error, reason: EndReason): void {
  const { bytes, checksum } = cursor.group.error(error)
  cursor.finish(reason)
  cursor.output.end(bytes, error, checksum)
}

/**
 * Ends a watcher at its next turn of the pump, because thousands may end at once. If this is called several times for a
 * watcher, it sends the first error.
 */
export function endSoon(cursor: Cursor, error: Error, reason: EndReason): void {
  if (cursor.state !== 'ending') cursor.endSoon({ error, reason })
}

/** The history no longer has the watcher's next events. */
export function expire(cursor: Cursor): void {
  endWithError(cursor, expiredError(cursor), 'expired')
}

export function expiredError({ revision, owner }: Cursor): RevisionExpiredError {
  return new RevisionExpiredError(revision, nextRevision(owner.floorRevision))
}

/**
 * The server stops. The watcher's last bytes are an ERROR if its initial state is incomplete, otherwise a bookmark if
 * the client asked for bookmarks.
 */
export function drain(cursor: Cursor): void {
  if (cursor.state === 'ended') return
  const error = new UnservedError('the server is shutting down; the initial state is incomplete', 0)
  endUnlessInitial(cursor, 'drain', error)
}

/** The watcher's client moves to another replica. Call it only for a watcher with a position, which its client resumes from. */
export function moveAway(cursor: Cursor): void {
  if (cursor.state !== 'ended') endCleanly(cursor, 'rebalance')
}

export function endAtDeadline(cursor: Cursor): void {
  endUnlessInitial(cursor, 'timeout', new UnservedError('the watch timed out before its initial state was complete', 1))
}

/** The source is lost, for the given reason. Unless history is lost too, a client with its whole state can resume. */
export function endLost(cursor: Cursor, error: EngineError): void {
  if (error instanceof RevisionExpiredError) endWithError(cursor, error, 'error')
  else endUnlessInitial(cursor, 'error', error)
}

/**
 * The source refuses the resource, so no more events would come. The client's next request shows that, and until then it
 * keeps what it has.
 */
export function endRefused(cursor: Cursor, resource: string): void {
  if (cursor.state !== 'ended') endUnlessInitial(cursor, 'refused', new RefusedWatchError(resource))
}

/** The resource, or the requested version of it, is no longer served. */
export function endUnserved(cursor: Cursor): void {
  endUnlessInitial(cursor, 'removed', noLongerServed())
}

/** @param error for a client that has not received its whole initial state. */
function endUnlessInitial(cursor: Cursor, reason: EndReason, error: EngineError): void {
  if (cursor.state === 'initial') endWithError(cursor, error, reason)
  else endCleanly(cursor, reason)
}

/**
 * The credential is no longer valid, or the permission is gone. Agents replace their token every hour, and on an ERROR
 * their clients list everything again, or exit. So when a credential expires, a plain HTTP stream ends cleanly, and the
 * client's next request shows whether it has a newer token. A web page cannot see why its EventSource or WebSocket was
 * refused, so these streams end with the ERROR.
 * @param isExpired whether the credential is no longer valid, rather than the permission.
 */
export function revoke(cursor: Cursor, error: Error, isExpired: boolean): void {
  if (cursor.state === 'ended') return
  const { transport } = cursor.group.wire
  const canRetry = transport === 'http1' || transport === 'http2'
  if (isExpired && canRetry && cursor.state !== 'initial') endCleanly(cursor, 'revoked')
  else endWithError(cursor, error, 'revoked')
}

export function noLongerServed(): UnservedError {
  return new UnservedError('the resource is no longer served here', 1)
}

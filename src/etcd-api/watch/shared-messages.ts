/**
 * Messages that watchers share. Most watchers of a range have the same watch id, because most clients have one watch on
 * a stream, so what they get is the same to the last byte. It is joined once, and not for each of them.
 */
import { framed } from '../grpc-call.js'
import { encodeHeader, field, type HeaderIdentity } from '../responses.js'

export interface WatchMessageParts {
  readonly identity: HeaderIdentity
  readonly revision: number
  /** The fields between the header and the events. */
  readonly fields: Uint8Array
  readonly events: Uint8Array
}

interface Shared extends WatchMessageParts {
  readonly bytes: Buffer
}

/**
 * The cursors of a pass alternate between two slices of a log (`frame-log.ts`), and a client may have a second watch of
 * the same range.
 */
const KEPT = 4
/** Larger ones are bursts of old events for one watch, which nobody shares. */
const MAX_KEPT_BYTES = 4 * 1_048_576

export class SharedMessages {
  /** Newest first. */
  #kept: readonly Shared[] = []

  /** Returns the message with its frame, which must not be changed. */
  message(parts: WatchMessageParts): Buffer {
    const found = this.#kept.find((one) => isSame(one, parts))
    if (found !== undefined) return found.bytes
    const { identity, revision, fields, events } = parts
    const bytes = framed([...field(1, [encodeHeader(identity, revision)]), fields, events])
    if (bytes.length > MAX_KEPT_BYTES) return bytes
    this.#kept = [{ ...parts, bytes }, ...this.#kept.slice(0, KEPT - 1)]
    return bytes
  }
}

function isSame(one: WatchMessageParts, other: WatchMessageParts): boolean {
  return (
    one.events === other.events &&
    one.revision === other.revision &&
    one.identity === other.identity &&
    (one.fields === other.fields || Buffer.compare(one.fields, other.fields) === 0)
  )
}

/**
 * Messages that watchers share. Most watchers of a range have the same watch id, because most clients have one watch on
 * a stream, so what they get is the same to the last byte. It is joined once, and not for each of them.
 */
import type { Clock } from '../../support/clock.js'
import { framed } from '../grpc-call.js'
import { encodeHeader, field, type HeaderIdentity } from '../responses.js'

/** The events of a message that has none. */
export const NO_EVENTS = new Uint8Array(0)

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
/** All watchers that are not behind get a message within this time. Later, it would only take up memory. */
const KEPT_MS = 1_000

export class SharedMessages {
  /** Newest first. */
  #kept: readonly Shared[] = []
  #isTimed = false

  constructor(private readonly clock: Pick<Clock, 'setTimer'>) {}

  /** Returns the message with its frame, which must not be changed. One without events is too short to be kept. */
  message(parts: WatchMessageParts): Buffer {
    if (parts.events.length === 0) return made(parts)
    const found = this.#kept.find((one) => isSame(one, parts))
    if (found !== undefined) return found.bytes
    const bytes = made(parts)
    if (bytes.length > MAX_KEPT_BYTES) return bytes
    this.#kept = [{ ...parts, bytes }, ...this.#kept.slice(0, KEPT - 1)]
    if (!this.#isTimed) this.clock.setTimer(KEPT_MS, () => this.#forget())
    this.#isTimed = true
    return bytes
  }

  #forget(): void {
    this.#isTimed = false
    this.#kept = []
  }
}

function made({ identity, revision, fields, events }: WatchMessageParts): Buffer {
  return framed([...field(1, [encodeHeader(identity, revision)]), fields, events])
}

function isSame(one: WatchMessageParts, other: WatchMessageParts): boolean {
  return (
    one.events === other.events &&
    one.revision === other.revision &&
    one.identity === other.identity &&
    (one.fields === other.fields || Buffer.compare(one.fields, other.fields) === 0)
  )
}

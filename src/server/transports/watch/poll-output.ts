/**
 * Answers a long poll: takes the first events of a watch, and then ends the watch. Each write ends between two
 * revisions, so the events written up to any write make a complete document.
 */
import type { Cursor, WatchOutput } from '../../../engine/broadcast/cursor.js'
import { RelayedStatusError, StatusError } from '../../../kubernetes/model/status.js'
import { statusOf } from '../../../kubernetes/model/status-of.js'

/** The result of a poll. */
export interface Polled {
  /** The events in JSON, each in its own buffer. */
  readonly events: readonly Buffer[]
  /** No event at or before this revision is missing. null if the position of the watch is not known. */
  readonly revision: string | null
}

/** A document of this size is long enough; further events are left to the next poll. */
const ENOUGH_BYTES = 1024 * 1024
const LINE_FEED = 0x0a
const BRACE = 0x7b

export class PollOutput implements WatchOutput {
  readonly #events: Buffer[] = []
  #revision: string | null = null
  #bytes = 0
  /** A line whose end has not been written yet. */
  #partialLine: Buffer | null = null
  #cursor: Cursor | null = null
  #settle: ((polled: Polled) => void) | null = null
  #reject: ((error: StatusError) => void) | null = null
  /** @throws StatusError that ended the watch. */
  readonly polled = new Promise<Polled>((resolve, reject) => {
    this.#settle = resolve
    this.#reject = reject
  })

  get pendingBytes(): number {
    return 0
  }

  attach(cursor: Cursor): void {
    this.#cursor = cursor
  }

  write(bytes: Buffer): boolean {
    this.#read(bytes)
    if (this.#bytes === bytes.length) setImmediate(this.#closeAtHead)
    return this.#bytes < ENOUGH_BYTES
  }

  end(bytes: Buffer | null, error: Error | null): void {
    if (error !== null && this.#events.length === 0)
      return this.#reject?.(new RelayedStatusError(statusOf(error).toStatus()))
    if (bytes !== null && error === null) this.#read(bytes)
    this.#finish()
  }

  destroy(): void {
    this.#finish()
  }

  /** Closes the watch once it has caught up, because a backlog arrives in several turns of the event loop. */
  readonly #closeAtHead = (): void => {
    const isBehind = this.#cursor !== null && this.#cursor.state !== 'ended' && !this.#cursor.isAtHead
    if (isBehind && this.#bytes < ENOUGH_BYTES) setImmediate(this.#closeAtHead)
    else this.close()
  }

  /** Ends the watch with the events so far, because the client has left or there are enough. */
  close(): void {
    this.#cursor?.closed()
    this.#finish()
  }

  #finish(): void {
    this.#settle?.({ events: this.#events, revision: this.#revision })
  }

  #read(piece: Buffer): void {
    this.#bytes += piece.length
    const bytes = this.#partialLine === null ? piece : Buffer.concat([this.#partialLine, piece])
    this.#partialLine = null
    for (let at = 0; at < bytes.length;) {
      const end = bytes.indexOf(LINE_FEED, at)
      if (end === -1) {
        this.#partialLine = bytes.subarray(at)
        return
      }
      const line = bytes.subarray(at, end)
      if (line[0] === BRACE) this.#events.push(line)
      else this.#revision = line.toString('latin1')
      at = end + 1
    }
  }
}

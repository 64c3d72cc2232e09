/**
 * The stream of an OFREP client. It is a watch of the flags like any other, with the same slots, checks and end, but
 * instead of the changed objects it sends that something has changed, at most once a second.
 *
 * An event's id is the ETag of the flags, so a client that reconnects (Last-Event-ID) gets an event only if it has
 * missed a change. A client without an id gets one at once, because the flags may have changed since it read them.
 *
 * Source: OFREP 0.3.0, ADR-0008.
 */
import type { Cursor, WatchOutput } from '../../engine/broadcast/cursor.js'
import { writeUnit } from '../../engine/broadcast/wire-format.js'
import type { Clock, Timer } from '../../support/clock.js'
import type { Framing } from '../transports/framing/framing.js'
import { wireOf } from '../transports/framing/framings.js'
import { serverSentEvents } from '../transports/framing/server-sent-events.js'
import type { OpenStream } from '../transports/watch/watch-transport.js'

/** ADR-0008 lets providers send the event's `etag` back. This one says that the client also needs a new ticket. */
export const NEEDS_TICKET = 'needs-ticket'

const INTERVAL_MS = 1_000
const CHANGED = Buffer.from('changed', 'latin1')
const ALIVE = Buffer.from(':\n\n', 'latin1')

/** What the watch writes to the output, which nobody else sees. All streams share one group, which encodes nothing. */
const signals: Framing = {
  key: 'ofrep',
  transport: 'sse',
  frame: () => [CHANGED],
  afterError: () => null,
  mark: { frame: () => ALIVE, hasPosition: false, everyMs: serverSentEvents.mark!.everyMs },
}

export function refetchEvent(etag: string, id: string | null): Buffer {
  const data = JSON.stringify({ type: 'refetchEvaluation', etag })
  return Buffer.from(`${id === null ? '' : `id: ${id}\n`}event: message\ndata: ${data}\n\n`)
}

export interface ChangeOutputOptions {
  readonly clock: Clock
  /** The ETag of the flags as they are now. */
  readonly etag: () => Promise<string>
  /** The ETag that the client has seen; '' for none. */
  readonly seen: string
}

export class ChangeOutput implements WatchOutput {
  readonly wire = wireOf(signals, 'http1')
  #seen: string
  #timer: Timer | null = null
  #isDue = true
  #isEnded = false

  constructor(
    private readonly stream: OpenStream,
    private readonly options: ChangeOutputOptions,
  ) {
    this.#seen = options.seen
  }

  get pendingBytes(): number {
    return this.stream.output.pendingBytes
  }

  attach(cursor: Cursor): void {
    this.stream.output.attach(cursor)
    this.#schedule(0)
  }

  write(bytes: Buffer): boolean {
    if (!bytes.includes(CHANGED)) return this.#write(ALIVE)
    this.#isDue = true
    this.#schedule(0)
    return true
  }

  end(_bytes: Buffer | null, error: Error | null): void {
    this.#isEnded = true
    this.#timer?.cancel()
    const last = error === null ? null : writeUnit(this.stream.wire, [refetchEvent(NEEDS_TICKET, null)])
    this.stream.output.end(last?.bytes ?? null, null, last?.checksum ?? null)
  }

  destroy(): void {
    this.close()
    this.stream.output.destroy()
  }

  /** Call this when the connection is gone. */
  close(): void {
    this.#isEnded = true
    this.#timer?.cancel()
  }

  /** The timer runs for a second after each event, so that the next one waits for it. */
  #schedule(delayMs: number): void {
    if (this.#isEnded) return
    this.#timer ??= this.options.clock.setTimer(delayMs, () => {
      this.#timer = null
      if (!this.#isDue || this.#isEnded) return
      this.#isDue = false
      this.#schedule(INTERVAL_MS)
      void this.#send()
    })
  }

  async #send(): Promise<void> {
    const etag = await this.options.etag().catch(() => null)
    if (this.#isEnded) return
    // A client that does not read gets the event later.
    if (etag === null || this.pendingBytes > 0) this.#isDue = true
    else if (etag !== this.#seen) {
      this.#seen = etag
      this.#write(refetchEvent(etag, etag))
    }
  }

  #write(bytes: Buffer): boolean {
    const unit = writeUnit(this.stream.wire, [bytes])
    return this.stream.output.write(unit.bytes, unit.checksum)
  }
}

/**
 * Reads one response to a watch request to its end: handles deadlines, decodes events, and decides which of them are
 * new.
 *
 * A connection that breaks inside a revision of several keys has delivered only some of the keys. The next watch
 * therefore starts at the last point known to be between two revisions, and repeated events are dropped here, by key.
 * Such points are an SSE id, a bookmark, the end of the initial events, and the revision before the one that is
 * arriving. (If the server ended the response properly, it ended it between two revisions.)
 */
import type { Clock, Timer } from '../../support/clock.js'
import { orAborted } from '../../support/deadline.js'
import type { EventStream, EventWire } from './event-stream.js'
import { WatchFailure } from './watch-failure.js'
import { failureOf } from './list-pages.js'
import type { Change, DecodedEvent, ObjectCodec } from './object-codec.js'
import type { Transport } from './transport.js'

/** The position of a watch, carried from one watch to the next. */
export interface WatchPosition {
  position: string
  safePosition: string
  /** The keys whose event at `position` was delivered. */
  readonly keysAtPosition: Set<string>
}

/** A position between two revisions. */
export function positionAt(resourceVersion: string): WatchPosition {
  return { position: resourceVersion, safePosition: resourceVersion, keysAtPosition: new Set() }
}

export interface WatchJobOptions<T> {
  readonly transport: Transport
  readonly wire: EventWire
  readonly codec: ObjectCodec<T>
  readonly clock: Clock
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  /** Aborted when the reflector abandons the watch. */
  readonly signal: AbortSignal
  /** The time limit for the beginning of the response. */
  readonly openTimeoutMs: number
  /** The longest allowed silence during the initial events, and after them. */
  readonly initialSilenceMs: number
  readonly silenceMs: number
  /** Where the watch continues; null for a stream that begins with initial events. */
  readonly place: WatchPosition | null
  onOpen?(): void
  /** Called once, before any change, and only without `place`. */
  onInitial?(items: T[], resourceVersion: string): Promise<void> | void
  onChange(change: Change<T>): void
  onBookmark(resourceVersion: string): void
  /** Called after the events of one chunk were delivered. @param hasBookmark whether a bookmark was among them. */
  onProgress?(place: WatchPosition, hasBookmark: boolean): void
  /** Awaited between two chunks, so that a fast server does not flood a slow store. */
  settled?(): Promise<void> | undefined
}

export type WatchOutcome =
  | { readonly kind: 'ended' }
  | { readonly kind: 'silent' }
  | { readonly kind: 'cannot-stream'; readonly why: string }

/**
 * @throws WatchFailure, also for a stream that ends before its initial events are complete; any error once `signal` has
 * aborted.
 */
export async function runWatch<T>(options: WatchJobOptions<T>): Promise<WatchOutcome> {
  const job = new WatchJob(options)
  return job.run()
}

type DeliveredEvent<T> = Exclude<DecodedEvent<T>, { type: 'ERROR' }>

class WatchJob<T> {
  readonly #options: WatchJobOptions<T>
  readonly #abort = new AbortController()
  readonly #stream: EventStream
  #place: WatchPosition | null
  #initial: T[] = []
  #initialEnd: string | null = null
  #hasBookmark = false
  #isOldServer = false
  #lastArrival = 0
  #timer: Timer | null = null
  #isSilent = false
  #isOpen = false
  #isHandingOver = false
  /** Events that arrived together with the end of the initial events, and are delivered after it. */
  #late: [event: DeliveredEvent<T>, endsRevision: boolean | null][] = []
  #hasMoved = false

  constructor(options: WatchJobOptions<T>) {
    this.#options = options
    this.#place = options.place
    const { codec, wire } = options
    this.#stream = wire.open(codec, (event, endsRevision) => {
      if (event.type === 'ERROR') throw WatchFailure.fromStatus(event.status)
      if (this.#place !== null) this.#deliver(this.#place, event, endsRevision)
      else if (this.#initialEnd !== null) this.#late.push([event, endsRevision])
      else this.#initialEvent(event)
    })
  }

  async run(): Promise<WatchOutcome> {
    const { signal, clock, openTimeoutMs } = this.#options
    const onAbort = (): void => this.#abort.abort(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    this.#lastArrival = clock.monotonic()
    this.#arm(openTimeoutMs, () => openTimeoutMs)
    try {
      signal.throwIfAborted()
      return await this.#read()
    } catch (error) {
      if (!this.#isSilent) throw error
      return this.#silenceOutcome()
    } finally {
      this.#timer?.cancel()
      signal.removeEventListener('abort', onAbort)
      // The rest of the response is not read.
      this.#abort.abort()
    }
  }

  async #read(): Promise<WatchOutcome> {
    const { transport, codec, wire, path, query, clock, initialSilenceMs, silenceMs } = this.#options
    const accept = codec.accept ?? wire.accept
    const { signal } = this.#abort
    const response = await orAborted(transport.send({ path, query, accept, signal }), signal)
    this.#arrived()
    if (response.status !== 200) throw await failureOf(response)
    this.#isOpen = true
    this.#options.onOpen?.()
    this.#timer?.cancel()
    const allowed = (): number => (this.#place === null && this.#initialEnd === null ? initialSilenceMs : silenceMs)
    this.#arm(allowed(), allowed)
    for await (const chunk of response.body) {
      this.#lastArrival = clock.monotonic()
      try {
        this.#stream.push(chunk)
      } catch (error) {
        // The events before the failure were valid and must be reported as delivered.
        await this.#handOver()
        throw error
      }
      if (this.#isOldServer) return { kind: 'cannot-stream', why: 'a bookmark before the end of the initial events' }
      await this.#handOver()
    }
    if (this.#stream.pendingBytes > 0) throw new WatchFailure('network', 'the response ended inside an event')
    if (this.#place === null)
      throw new WatchFailure('server-error', 'the response ended before the end of the initial events')
    return { kind: 'ended' }
  }

  /**
   * Notifies the store and the reflector after one chunk has been decoded, which may contain the end of the initial
   * events.
   */
  async #handOver(): Promise<void> {
    // The time that the store takes must not count as the server's silence.
    this.#isHandingOver = true
    try {
      if (this.#initialEnd !== null) {
        const items = this.#initial
        this.#initial = []
        await this.#options.onInitial?.(items, this.#initialEnd)
        this.#moveTo(this.#initialEnd)
        this.#initialEnd = null
        for (const [event, endsRevision] of this.#late.splice(0)) this.#deliver(this.#place!, event, endsRevision)
      }
    } finally {
      // Also what was delivered before a failure, and only that.
      if (this.#place !== null && this.#hasMoved) this.#options.onProgress?.(this.#place, this.#hasBookmark)
      this.#hasMoved = false
      this.#hasBookmark = false
    }
    const settling = this.#options.settled?.()
    if (settling !== undefined) await settling
    this.#isHandingOver = false
    this.#arrived()
  }

  #initialEvent(event: DeliveredEvent<T>): void {
    if (event.type === 'BOOKMARK') {
      if (event.endsInitialEvents) this.#initialEnd = event.resourceVersion
      else this.#isOldServer = true
      return
    }
    if (event.type !== 'ADDED') this.#isOldServer = true
    this.#initial.push(event.object)
  }

  /** Moves the place only after the delivery, so that an event whose delivery failed is not taken for a repeated one. */
  #deliver(place: WatchPosition, event: DeliveredEvent<T>, endsRevision: boolean | null): void {
    const { resourceVersion } = event
    if (event.type === 'BOOKMARK') {
      this.#options.onBookmark(resourceVersion)
      return this.#moveTo(resourceVersion)
    }
    const { key } = event
    const isRepeated = resourceVersion === place.position && place.keysAtPosition.has(key)
    if (!isRepeated) this.#options.onChange(event)
    if (resourceVersion !== place.position) {
      // Without ids, only a new revision proves that the revision before it is complete.
      if (endsRevision === null) place.safePosition = place.position
      place.position = resourceVersion
      place.keysAtPosition.clear()
    }
    if (endsRevision === true) place.safePosition = resourceVersion
    this.#hasMoved = true
    place.keysAtPosition.add(key)
  }

  /** Moves to a point between two revisions. */
  #moveTo(resourceVersion: string): void {
    this.#place = positionAt(resourceVersion)
    this.#hasMoved = true
    this.#hasBookmark = true
  }

  #arrived(): void {
    this.#lastArrival = this.#options.clock.monotonic()
  }

  /**
   * Starts the timer that serves all chunks. It checks the time when it fires, instead of being reset for each chunk.
   */
  #arm(delayMs: number, allowedMs: () => number): void {
    const { clock } = this.#options
    this.#timer = clock.setTimer(delayMs, () => {
      const leftMs = this.#isHandingOver ? allowedMs() : this.#lastArrival + allowedMs() - clock.monotonic()
      if (leftMs > 0) return this.#arm(leftMs, allowedMs)
      this.#isSilent = true
      this.#abort.abort(new Error('the server has gone silent'))
    })
  }

  #silenceOutcome(): WatchOutcome {
    if (!this.#isOpen) throw new WatchFailure('network', `no answer within ${this.#options.openTimeoutMs} ms`)
    if (this.#place !== null) return { kind: 'silent' }
    if (this.#stream.pendingBytes > 0) throw new WatchFailure('network', 'silence inside an event')
    return { kind: 'cannot-stream', why: 'silence before the end of the initial events' }
  }
}

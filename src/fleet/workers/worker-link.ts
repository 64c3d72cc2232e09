/**
 * The primary's end of one worker's socket: it sends states and the events after them, answers requests, and drops a
 * worker that does not keep up.
 *
 * Frames leave in two ways. Live frames go to the socket at once. A whole state is produced frame by frame while the
 * socket has room, and live frames of the same feed wait behind it. Frames that wait, here or in the socket, count
 * against one limit of bytes. A worker that exceeds it is dropped, and its replacement gets everything again, so no
 * worker's data ever has a hole. Skipping frames for a slow worker would cause one.
 *
 * Responses wait in the link and do not count against the limit. Their number is bounded, because a worker has at most
 * 256 open requests (`worker.ts`).
 */
import type { Duplex } from 'node:stream'
import type { Resource } from '../../engine/model/resource.js'
import type { FreshnessSource } from '../../engine/model/freshness-source.js'
import type { Clock } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { type SourceProblems, UpstreamError } from '../../engine/upstream/upstream.js'
import { type Handlers, Link } from './link.js'
import type { PrimaryMethods, ToPrimary, ToWorker, UpstreamMethods, WorkerMethods } from './messages.js'
import { type CountedLimits, PrimaryLimits } from './primary-limits.js'
import type { Relay, RelaySubscriber } from './relay.js'
import { Silence } from '../silence.js'

export interface WorkerLinkOptions {
  readonly socket: Duplex
  readonly clock: Clock
  /** Returns the relay of the resource's source, opened for the first worker that subscribes. */
  readonly open: (resource: Resource) => Relay
  /** Returns the relay of a source (`feedSource`); undefined if no worker has subscribed to it. */
  readonly find: (source: string) => Relay | undefined
  /** Answers the requests that concern neither a feed nor a limit. */
  readonly handlers: Pick<Handlers<PrimaryMethods>, keyof UpstreamMethods | 'metrics' | 'status' | 'checkConsistency'>
  /** Returns what is wrong with the sources, for the worker's readiness. */
  readonly problems: () => SourceProblems
  /** The limits shared by all workers. */
  readonly limits: CountedLimits
  /** Called when clients can connect to the worker. */
  readonly onStarted: () => void
  /** The most bytes that may wait for the worker; beyond it the worker is dropped. */
  readonly maxQueuedBytes: number
  /** Called when the worker has left a relay; it may need the relay again if only its link has closed. */
  readonly onRelayLeft: (relay: Relay, why: 'unsubscribed' | 'closed') => void
  /** Called when a message of the worker could not be handled. */
  readonly onBug: (error: unknown) => void
  /** Called once, when either side has cut the link. */
  readonly onClosed: (reason: string) => void
}

const COLLECT_TIMEOUT_MS = 2_000
/**
 * A worker pings twice a second; one that is silent for this many seconds is stopped or stuck, and its clients get no
 * response.
 */
const TICK_MS = 1_000
const SILENT_TICKS = 30
/** A worker that is loading is silent, and on a busy machine for long. */
const LOADING_TICKS = 180

/** Replaces a frame that was sent, so that its memory can be freed. */
const SENT = Buffer.alloc(0)

/** A whole state that is being sent. */
interface Whole {
  readonly frames: Iterator<Buffer>
  /** Live frames that arrived in the meantime. */
  readonly behind: Buffer[]
}

export class WorkerLink implements RelaySubscriber {
  readonly #link: Link<ToPrimary, PrimaryMethods, WorkerMethods>
  /** The whole states being sent, by feed number. */
  readonly #wholes = new Map<number, Whole>()
  readonly #relays = new Set<Relay>()
  readonly #limits: PrimaryLimits
  #behindBytes = 0
  #isServing = false
  #hasPinged = false
  #metrics: string | null = null
  #silence: Silence

  constructor(private readonly options: WorkerLinkOptions) {
    const limits = new PrimaryLimits(options.limits)
    this.#limits = limits
    this.#silence = this.#listen(LOADING_TICKS)
    this.#link = new Link<ToPrimary, PrimaryMethods, WorkerMethods>({
      socket: options.socket,
      onMessage: (message) => this.#receive(message),
      onBug: options.onBug,
      onWritten: () => this.#checkBound(),
      onClosed: ({ message }) => this.#closed(message),
      handlers: {
        ...options.handlers,
        currentRevision: async (signal, source) => ({ value: await this.#freshness(source).currentRevision(signal) }),
        readState: async (signal, source, requestedRevision) => {
          const { revision, keyValues } = await this.#freshness(source).readState(requestedRevision, signal)
          return { value: revision, keyValues }
        },
        readKey: async (signal, source, key) => ({ value: await this.#freshness(source).readKey(key, signal) }),
        enter: async (signal, slot, name, identity) => ({ value: await limits.enter(slot, name, identity, signal) }),
        drawRequests: async (_signal, identity, draw) => ({ value: limits.drawRequests(identity, draw) }),
      },
    })
  }

  /** Whether clients can connect to the worker. */
  get isServing(): boolean {
    return this.#isServing && !this.#link.isClosed
  }

  get queuedBytes(): number {
    return this.#link.isClosed ? 0 : this.#behindBytes + this.#link.queuedBytes
  }

  /** Notifies the worker that a client is suspect for a while. */
  suspect(client: string): void {
    this.#send({ kind: 'suspect', client })
  }

  /**
   * The metrics that the worker last returned; null before the first. They count as long as a newer answer is late: to
   * Prometheus, a sum that falls is a restart, and everything counted before it seems new.
   */
  get metrics(): string | null {
    return this.#metrics
  }

  /** Requests the worker's metrics, and waits for them if they come in time. Those that come later are kept too. */
  async collectMetrics(): Promise<void> {
    await this.#inTime(async () => {
      this.#metrics = (await this.#link.request('metrics', [])).value
    })
  }

  /** Resolves to the worker's status; to null if the worker has none, or does not answer in time. */
  async collectStatus(): Promise<unknown> {
    return await this.#inTime(async (signal) => (await this.#link.request('status', [], signal)).value)
  }

  async #inTime<T>(request: (signal: AbortSignal) => Promise<T>): Promise<T | null> {
    const late = (): Error => new UpstreamError('unavailable', 'the worker does not answer')
    return await withDeadline(this.options.clock, COLLECT_TIMEOUT_MS, undefined, late, request).catch(() => null)
  }

  close(reason: string): void {
    this.#link.close(reason)
  }

  send(feed: number, frame: Buffer): void {
    const whole = this.#wholes.get(feed)
    if (whole === undefined) return this.#link.write(frame)
    whole.behind.push(frame)
    this.#behindBytes += frame.length
    this.#checkBound()
  }

  sendAll(feed: number, frames: Iterator<Buffer>): void {
    // A newer state replaces one that is still being sent, and everything that waits behind it.
    this.#drop(feed)
    const behind: Buffer[] = []
    const whole = { behind, frames: this.#whole(feed, frames, behind) }
    this.#wholes.set(feed, whole)
    this.#link.sendAll(whole.frames)
  }

  *#whole(feed: number, state: Iterator<Buffer>, behind: Buffer[]): Generator<Buffer, void, void> {
    for (let next = state.next(); next.done !== true; next = state.next()) yield next.value
    for (let i = 0; i < behind.length; i++) {
      const frame = behind[i]!
      behind[i] = SENT
      this.#behindBytes -= frame.length
      yield frame
    }
    this.#wholes.delete(feed)
  }

  #drop(feed: number): void {
    const whole = this.#wholes.get(feed)
    if (whole === undefined) return
    for (const frame of whole.behind) this.#behindBytes -= frame.length
    this.#link.drop(whole.frames)
    this.#wholes.delete(feed)
  }

  #send(message: ToWorker): void {
    this.#link.send(message)
  }

  #checkBound(): void {
    const { maxQueuedBytes } = this.options
    if (this.queuedBytes > maxQueuedBytes) this.close(`it is more than ${maxQueuedBytes} bytes behind the primary`)
  }

  #receive(message: ToPrimary): void {
    this.#silence.received()
    switch (message.kind) {
      case 'subscribe': {
        const relay = this.options.open(message.resource)
        this.#relays.add(relay)
        this.#send({ kind: 'subscribed', feed: relay.id, source: relay.source })
        // The frame just sent may have exceeded the limit.
        if (!this.#link.isClosed) relay.subscribe(this)
        return
      }
      case 'unsubscribe': {
        const relay = this.options.find(message.source)
        if (relay === undefined || !this.#relays.has(relay)) return
        this.#drop(relay.id)
        return this.#leave(relay, 'unsubscribed')
      }
      case 'requestProgress':
        return this.options.find(message.source)?.feed.freshness.requestProgress()
      case 'started':
        this.#isServing = true
        return this.options.onStarted()
      case 'ping':
        if (!this.#hasPinged) {
          this.#hasPinged = true
          this.#silence.stop()
          this.#silence = this.#listen(SILENT_TICKS)
        }
        return this.#send({ kind: 'pong', isProof: message.isProof, problems: this.options.problems() })
      default:
        return this.#limits.receive(message)
    }
  }

  #listen(ticks: number): Silence {
    return new Silence({
      clock: this.options.clock,
      tickMs: TICK_MS,
      ticks,
      onSilent: (silentMs) => this.close(`it has not responded for ${Math.round(silentMs / 1_000)} s`),
    })
  }

  #closed(reason: string): void {
    this.#silence.stop()
    for (const relay of this.#relays) this.#leave(relay, 'closed')
    this.#limits.close()
    this.#wholes.clear()
    this.options.onClosed(reason)
  }

  #leave(relay: Relay, why: 'unsubscribed' | 'closed'): void {
    this.#relays.delete(relay)
    relay.unsubscribe(this)
    this.options.onRelayLeft(relay, why)
  }

  #freshness(source: string): FreshnessSource {
    const relay = this.options.find(source)
    if (relay === undefined) throw new UpstreamError('unavailable', 'the resource is not watched here')
    return relay.feed.freshness
  }
}

/**
 * One watch on its own gRPC stream. All streams share the one connection of their endpoint.
 *
 * Several watches on one stream were rejected. On such a stream etcd answers a progress request only when *all*
 * watchers of the stream have caught up, so one lagging resource would delay every consistent read, and one slow
 * consumer would delay the whole stream. A stream costs etcd two goroutines, which is negligible for one stream per
 * resource.
 *
 * A large response is decoded and delivered in time slices; a watch that is behind receives a thousand revisions in one
 * response. Meanwhile the stream is not read, and messages that have already been read follow in order. A revision is
 * always delivered as a whole.
 *
 * A lost watch is not reopened here, because the feed decides whether to resume, to relist or to wait. There is one
 * exception: if etcd refuses the token when a watch is opened, it is opened again, once, with a new token.
 */
import type { Clock, Timer } from '../../../support/clock.js'
import { type Batch, prefixEnd } from '../../model/event.js'
import { CONFIRMED_FOR_MS } from '../../model/feed-sink.js'
import { InOrder } from '../in-order.js'
import { inTurns, partsOf, sourceTurns } from '../../../support/turns.js'
import {
  type SourceAge,
  UpstreamError,
  type UpstreamWatch,
  type WatchEnd,
  type WatchHandlers,
  type UpstreamWatchOptions,
} from '../upstream.js'
import type { AuthToken } from './auth-token.js'
import { encodeWatchCreate, encodeWatchProgressRequest, paths } from './control-messages.js'
import { watchDecoding, type WatchMessage } from './data-messages.js'
import type { EndpointPool } from './endpoint-pool.js'
import { cancelReasonError, isTokenRejected, toUpstreamError } from './etcd-error.js'
import type { GrpcEndpoint, GrpcStream } from './grpc-endpoint.js'
import type { MemberPulse } from './member-pulse.js'
import type { ProgressAnswers } from './progress-answers.js'
import type { RpcError } from './rpc-status.js'

export interface WatchContext {
  readonly pool: EndpointPool
  readonly token: AuthToken
  readonly clock: Clock
  /** The time limit in milliseconds between the request for a watch and etcd's `created`. */
  readonly openTimeoutMs: number
  trustsProgress(): boolean
  readonly progress: Pick<ProgressAnswers, 'answered' | 'opened' | 'ofWatch'>
  readonly pulse: Pick<MemberPulse<GrpcEndpoint>, 'confirmedAtMs' | 'confirm'>
  /** Called when etcd has accepted the watch, and again if it had to be opened with another token. */
  onOpen(): void
  /** Called when the watch is over for any reason and need not be closed any more. */
  onOver(watch: UpstreamWatch): void
}

/** With this metadata, etcd ends the stream when the member has lost its leader, instead of falling silent. */
const REQUIRE_LEADER = { hasleader: 'true' }

const PROGRESS_REQUEST = encodeWatchProgressRequest()

/** A response below this size takes less than one time slice. */
const SLICED_BYTES = 64 * 1024

/** Bytes delivered between two reads of the clock. Each event counts as `EVENT_BYTES` in addition to its value. */
const PART_BYTES = 64 * 1024
const EVENT_BYTES = 100

/** The id in responses to every watcher of a stream. Here a stream has only one watcher. */
const ALL_WATCHERS = -1

export class EtcdWatch implements UpstreamWatch {
  readonly #context: WatchContext
  readonly #options: UpstreamWatchOptions
  readonly #handlers: WatchHandlers
  readonly #abort = new AbortController()
  readonly #openTimer: Timer
  readonly #progress: ReturnType<ProgressAnswers['ofWatch']>
  #endpoint: GrpcEndpoint | null = null
  #stream: GrpcStream | null = null
  #metadata: Readonly<Record<string, string>> = {}
  #hasRefreshedToken = false
  #isOpen = false
  #isOver = false
  /** The last revision of a fragment; null if the last message was not a fragment. */
  #cut: Batch | null = null
  /**
   * Messages that arrive while a large one is being delivered wait here. They are at most as many as one read of the
   * socket contains.
   */
  readonly #steps = new InOrder((isBusy) => {
    if (isBusy) this.#stream?.pause()
    else this.#stream?.resume()
  })

  constructor(context: WatchContext, options: UpstreamWatchOptions, handlers: WatchHandlers) {
    this.#context = context
    this.#options = options
    this.#handlers = handlers
    this.#progress = context.progress.ofWatch()
    this.#openTimer = context.clock.setTimer(context.openTimeoutMs, () => {
      this.#blameEndpoint()
      this.#fail(new UpstreamError('unavailable', `etcd did not open the watch within ${context.openTimeoutMs} ms`))
    })
    void this.#open()
  }

  /** Ends the watch because its endpoint is unusable while another one responds. */
  leave(reason: string): void {
    this.#end({ kind: 'left', error: new UpstreamError('unavailable', reason) })
  }

  /** The endpoint of the member that serves the watch; null before it has been chosen. */
  get endpoint(): GrpcEndpoint | null {
    return this.#endpoint
  }

  get age(): SourceAge | null {
    const { clock, pulse } = this.#context
    const atMs = this.#endpoint === null ? null : pulse.confirmedAtMs(this.#endpoint)
    return atMs === null ? null : { ageMs: clock.monotonic() - atMs, validMs: CONFIRMED_FOR_MS }
  }

  async confirm(): Promise<void> {
    if (this.#endpoint !== null) await this.#context.pulse.confirm(this.#endpoint)
  }

  requestProgress(isCaughtUp = true): void {
    if (!this.#isOpen || this.#isOver || !this.#context.trustsProgress()) return
    // etcd drops the request of a watch that lags.
    if (isCaughtUp) this.#progress.requested()
    this.askForProgress()
  }

  /** Asks for progress although etcd may drop the request. */
  askForProgress(): void {
    if (this.#isOpen && !this.#isOver) this.#stream?.send(PROGRESS_REQUEST)
  }

  close(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#steps.stop()
    this.#openTimer.cancel()
    this.#abort.abort()
    this.#stream?.cancel()
    this.#context.onOver(this)
  }

  async #open(): Promise<void> {
    const { pool, token } = this.#context
    try {
      this.#metadata = await token.metadata()
      this.#endpoint = await pool.pick(this.#abort.signal)
    } catch (error) {
      this.#fail(toUpstreamError(error, this.#name()))
      return
    }
    if (this.#isOver) return
    const stream = this.#endpoint.stream(
      paths.watch,
      { ...this.#metadata, ...REQUIRE_LEADER },
      {
        onMessage: (message) => {
          if (this.#stream === stream) this.#steps.do(() => this.#receive(message))
        },
        onEnd: (error) => {
          if (this.#stream === stream) this.#steps.do(() => this.#streamEnded(error))
        },
      },
    )
    this.#stream = stream
    const { prefix, startRevision, inParts = false } = this.#options
    stream.send(encodeWatchCreate(prefix, prefixEnd(prefix), startRevision, inParts))
  }

  #receive(bytes: Buffer): void | Promise<void> {
    if (this.#isOver) return
    this.#progress.received()
    if (bytes.length > SLICED_BYTES) return this.#receiveInTurns(bytes)
    let message: WatchMessage
    try {
      message = watchDecoding(bytes).whole()
    } catch (error) {
      this.#fail(toUpstreamError(error, this.#name()))
      return
    }
    this.#take(message)
  }

  async #receiveInTurns(bytes: Buffer): Promise<void> {
    const decoding = watchDecoding(bytes)
    try {
      do {
        if (sourceTurns.isOver) await sourceTurns.take()
        if (this.#isOver) return
      } while (decoding.part())
    } catch (error) {
      this.#fail(toUpstreamError(error, this.#name()))
      return
    }
    const message = decoding.result
    if (message.canceled || message.created) return this.#take(message)
    const parts = partsOf(this.#wholeRevisions(message), weightOf, PART_BYTES)
    for await (const batches of inTurns(parts, sourceTurns)) {
      if (this.#isOver) return
      this.#handlers.onBatches(batches)
    }
  }

  #take(message: WatchMessage): void {
    if (message.canceled) return this.#canceled(message)
    if (message.created) {
      if (this.#isOpen) return
      this.#isOpen = true
      this.#openTimer.cancel()
      this.#context.progress.opened()
      this.#context.onOpen()
      this.#handlers.onOpen()
      return
    }
    // While the watcher catches up, the header's revision is far ahead of the events. It means progress only in a
    // response without events.
    if (message.batches.length > 0) {
      const batches = this.#wholeRevisions(message)
      return batches.length === 0 ? undefined : this.#handlers.onBatches(batches)
    }
    if (message.watchId === ALL_WATCHERS) this.#context.progress.answered()
    if (message.watchId === ALL_WATCHERS && !this.#context.trustsProgress()) return
    // A watch may start at a future revision. Progress before that says nothing about it.
    if (message.headerRevision >= this.#options.startRevision - 1) this.#handlers.onProgress(message.headerRevision)
  }

  /** Joins a revision that was cut by the end of a fragment, and holds back one that may continue. */
  #wholeRevisions({ batches, isFragment }: WatchMessage): readonly Batch[] {
    const cut = this.#cut
    if (cut === null && !isFragment) return batches
    const whole = [...batches]
    const [first] = whole
    if (cut !== null && first?.revision === cut.revision) {
      whole[0] = { revision: cut.revision, events: [...cut.events, ...first.events] }
    } else if (cut !== null) whole.unshift(cut)
    this.#cut = isFragment ? (whole.pop() ?? null) : null
    return whole
  }

  #canceled(message: WatchMessage): void {
    const { compactRevision, cancelReason } = message
    if (compactRevision > 0) return this.#end({ kind: 'compacted', compactRevision })
    if (this.#refreshToken(cancelReason)) return
    this.#fail(cancelReasonError(cancelReason, this.#name()))
  }

  #streamEnded(error: RpcError | null): void {
    if (this.#isOver) return
    if (!error) return this.#fail(new UpstreamError('unavailable', `etcd ${this.#name()} ended the watch`))
    if (this.#refreshToken(error.details)) return
    const upstreamError = toUpstreamError(error, this.#name())
    if (upstreamError.code === 'unavailable') this.#blameEndpoint()
    this.#fail(upstreamError)
  }

  /** Returns true if etcd refused the token and the watch is being reopened with another one. */
  #refreshToken(reason: string): boolean {
    const { token } = this.#context
    if (this.#isOpen || this.#hasRefreshedToken || !token.canRefresh || !isTokenRejected(reason)) return false
    this.#hasRefreshedToken = true
    token.refuse(this.#metadata)
    const refused = this.#stream
    this.#stream = null
    refused?.cancel()
    void this.#open()
    return true
  }

  #blameEndpoint(): void {
    if (this.#endpoint) this.#context.pool.suspect(this.#endpoint)
  }

  #fail(error: UpstreamError): void {
    this.#end({ kind: 'failed', error })
  }

  #end(end: WatchEnd): void {
    if (this.#isOver) return
    this.close()
    this.#handlers.onEnd(end)
  }

  #name(): string {
    return this.#endpoint?.url ?? ''
  }
}

function weightOf({ events }: Batch): number {
  let bytes = 0
  for (const event of events) bytes += EVENT_BYTES + (event.type === 'put' ? event.keyValue.value.length : 0)
  return bytes
}

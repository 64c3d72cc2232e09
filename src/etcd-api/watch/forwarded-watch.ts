/**
 * A watch of keys that no cache holds: a watch on etcd for this client alone. Its messages are passed on with the id
 * that it has here.
 */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import type { RawStream, RawUpstream } from '../../engine/upstream/upstream.js'
import type { Clock, Timer } from '../../support/clock.js'
import { etcdErrorOf, permissionDenied, stopped, timedOut } from '../etcd-error.js'
import type { EtcdApiMetrics } from '../metrics.js'
import { WATCH_ANSWER_MS } from '../limits.js'
import { fieldsExcept } from '../status.js'
import { WATCH_PATH } from './bridges.js'
import type { StreamWatch, WatchSink } from './stream-watch.js'
import { readForwardedMessage } from './upstream-message.js'
import { watchFields } from './watch-messages.js'

const WATCH_ID_FIELD: ReadonlySet<number> = new Set([7])
const PROGRESS_REQUEST = new BinaryWriter().tag(3, WireType.LengthDelimited).fork().join().finish()
const nothing = (): void => {}

export interface ForwardedWatchContext {
  readonly raw: RawUpstream
  readonly clock: Clock
  readonly metrics: Pick<EtcdApiMetrics, 'watches'>
}

export class ForwardedWatch implements StreamWatch {
  readonly isCached = false
  readonly #sink: WatchSink
  readonly #watchId: number
  readonly #isHidden: () => boolean
  readonly #context: ForwardedWatchContext
  #stream: RawStream | null = null
  #isOver = false
  #revision = 0
  /** Waits for etcd's answer to a progress request, which etcd need not give. */
  #asking: (revision: number | null) => void = nothing
  #answer: (answer: 'passed on' | 'token refused') => void = nothing
  #answerTimer: Timer | null = null

  /** @param isHidden whether the range has become hidden from everybody. */
  constructor(sink: WatchSink, watchId: number, context: ForwardedWatchContext, isHidden: () => boolean) {
    this.#context = context
    this.#sink = sink
    this.#watchId = watchId
    this.#isHidden = isHidden
  }

  /**
   * @param create the client's.
   * @returns when etcd's answer has been passed on or the watch is over, because clients tell the answers to several
   * requests apart by their order.
   */
  async open(create: Uint8Array): Promise<void> {
    this.#context.metrics.watches('etcd', 1)
    this.#limitAnswer()
    try {
      // The token is not the client's, and etcd has not seen the client's request. Another token may do.
      if ((await this.#request(create, true)) === 'token refused') await this.#request(create, false)
    } catch (error) {
      if (!this.#isOver) this.#sink.fail(etcdErrorOf(error))
    } finally {
      this.#answerTimer?.cancel()
    }
  }

  /** @param isFirst whether etcd has seen no other token of this server for the watch. */
  async #request(create: Uint8Array, isFirst: boolean): Promise<'passed on' | 'token refused'> {
    const answered = new Promise<'passed on' | 'token refused'>((resolve) => (this.#answer = resolve))
    const stream = await this.#context.raw.stream(WATCH_PATH, {
      onMessage: (message) => this.#receive(message, isFirst),
      onEnd: (error) => {
        if (!this.#isOver) this.#sink.fail(error === null ? stopped() : etcdErrorOf(error))
      },
    })
    if (this.#isOver) {
      stream.cancel()
      return 'passed on'
    }
    this.#stream = stream
    if (this.#sink.isFull) stream.pause()
    const request = fieldsExcept(create, WATCH_ID_FIELD)
    stream.send(new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(Buffer.concat(request)).finish())
    return await answered
  }

  #limitAnswer(): void {
    this.#answerTimer = this.#context.clock.setTimer(WATCH_ANSWER_MS, () => {
      // Nothing is read from etcd for a client that reads nothing.
      if (this.#sink.isFull) this.#limitAnswer()
      else this.#sink.fail(timedOut())
    })
  }

  #receive(message: Buffer, isFirst: boolean): void {
    if (this.#isOver) return
    if (this.#isHidden()) return this.revoke()
    const { watchId, canceled, cancelReason, revision, withId } = readForwardedMessage(message)
    if (watchId === -1 && !canceled) {
      this.#asking(revision)
      return
    }
    if (canceled && isFirst && this.#revision === 0 && this.#stream?.refused(cancelReason) === true) {
      this.#stream.cancel()
      // It must not be paused again: a stream that nobody reads never closes.
      this.#stream = null
      return this.#answer('token refused')
    }
    this.#revision = revision
    // etcd refuses a watch under this id.
    const id = watchId === -1 ? -1 : this.#watchId
    this.#sink.pass(withId(watchFields({ watchId: id })))
    this.#answer('passed on')
    if (canceled) this.#sink.remove(this.#watchId)
  }

  close(): void {
    this.#isOver = true
    this.#answerTimer?.cancel()
    this.#answer('passed on')
    this.#context.metrics.watches('etcd', -1)
    this.#stream?.cancel()
    this.#asking(null)
  }

  /** The caller may no longer watch. */
  revoke(): void {
    if (this.#isOver) return
    const fields = watchFields({
      watchId: this.#watchId,
      created: this.#revision === 0,
      canceled: true,
      cancelReason: permissionDenied().goText,
    })
    this.#sink.send(fields, this.#revision, new Uint8Array(0))
    this.#sink.remove(this.#watchId)
  }

  block(): void {
    this.#stream?.pause()
  }

  resume(): void {
    this.#stream?.resume()
  }

  position(): Promise<number | null> {
    const stream = this.#stream
    if (stream === null || this.#sink.isFull) return Promise.resolve(null)
    this.#asking(null)
    return new Promise((resolve) => {
      this.#asking = resolve
      stream.send(PROGRESS_REQUEST)
    })
  }
}

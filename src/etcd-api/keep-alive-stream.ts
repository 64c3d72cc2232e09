/**
 * One stream of lease keepalives. Each request is authorized for the keys that its lease has, and then sent to etcd on a
 * stream of its own, whose answers are passed on. Requests are handled one after another, so answers keep their order.
 *
 * Only so many requests are with etcd at once, and those that wait or are not answered yet pause the client together.
 * What the client sends while etcd does not answer would otherwise gather here.
 */
import { MAX_WAITING_REQUESTS } from './limits.js'
import type { RawStream, RawUpstream } from '../engine/upstream/upstream.js'
import { etcdErrorOf, stopped } from './etcd-error.js'
import type { GrpcCall } from './grpc-call.js'
import { LEASE_PATHS, leaseIdIn } from './leases.js'
import { WaitingRequests } from './waiting-requests.js'

export interface KeepAliveOptions {
  readonly raw: Pick<RawUpstream, 'stream'>
  readonly call: GrpcCall
  /** @throws EtcdError if the caller may not keep the lease alive. */
  readonly authorize: (leaseId: string) => Promise<void>
  readonly onClose: () => void
}

export class KeepAliveStream {
  readonly #options: KeepAliveOptions
  readonly #waiting = new WaitingRequests()
  #stream: RawStream | null = null
  #isBusy = false
  /** Requests that etcd has not answered. */
  #unanswered = 0
  #isHalfClosed = false

  constructor(options: KeepAliveOptions) {
    this.#options = options
  }

  start(): void {
    const { call, onClose } = this.#options
    call.read({
      onMessage: (message) => {
        this.#waiting.push(message)
        if (this.#isFull) call.pause()
        void this.#work()
      },
      onHalfClose: () => {
        this.#isHalfClosed = true
        this.#endIfAnswered()
      },
      onDrain: () => this.#stream?.resume(),
      onClose: () => {
        this.#waiting.clear()
        this.#stream?.cancel()
        onClose()
      },
    })
    call.begin()
  }

  fail(error: ReturnType<typeof stopped>): void {
    this.#options.call.fail(error)
  }

  get #isFull(): boolean {
    return this.#waiting.isFull(this.#unanswered)
  }

  async #work(): Promise<void> {
    if (this.#isBusy) return
    const { call, authorize } = this.#options
    this.#isBusy = true
    try {
      while (this.#waiting.length > 0 && this.#unanswered < MAX_WAITING_REQUESTS) {
        const message = this.#waiting.shift()!
        await authorize(leaseIdIn(message))
        if (call.isOver) return
        this.#stream ??= await this.#open()
        this.#unanswered++
        this.#stream.send(message)
      }
    } catch (error) {
      call.fail(etcdErrorOf(error))
    } finally {
      this.#isBusy = false
    }
    this.#endIfAnswered()
  }

  #answered(): void {
    this.#unanswered--
    if (!this.#isFull) this.#options.call.resume()
    void this.#work()
    this.#endIfAnswered()
  }

  /** As in etcd, the stream of a client that has nothing more to ask ends after the last answer. */
  #endIfAnswered(): void {
    const isAnswered = !this.#isBusy && this.#waiting.length === 0 && this.#unanswered === 0
    if (this.#isHalfClosed && isAnswered) this.#options.call.succeed()
  }

  async #open(): Promise<RawStream> {
    const { raw, call } = this.#options
    const stream = await raw.stream(LEASE_PATHS.keepAlive, {
      onMessage: (message) => {
        if (!call.send([message])) stream.pause()
        this.#answered()
      },
      onEnd: (error) => call.fail(error === null ? stopped() : etcdErrorOf(error)),
    })
    if (call.isOver) stream.cancel()
    return stream
  }
}

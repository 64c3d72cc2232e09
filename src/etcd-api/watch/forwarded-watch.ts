/**
 * A watch of keys that no cache holds: a watch on etcd for this client alone. Its messages are passed on with the id
 * that it has here.
 */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import type { RawStream, RawUpstream } from '../../engine/upstream/upstream.js'
import { etcdErrorOf, permissionDenied, stopped } from '../etcd-error.js'
import type { EtcdApiMetrics } from '../metrics.js'
import { fieldsExcept } from '../status.js'
import { WATCH_PATH } from './bridges.js'
import type { StreamWatch, WatchSink } from './stream-watch.js'
import { readUpstreamMessage, withoutWatchId } from './upstream-message.js'
import { watchFields } from './watch-messages.js'

const WATCH_ID_FIELD: ReadonlySet<number> = new Set([7])
const PROGRESS_REQUEST = new BinaryWriter().tag(3, WireType.LengthDelimited).fork().join().finish()
const nothing = (): void => {}

export class ForwardedWatch implements StreamWatch {
  readonly isCached = false
  readonly #sink: WatchSink
  readonly #watchId: number
  readonly #isHidden: () => boolean
  readonly #metrics: Pick<EtcdApiMetrics, 'watches'>
  #stream: RawStream | null = null
  #isOver = false
  #revision = 0
  /** Waits for etcd's answer to a progress request, which etcd need not give. */
  #asking: (revision: number | null) => void = nothing
  readonly #answered: Promise<void>
  #answer: () => void = nothing

  /** @param isHidden whether the range has become hidden from everybody. */
  constructor(sink: WatchSink, watchId: number, metrics: Pick<EtcdApiMetrics, 'watches'>, isHidden: () => boolean) {
    this.#metrics = metrics
    this.#sink = sink
    this.#watchId = watchId
    this.#isHidden = isHidden
    this.#answered = new Promise((resolve) => (this.#answer = resolve))
  }

  /**
   * @param create the client's.
   * @returns when etcd's answer has been passed on or the watch is over, because clients tell the answers to several
   * requests apart by their order.
   */
  async open(raw: RawUpstream, create: Uint8Array): Promise<void> {
    this.#metrics.watches('etcd', 1)
    try {
      const stream = await raw.stream(WATCH_PATH, {
        onMessage: (message) => this.#receive(message),
        onEnd: (error) => {
          this.#answer()
          if (!this.#isOver) this.#sink.fail(error === null ? stopped() : etcdErrorOf(error))
        },
      })
      if (this.#isOver) return stream.cancel()
      this.#stream = stream
      if (this.#sink.isFull) stream.pause()
      const request = fieldsExcept(create, WATCH_ID_FIELD)
      stream.send(new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(Buffer.concat(request)).finish())
      await this.#answered
    } catch (error) {
      if (!this.#isOver) this.#sink.fail(etcdErrorOf(error))
    }
  }

  #receive(message: Buffer): void {
    if (this.#isOver) return
    if (this.#isHidden()) return this.revoke()
    const { watchId, canceled, revision } = readUpstreamMessage(message)
    if (watchId === -1 && !canceled) {
      this.#asking(revision)
      return
    }
    this.#revision = revision
    const { header, rest } = withoutWatchId(message)
    // etcd refuses a watch under this id.
    const id = watchId === -1 ? -1 : this.#watchId
    this.#sink.pass([...header, watchFields({ watchId: id }), ...rest])
    this.#answer()
    if (canceled) this.#sink.remove(this.#watchId)
  }

  close(): void {
    this.#isOver = true
    this.#answer()
    this.#metrics.watches('etcd', -1)
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

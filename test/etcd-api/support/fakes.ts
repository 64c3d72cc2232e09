/** Both sides of a call without a network: a client of ours, and an etcd that answers when the test says so. */
import type { ByteStream } from '../../../src/etcd-api/byte-stream.js'
import { framed } from '../../../src/etcd-api/grpc-call.js'
import type { RawHandlers, RawStream, RawUpstream } from '../../../src/engine/upstream/upstream.js'
import { messageSplitter } from '../../../src/engine/upstream/etcd/grpc-framing.js'

type Handlers = Parameters<ByteStream['read']>[0]

/** What it sends while it is paused arrives later, as on a connection with flow control. */
export class FakeClient implements ByteStream {
  readonly authority = 'localhost'
  readonly isSecure = false
  pendingBytes = 0
  /** Whether it takes nothing more for now. */
  isFull = false
  isPaused = false
  /** The `grpc-status`; null while the call is open. */
  status: string | null = null
  readonly messages: Buffer[] = []
  readonly #ended = new AbortController()
  readonly #received = messageSplitter(2 ** 30, (message) => this.messages.push(message))
  #handlers: Handlers | null = null
  #unread: (() => void)[] = []

  constructor(
    readonly path: string,
    readonly connection: object = {},
  ) {}

  get signal(): AbortSignal {
    return this.#ended.signal
  }

  // What the client does

  send(message: Uint8Array): void {
    this.sendBytes(framed([message]))
  }

  sendBytes(bytes: Buffer): void {
    this.#arrive(() => this.#handlers?.onBytes(bytes))
  }

  halfClose(): void {
    this.#arrive(() => this.#handlers?.onEnd())
  }

  drain(): void {
    this.isFull = false
    this.#handlers?.onDrain()
  }

  // ByteStream

  header(): undefined {}

  read(handlers: Handlers): void {
    this.#handlers = handlers
    this.#flush()
  }

  pause(): void {
    this.isPaused = true
  }

  resume(): void {
    if (!this.isPaused) return
    this.isPaused = false
    queueMicrotask(() => this.#flush())
  }

  write(bytes: Buffer): boolean {
    this.#received.push(bytes)
    return !this.isFull
  }

  begin(): void {}

  finish(trailers: Readonly<Record<string, string>>): void {
    this.#end(trailers['grpc-status']!)
  }

  destroy(): void {
    this.#end('reset')
  }

  #end(status: string): void {
    if (this.status !== null) return
    this.status = status
    this.#ended.abort()
    this.#handlers?.onClose()
  }

  #arrive(arrive: () => void): void {
    this.#unread.push(arrive)
    this.#flush()
  }

  #flush(): void {
    while (this.#handlers !== null && !this.isPaused && this.#unread.length > 0) this.#unread.shift()!()
  }
}

/** One stream of an etcd that answers nothing by itself. */
export class FakeEtcdStream implements RawStream {
  readonly received: Uint8Array[] = []
  isPaused = false
  isCanceled = false

  constructor(readonly handlers: RawHandlers) {}

  send(message: Uint8Array): void {
    this.received.push(message)
  }

  pause(): void {
    this.isPaused = true
  }

  resume(): void {
    this.isPaused = false
  }

  cancel(): void {
    this.isCanceled = true
  }
}

/** Each call is answered by `answer`. */
export class FakeEtcd implements RawUpstream {
  readonly calls: { readonly path: string; readonly request: Uint8Array }[] = []
  readonly streams: FakeEtcdStream[] = []

  constructor(
    private readonly answer: (path: string, request: Uint8Array) => Buffer | Promise<Buffer> = () => Buffer.alloc(0),
  ) {}

  showsLeasesOfKeys(): boolean {
    return true
  }

  async call(path: string, request: Uint8Array): Promise<Buffer> {
    this.calls.push({ path, request })
    return await this.answer(path, request)
  }

  async stream(_path: string, handlers: RawHandlers): Promise<RawStream> {
    const stream = new FakeEtcdStream(handlers)
    this.streams.push(stream)
    return stream
  }
}

/** Both sides of a call without a network: a client of ours, and an etcd that answers when the test says so. */
import type { Access, Admitted, Right } from '../../../src/etcd-api/access.js'
import type { ByteStream } from '../../../src/etcd-api/byte-stream.js'
import { permissionDenied } from '../../../src/etcd-api/etcd-error.js'
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
  /** The size of the largest piece that was written at once. */
  largestPiece = 0
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

  /** The number of writes that the server has not taken. */
  get unread(): number {
    return this.#unread.length
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

  /** Sends the only request of a call. */
  ask(request: Uint8Array): this {
    this.send(request)
    this.halfClose()
    return this
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
    this.largestPiece = Math.max(this.largestPiece, bytes.length)
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

  constructor(
    readonly path: string,
    readonly handlers: RawHandlers,
  ) {}

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

  refused(reason: string): boolean {
    return reason.includes('invalid auth token')
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

  async stream(path: string, handlers: RawHandlers): Promise<RawStream> {
    const stream = new FakeEtcdStream(path, handlers)
    this.streams.push(stream)
    return stream
  }
}

/** Lets a caller do everything until `isRevoked`, and records what was required. */
export class FakeAccess implements Access {
  readonly network = '127.0.0.1'
  isRevoked = false
  readonly required: (readonly Right[])[] = []

  constructor(readonly isOpen = false) {}

  async check(rights: readonly Right[]): Promise<Admitted> {
    await this.#require(rights)
    return {
      identity: 'someone',
      isAnonymous: false,
      require: (more) => this.#require(more),
      confirm: () => this.#confirm(),
      keep: () => () => {},
    }
  }

  async #require(rights: readonly Right[]): Promise<void> {
    this.required.push(rights)
    await this.#confirm()
  }

  async #confirm(): Promise<void> {
    if (this.isRevoked) throw permissionDenied()
  }
}

/** Resolves when everything that needs no time and no other event has happened. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 10; i++) await new Promise(setImmediate)
}

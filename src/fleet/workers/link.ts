/**
 * One end of the socket between the primary and a worker. It carries messages in order, and requests with their
 * responses in both directions.
 *
 *     frame: length u32 │ message, as V8 clones it, with its length │ key-values or batches, if the message has some …
 *
 * Events and states follow the message in the form that streams use, which is compact. Both ends are the same build of
 * the same program, so there is no versioning; an invalid frame is a bug and ends the link.
 */
import type { Duplex } from 'node:stream'
import { deserialize, serialize } from 'node:v8'
import type { KeyValue } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import { UpstreamError, type UpstreamErrorCode } from '../../engine/upstream/upstream.js'
import { orAborted } from '../../support/deadline.js'
import { errorMessage } from '../../support/error-message.js'
import { FrameSplitter } from '../../support/frame-splitter.js'
import { ByteReader, ByteWriter } from '../byte-codec.js'
import { bytesOf, pagesOf, readKeyValues, writeKeyValues } from '../key-value-codec.js'

/** The requests that one end answers, by name. */
type Methods = Readonly<Record<string, (...args: never[]) => unknown>>

/** The response to a request: a value, and key-values. Bytes in either are slices of a frame, so copy what you keep. */
export interface LinkResponse<T> {
  readonly value: T
  readonly keyValues?: Iterable<KeyValue>
}

/**
 * Functions that answer the other end. They may throw an UpstreamError; any other error is a bug and arrives as
 * `unavailable`.
 */
export type Handlers<M extends Methods> = {
  readonly [Name in keyof M]: (
    signal: AbortSignal,
    ...args: Parameters<M[Name]>
  ) => Promise<LinkResponse<ReturnType<M[Name]>>>
}

export interface LinkOptions<Received, Handled extends Methods> {
  readonly socket: Duplex
  /**
   * @param body what follows the message. Values are slices of it: copy one to keep it, as `kubernetes/codec/ingest.ts`
   * does.
   */
  readonly onMessage: (message: Received, body: ByteReader) => void
  readonly handlers: Handlers<Handled>
  /** Called with any other error from a handler, which is a bug; the other end gets only its message. */
  readonly onBug: (error: unknown) => void
  /** Called after each frame that was handed to the socket. */
  readonly onWritten?: () => void
  /** Called once, when nothing more is sent or received. */
  readonly onClosed: (reason: UpstreamError) => void
}

type Call =
  | { readonly kind: 'ask'; readonly id: number; readonly method: string; readonly args: readonly never[] }
  | { readonly kind: 'cancel'; readonly id: number }
  /** A part of a response's key-values. Another part or the response itself follows. */
  | { readonly kind: 'part'; readonly id: number }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'failed'; readonly id: number; readonly failure: Failure }

interface Failure {
  readonly code: UpstreamErrorCode
  readonly message: string
  readonly compactRevision: Revision | null
}

interface ReceivedResponse<T> {
  readonly value: T
  readonly keyValues: readonly KeyValue[]
}

interface PendingRequest {
  readonly keyValues: KeyValue[]
  readonly resolve: (response: ReceivedResponse<never>) => void
  readonly reject: (error: Error) => void
}

/** States and responses wait while the socket holds more bytes than this. */
const ROOM_BYTES = 1024 * 1024

const LENGTH_BYTES = 4
/**
 * A frame that is empty or longer than this means that the two ends are out of step. Each batch is one frame, and
 * etcd's largest transaction is far smaller.
 */
const MAX_FRAME_BYTES = 256 * 1024 * 1024

/** Returns a splitter whose `push` throws RangeError when the length of a frame is impossible. */
export function frameSplitter(onFrame: (frame: Buffer) => void): FrameSplitter {
  const lengthIn = (head: Buffer, at: number): number => {
    const length = head.readUInt32BE(at)
    if (length === 0 || length > MAX_FRAME_BYTES) throw new RangeError(`invalid frame length: ${length} bytes`)
    return length
  }
  return new FrameSplitter(LENGTH_BYTES, lengthIn, onFrame)
}

/** @param expectedBytes the size of the body, roughly. */
export function encodeFrame(message: object, writeBody?: (writer: ByteWriter) => void, expectedBytes = 0): Buffer {
  const head = serialize(message)
  const writer = new ByteWriter(2 * LENGTH_BYTES + head.length + expectedBytes).count(0).bytes(head)
  writeBody?.(writer)
  const frame = writer.done()
  frame.writeUInt32BE(frame.length - LENGTH_BYTES, 0)
  return frame
}

/** Reads a frame without its length. @throws Error for anything else. */
export function decodeFrame(frame: Buffer): { readonly message: unknown; readonly body: ByteReader } {
  const body = new ByteReader(frame, 'sliced')
  return { message: deserialize(body.bytes()), body }
}

export class Link<Received extends { readonly kind: string }, Handled extends Methods, Requested extends Methods> {
  readonly #frames = frameSplitter((frame) => this.#frame(frame))
  readonly #pending = new Map<number, PendingRequest>()
  readonly #handling = new Map<number, AbortController>()
  /** Responses, which clients wait for. They are sent round-robin while the socket has room, before whole states. */
  readonly #responses: Iterator<Buffer>[] = []
  /** Whole states, one after the other. */
  readonly #states: Iterator<Buffer>[] = []
  #nextId = 1
  #closed: UpstreamError | null = null

  constructor(private readonly options: LinkOptions<Received, Handled>) {
    const { socket } = options
    socket.on('data', (chunk: Buffer) => this.#received(chunk))
    socket.on('drain', () => this.#drained())
    socket.on('error', (error) => this.close(error.message))
    socket.on('close', () => this.close('the other process closed the connection'))
    socket.on('end', () => this.close('the other process closed the connection'))
  }

  /** The bytes that the socket holds. */
  get queuedBytes(): number {
    return this.#closed === null ? this.options.socket.writableLength : 0
  }

  get isClosed(): boolean {
    return this.#closed !== null
  }

  send(message: object): void {
    this.write(encodeFrame(message))
  }

  write(frame: Buffer): void {
    if (this.#closed !== null) return
    this.options.socket.write(frame)
    this.options.onWritten?.()
  }

  /** Sends frames that are produced one by one while the socket has room. */
  sendAll(frames: Iterator<Buffer>): void {
    this.#states.push(frames)
    this.#drained()
  }

  /** Stops sending these frames. */
  drop(frames: Iterator<Buffer>): void {
    const at = this.#states.indexOf(frames)
    if (at !== -1) this.#states.splice(at, 1)
  }

  /** @throws UpstreamError; the signal's reason when it aborts. */
  async request<Name extends keyof Requested>(
    method: Name,
    args: Parameters<Requested[Name]>,
    signal?: AbortSignal,
  ): Promise<ReceivedResponse<ReturnType<Requested[Name]>>> {
    signal?.throwIfAborted()
    if (this.#closed !== null) throw this.#closed
    const id = this.#nextId++
    const response = new Promise<ReceivedResponse<ReturnType<Requested[Name]>>>((resolve, reject) => {
      this.#pending.set(id, { keyValues: [], resolve, reject })
    })
    try {
      this.send({ kind: 'ask', id, method, args })
      return await orAborted(response, signal)
    } finally {
      this.#pending.delete(id)
      if (signal?.aborted === true) this.send({ kind: 'cancel', id })
    }
  }

  /** Fails every open request. */
  fail(error: UpstreamError): void {
    for (const [id, request] of this.#pending) {
      request.reject(error)
      this.send({ kind: 'cancel', id })
    }
  }

  close(reason: string): void {
    if (this.#closed !== null) return
    this.#closed = new UpstreamError('unavailable', reason)
    for (const controller of this.#handling.values()) controller.abort(this.#closed)
    this.fail(this.#closed)
    this.#responses.length = 0
    this.#states.length = 0
    this.options.socket.destroy()
    this.options.onClosed(this.#closed)
  }

  #drained(): void {
    while (this.#closed === null && this.options.socket.writableLength < ROOM_BYTES) {
      const response = this.#responses.shift()
      const frames = response ?? this.#states[0]
      if (frames === undefined) return
      const next = frames.next()
      if (next.done !== true) this.write(next.value)
      if (next.done === true) this.drop(frames)
      else if (response !== undefined) this.#responses.push(response)
    }
  }

  #received(chunk: Buffer): void {
    try {
      this.#frames.push(chunk)
    } catch (error) {
      this.options.onBug(error)
      this.close(`a message could not be processed: ${errorMessage(error)}`)
    }
  }

  #frame(frame: Buffer): void {
    if (this.#closed !== null) return
    const { message, body } = decodeFrame(frame)
    this.#dispatch(message as Received | Call, body)
  }

  #dispatch(message: Received | Call, body: ByteReader): void {
    if (!isCall(message)) return this.options.onMessage(message, body)
    switch (message.kind) {
      case 'ask':
        return void this.#handle(message.id, message.method, message.args)
      case 'cancel':
        return this.#handling.get(message.id)?.abort(new UpstreamError('unavailable', 'given up'))
      case 'part':
        for (const keyValue of readKeyValues(body)) this.#pending.get(message.id)?.keyValues.push(keyValue)
        return
      case 'answer': {
        const request = this.#pending.get(message.id)
        return request?.resolve({ value: message.value as never, keyValues: request.keyValues })
      }
      case 'failed':
        return this.#pending.get(message.id)?.reject(errorOf(message.failure))
      default:
        message satisfies never
    }
  }

  async #handle(id: number, method: string, args: readonly never[]): Promise<void> {
    const controller = new AbortController()
    this.#handling.set(id, controller)
    const { signal } = controller
    const handler = (this.options.handlers as Handlers<Methods>)[method]
    try {
      if (handler === undefined) throw new RangeError(`unknown method ${method}`)
      const { value, keyValues = [] } = await handler(signal, ...args)
      this.#responses.push(this.#responseFrames(id, value, keyValues, signal))
      this.#drained()
    } catch (error) {
      this.#handling.delete(id)
      const isExpected = error instanceof UpstreamError
      if (!isExpected && !signal.aborted) this.options.onBug(error)
      const { code, message, compactRevision } = isExpected
        ? error
        : new UpstreamError('unavailable', errorMessage(error))
      this.send({ kind: 'failed', id, failure: { code, message, compactRevision } satisfies Failure })
    }
  }

  *#responseFrames(
    id: number,
    value: unknown,
    keyValues: Iterable<KeyValue>,
    signal: AbortSignal,
  ): Generator<Buffer, void, void> {
    for (const page of pagesOf(keyValues)) {
      if (signal.aborted) break
      yield encodeFrame({ kind: 'part', id }, (writer) => writeKeyValues(writer, page), bytesOf(page))
    }
    this.#handling.delete(id)
    if (!signal.aborted) yield encodeFrame({ kind: 'answer', id, value })
  }
}

function errorOf({ code, message, compactRevision }: Failure): UpstreamError {
  return new UpstreamError(code, message, compactRevision === null ? {} : { compactRevision })
}

const CALLS: ReadonlySet<string> = new Set<Call['kind']>(['ask', 'cancel', 'part', 'answer', 'failed'])

function isCall(message: { readonly kind: string }): message is Call {
  return CALLS.has(message.kind)
}

/**
 * gRPC over one HTTP/2 stream: messages with their length in front, a deadline, and a status at the end. A stream ends
 * exactly once, and never throws at its peer.
 *
 * Compressed messages are refused, as gRPC allows a server that does not announce any compression.
 *
 * Source: grpc/grpc doc/PROTOCOL-HTTP2.md and doc/compression.md.
 */
import { LARGE_REQUEST_MS, LARGE_RESPONSE_MS, MAX_REQUEST_BYTES, SMALL_REQUEST_BYTES } from './limits.js'
import { MIN_INITIAL_BYTES_PER_SECOND } from '../engine/model/limits.js'
import { messageSplitter } from '../engine/upstream/etcd/grpc-framing.js'
import { RpcStatus } from '../engine/upstream/etcd/rpc-status.js'
import type { Clock, Timer } from '../support/clock.js'
import type { FrameSplitter } from '../support/frame-splitter.js'
import { turns } from '../support/turns.js'
import type { ByteStream } from './byte-stream.js'
import { lengthOf } from './responses.js'
import { deadlineExceeded, EtcdError, etcdErrorOf, requestTooLarge, timedOut } from './etcd-error.js'

/** Parts of a large message are gathered up to this size, because every write has its own cost. */
const PIECE_BYTES = 64 * 1024
const HEAD_BYTES = 5
/** The longest deadline that a timer takes; a later one is none. */
const MAX_TIMER_MS = 2 ** 31 - 1

const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 }

/** For the access log, which has HTTP's codes. */
const HTTP_STATUS: Readonly<Record<number, number>> = {
  [RpcStatus.OK]: 200,
  [RpcStatus.CANCELLED]: 499,
  [RpcStatus.INVALID_ARGUMENT]: 400,
  [RpcStatus.DEADLINE_EXCEEDED]: 504,
  [RpcStatus.NOT_FOUND]: 404,
  [RpcStatus.PERMISSION_DENIED]: 403,
  [RpcStatus.RESOURCE_EXHAUSTED]: 429,
  [RpcStatus.FAILED_PRECONDITION]: 412,
  [RpcStatus.OUT_OF_RANGE]: 410,
  [RpcStatus.UNIMPLEMENTED]: 501,
  [RpcStatus.UNAVAILABLE]: 503,
  [RpcStatus.UNAUTHENTICATED]: 401,
}

const nothing = (): void => {}

export interface CallHandlers {
  onMessage(message: Buffer): void
  onHalfClose(): void
  onDrain(): void
  /** Called once, when the call is over for any reason. */
  onClose(): void
}

export class GrpcCall {
  readonly #stream: ByteStream
  readonly #onEnded: (code: RpcStatus) => void
  readonly #deadline: Timer | null
  readonly #clock: Clock
  readonly #takeRoom: (signal: AbortSignal) => Promise<() => void>
  #handlers: CallHandlers | null = null
  #messages: FrameSplitter | null = null
  #isPaused = false
  /** Whether a large message waits for its slot. */
  #isHeld = false
  /** Gives the slot of a large message back. */
  #received: () => void = nothing
  #isOver = false
  readonly #kept: (() => void)[] = []
  #wakeUp: (() => void) | null = null

  /**
   * @param onEnded called once, with the status.
   * @param takeRoom takes a slot for receiving a large message, and resolves with a function that releases it.
   */
  constructor(
    stream: ByteStream,
    clock: Clock,
    onEnded: (code: RpcStatus) => void,
    takeRoom: (signal: AbortSignal) => Promise<() => void>,
  ) {
    this.#stream = stream
    this.#takeRoom = takeRoom
    this.#clock = clock
    this.#onEnded = onEnded
    const timeoutMs = timeoutOf(stream.header('grpc-timeout'))
    this.#deadline = timeoutMs === null ? null : clock.setTimer(timeoutMs, () => this.fail(deadlineExceeded()))
  }

  get isOver(): boolean {
    return this.#isOver
  }

  get signal(): AbortSignal {
    return this.#stream.signal
  }

  get pendingBytes(): number {
    return this.#stream.pendingBytes
  }

  read(handlers: CallHandlers): void {
    this.#handlers = handlers
    const onMessage = (message: Buffer): void => {
      this.#received()
      if (!this.#isOver) handlers.onMessage(message)
    }
    this.#messages = messageSplitter(MAX_REQUEST_BYTES, onMessage, (length) => {
      if (length > SMALL_REQUEST_BYTES && !this.#isOver) void this.#receiveLarge()
    })
    this.#stream.read({
      onBytes: (bytes) => {
        try {
          this.#messages?.push(bytes)
        } catch (caught) {
          const error = etcdErrorOf(caught)
          if (error.code === RpcStatus.RESOURCE_EXHAUSTED) this.fail(requestTooLarge(caught))
          // A compressed message.
          else if (caught instanceof EtcdError) this.fail(error)
          else this.fail(new EtcdError(RpcStatus.UNIMPLEMENTED, 'grpc: messages must not be compressed'))
        }
      },
      onEnd: () => {
        if (!this.#isOver) handlers.onHalfClose()
      },
      onDrain: () => {
        this.#wakeUp?.()
        if (!this.#isOver) handlers.onDrain()
      },
      onClose: () => this.#close(RpcStatus.CANCELLED),
    })
  }

  /**
   * Receives a large message only with a slot, and within a time. Nobody knows its caller yet, and its length alone
   * makes room for it.
   */
  async #receiveLarge(): Promise<void> {
    let isReceived = false
    let release = nothing
    this.#received = () => {
      isReceived = true
      release()
    }
    this.#isHeld = true
    this.#stream.pause()
    try {
      const leave = await this.#takeRoom(this.signal)
      if (isReceived || this.#isOver) leave()
      else {
        const late = this.#clock.setTimer(LARGE_REQUEST_MS, () => this.fail(timedOut()))
        release = () => {
          late.cancel()
          leave()
        }
      }
      this.#isHeld = false
      if (!this.#isPaused) this.#stream.resume()
    } catch (error) {
      this.fail(etcdErrorOf(error))
    }
  }

  /** Reads the only message of a unary call. Resolves when the client has sent it; never if the call ends before. */
  readOne(): Promise<Buffer> {
    return new Promise((resolve) => {
      let found: Buffer | null = null
      const more = (): void => this.fail(new EtcdError(RpcStatus.INTERNAL, 'cardinality violation'))
      this.read({
        onMessage: (message) => {
          if (found !== null) more()
          found = message
        },
        onHalfClose: () => {
          if (found === null) more()
          else resolve(found)
        },
        onDrain: () => {},
        onClose: () => {},
      })
    })
  }

  /** Keeps what the call holds, until it is over; it may be over already, because admission takes time. */
  keep(release: () => void): void {
    if (this.#isOver) release()
    else this.#kept.push(release)
  }

  pause(): void {
    this.#isPaused = true
    this.#stream.pause()
  }

  resume(): void {
    this.#isPaused = false
    if (!this.#isHeld) this.#stream.resume()
  }

  /** Sends one message. @returns false when the stream is full. */
  send(parts: readonly Uint8Array[]): boolean {
    return this.sendFramed(framed(parts))
  }

  /** Sends a message that `framed` has made. Returns false when the stream is full. */
  sendFramed(message: Buffer): boolean {
    if (this.#isOver) return false
    this.#stream.begin()
    return this.#stream.write(message)
  }

  /**
   * Sends one message that may be large, and waits whenever the stream is full. A client that is too slow is reset.
   * @param parts are taken one by one, as they are sent. @param length of all of them.
   */
  async sendLarge(parts: Iterable<Uint8Array>, length: number): Promise<void> {
    if (length <= PIECE_BYTES) return void this.send([...parts])
    const mostMs = LARGE_RESPONSE_MS + (length / MIN_INITIAL_BYTES_PER_SECOND) * 1_000
    const tooSlow = this.#clock.setTimer(mostMs, () => this.destroy())
    try {
      await this.#sendPieces(parts, length)
    } finally {
      tooSlow.cancel()
    }
  }

  async #sendPieces(parts: Iterable<Uint8Array>, length: number): Promise<void> {
    this.#stream.begin()
    let piece: Uint8Array[] = [headOf(length)]
    let pieceBytes = HEAD_BYTES
    for (const part of parts) {
      // A part may be a whole response of etcd's.
      for (let at = 0; at < part.length; at += PIECE_BYTES) {
        const bytes = part.subarray(at, at + PIECE_BYTES)
        piece.push(bytes)
        pieceBytes += bytes.length
        if (pieceBytes < PIECE_BYTES) continue
        if (turns.isOver) await turns.take()
        await this.#write(Buffer.concat(piece))
        if (this.#isOver) return
        piece = []
        pieceBytes = 0
      }
    }
    if (pieceBytes > 0) await this.#write(Buffer.concat(piece))
  }

  async #write(bytes: Buffer): Promise<void> {
    if (this.#isOver || this.#stream.write(bytes)) return
    await new Promise<void>((resolve) => {
      this.#wakeUp = resolve
    })
    this.#wakeUp = null
  }

  /** Sends the headers before there is a message, so that the client knows that the stream is open. */
  begin(): void {
    if (!this.#isOver) this.#stream.begin()
  }

  succeed(): void {
    this.#finish(RpcStatus.OK, '')
  }

  fail(error: EtcdError): void {
    this.#finish(error.code, error.message)
  }

  /** Resets the stream of a client that has stopped reading. */
  destroy(): void {
    if (!this.#isOver) this.#stream.destroy()
    this.#close(RpcStatus.CANCELLED)
  }

  #finish(code: RpcStatus, message: string): void {
    if (this.#isOver) return
    const text = message === '' ? {} : { 'grpc-message': percentEncoded(message) }
    this.#stream.finish({ 'grpc-status': String(code), ...text }, HTTP_STATUS[code] ?? 500)
    this.#close(code)
  }

  #close(code: RpcStatus): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#deadline?.cancel()
    this.#received()
    // The client may keep its half of the stream open, and with it the beginning of a message.
    this.#messages = null
    this.#wakeUp?.()
    for (const release of this.#kept.splice(0)) release()
    this.#onEnded(code)
    this.#handlers?.onClose()
  }
}

function headOf(length: number): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32BE(length, 1)
  return head
}

/** Returns the message with its length in front. */
export function framed(parts: readonly Uint8Array[]): Buffer {
  return Buffer.concat([headOf(lengthOf(parts)), ...parts])
}

/** Returns milliseconds; null for none, and for a header that cannot be read. */
function timeoutOf(header: string | undefined): number | null {
  const found = /^(\d{1,8})([HMSmun])$/.exec(header ?? '')
  if (found === null) return null
  const ms = Number(found[1]) * UNIT_MS[found[2]!]!
  return ms > MAX_TIMER_MS ? null : Math.max(1, Math.ceil(ms))
}

/** As the header `grpc-message` requires: everything but printable ASCII, and the percent sign. */
function percentEncoded(text: string): string {
  return Array.from(Buffer.from(text, 'utf8'), (byte) =>
    byte >= 0x20 && byte <= 0x7e && byte !== 0x25
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
  ).join('')
}

/**
 * gRPC's messages within an HTTP/2 stream: a byte for the compression flag, which is always 0 here, four bytes of
 * length, and the message.
 *
 * Source: grpc/grpc doc/PROTOCOL-HTTP2.md, "Length-Prefixed-Message".
 */
import { RpcError, RpcStatus } from './rpc-status.js'

const HEAD_BYTES = 5

/** A larger message is sent as a separate piece after its head instead of being copied behind it. */
const MAX_COPIED_BYTES = 64 * 1024

/** Returns the pieces to send for a message, in order. */
export function frameMessage(message: Uint8Array): readonly Uint8Array[] {
  const isCopied = message.length <= MAX_COPIED_BYTES
  const frame = Buffer.allocUnsafe(HEAD_BYTES + (isCopied ? message.length : 0))
  frame[0] = 0
  frame.writeUInt32BE(message.length, 1)
  if (!isCopied) return [frame, message]
  frame.set(message, HEAD_BYTES)
  return [frame]
}

/**
 * Assembles messages from the chunks of a stream. A message within one chunk is a slice of it; any other is copied once
 * into separate memory, whatever the number of chunks.
 */
export class MessageReader {
  readonly #maxBytes: number
  readonly #onMessage: (message: Buffer) => void
  readonly #head = Buffer.alloc(HEAD_BYTES)
  #headBytes = 0
  /** The message being assembled; null between messages. */
  #message: Buffer | null = null
  #messageBytes = 0

  constructor(maxBytes: number, onMessage: (message: Buffer) => void) {
    this.#maxBytes = maxBytes
    this.#onMessage = onMessage
  }

  /** @throws RpcError for a compressed message, or one that is too large, which is not read into memory. */
  take(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#message !== null) {
        at = this.#goOn(this.#message, chunk, at)
      } else if (this.#headBytes === 0 && chunk.length - at >= HEAD_BYTES) {
        const length = this.#lengthIn(chunk, at)
        at = this.#begin(length, chunk, at + HEAD_BYTES)
      } else {
        this.#head[this.#headBytes++] = chunk[at++]!
        if (this.#headBytes < HEAD_BYTES) continue
        this.#headBytes = 0
        at = this.#begin(this.#lengthIn(this.#head, 0), chunk, at)
      }
    }
  }

  #lengthIn(head: Buffer, at: number): number {
    if (head[at] !== 0) throw new RpcError(RpcStatus.INTERNAL, 'received a compressed message')
    const length = head.readUInt32BE(at + 1)
    if (length > this.#maxBytes) {
      const details = `received message larger than max (${length} vs ${this.#maxBytes})`
      throw new RpcError(RpcStatus.RESOURCE_EXHAUSTED, details)
    }
    return length
  }

  #begin(length: number, chunk: Buffer, at: number): number {
    if (chunk.length - at >= length) {
      this.#onMessage(chunk.subarray(at, at + length))
      return at + length
    }
    this.#message = Buffer.allocUnsafeSlow(length)
    this.#messageBytes = 0
    return this.#goOn(this.#message, chunk, at)
  }

  #goOn(message: Buffer, chunk: Buffer, at: number): number {
    const copied = chunk.copy(message, this.#messageBytes, at)
    this.#messageBytes += copied
    if (this.#messageBytes === message.length) {
      this.#message = null
      this.#onMessage(message)
    }
    return at + copied
  }
}

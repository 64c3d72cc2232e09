/**
 * gRPC's messages within an HTTP/2 stream. Each consists of one byte for the compression flag, which is always 0 here,
 * four bytes for the length, and the message itself.
 *
 * Source: grpc/grpc doc/PROTOCOL-HTTP2.md, "Length-Prefixed-Message".
 */
import { FrameSplitter } from '../../../support/frame-splitter.js'
import { RpcError, RpcStatus } from './rpc-status.js'

const HEAD_BYTES = 5

/** A larger message is sent as a separate piece after its head, instead of being copied to the same buffer. */
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
 * Finds the messages in a stream. A message that is too large is not read into memory.
 *
 * @param onBegin called with the length of each message before it is read.
 *
 * The returned splitter's `push` throws RpcError for a message that is compressed or too large.
 */
export function messageSplitter(
  maxBytes: number,
  onMessage: (message: Buffer) => void,
  onBegin: (length: number) => void = () => {},
): FrameSplitter {
  const lengthIn = (head: Buffer, at: number): number => {
    if (head[at] !== 0) throw new RpcError(RpcStatus.INTERNAL, 'received a compressed message')
    const length = head.readUInt32BE(at + 1)
    if (length <= maxBytes) {
      onBegin(length)
      return length
    }
    const details = `received message larger than max (${length} vs ${maxBytes})`
    throw new RpcError(RpcStatus.RESOURCE_EXHAUSTED, details)
  }
  return new FrameSplitter(HEAD_BYTES, lengthIn, onMessage)
}

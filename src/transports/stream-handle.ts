/**
 * Writes to a connected TCP socket by the handle under it, past the work that `socket.write` does per call (a request
 * object, a queue entry, a turn of nextTick): about a seventh of all that a delivery costs.
 *
 * The handle's methods are Node's own, not promised to anybody. Where they do not look as expected, `handleOf` has none to
 * give and the caller writes to the socket, which is always right. Both ways may be used on one socket: below them is one
 * queue, and bytes leave in the order of the calls.
 */
import type { Socket } from 'node:net'

/** One write under way. Node wants a fresh one only for a write that the kernel did not take whole at once. */
interface WriteRequest {
  buffer?: Buffer
  oncomplete?: (status: number) => void
}

export interface StreamHandle {
  /** @returns 0, or the negative code of an error. */
  writeBuffer(request: WriteRequest, bytes: Buffer): number
}

interface StreamBinding {
  readonly WriteWrap: new () => WriteRequest
  /** What the last call left behind: at `kLastWriteWasAsync`, whether its bytes have to wait for the peer. */
  readonly streamBaseState: Int32Array
  readonly kLastWriteWasAsync: number
}

const binding = streamBinding()
const state = binding?.streamBaseState ?? new Int32Array(1)
const asyncAt = binding?.kLastWriteWasAsync ?? 0
let spare: WriteRequest = binding === null ? {} : new binding.WriteWrap()

/** The handle of a plain socket on which nothing is waiting; null: write to the socket itself. */
export function handleOf(socket: Socket): StreamHandle | null {
  if (binding === null || socket.writableLength > 0 || 'encrypted' in socket) return null
  const { _handle: handle } = socket as { _handle?: Partial<StreamHandle> | null }
  return typeof handle?.writeBuffer === 'function' ? (handle as StreamHandle) : null
}

/** `queued`: the kernel has not taken all of it yet; `onTaken` follows, also when it never will. */
export type WriteResult = 'taken' | 'queued' | 'failed'

/** @param bytes not to be changed until they are taken. */
export function writeTo(handle: StreamHandle, bytes: Buffer, onTaken: (status: number) => void): WriteResult {
  const request = spare
  const code = handle.writeBuffer(request, bytes)
  if (code === 0 && state[asyncAt] === 0) return 'taken'
  spare = new binding!.WriteWrap()
  if (code !== 0) return 'failed'
  request.buffer = bytes
  request.oncomplete = onTaken
  return 'queued'
}

function streamBinding(): StreamBinding | null {
  try {
    const node = process as unknown as { binding(name: string): Partial<StreamBinding> }
    const found = node.binding('stream_wrap')
    const isKnown =
      typeof found.WriteWrap === 'function' &&
      found.streamBaseState instanceof Int32Array &&
      Number.isInteger(found.kLastWriteWasAsync)
    return isKnown ? (found as StreamBinding) : null
  } catch {
    return null
  }
}

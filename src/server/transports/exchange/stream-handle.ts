/**
 * Writes to a TCP socket or an HTTP/2 stream through its handle. That skips the per-call work of `stream.write` (a
 * queue, events, a nextTick), which is 13 to 19% of the CPU of a delivery on Node 20 to 26 (bench/README.md). If it falls
 * below a tenth, this file and `check-stream-handles.ts` are no longer worth their upkeep.
 *
 * The handles and their methods are private to Node and may change with any version. So no handle is used until
 * `check-stream-handles.ts` has verified that handles of its kind deliver what was written. Without a handle, the
 * caller writes to the stream, which is always correct. Writes through the handle and through the stream may be mixed,
 * because both share one queue below, and bytes leave in the order of the calls.
 */
import type { ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'

/** The owner of writes that had to wait for the peer. */
export interface WriteOwner {
  /** @param status negative if the bytes were never sent. */
  taken(bytes: Buffer, status: number): void
}

/** One write in progress. Node needs a fresh object for each write that was not taken completely at once. */
interface WriteRequest {
  buffer?: Buffer
  owner?: WriteOwner
  oncomplete?: (this: WriteRequest, status: number) => void
}

export interface StreamHandle {
  /** @returns 0, or a negative error code; undefined when the handle is closed. */
  writeBuffer(request: WriteRequest, bytes: Buffer): number | undefined
}

interface StreamBinding {
  readonly WriteWrap: new () => WriteRequest
  /** State left by the last call; at `kLastWriteWasAsync`: whether its bytes have to wait for the peer. */
  readonly streamBaseState: Int32Array
  readonly kLastWriteWasAsync: number
}

const binding = streamBinding()
const state = binding?.streamBaseState ?? new Int32Array(1)
const asyncAt = binding?.kLastWriteWasAsync ?? 0
let spare: WriteRequest = binding === null ? {} : new binding.WriteWrap()
let http2HandleKey: symbol | undefined

/** The kinds of stream that are written through their handles. */
export interface HandleUse {
  /** TCP sockets without TLS: HTTP/1.1 and WebSocket. */
  readonly sockets: boolean
  /** Streams of HTTP/2, with TLS or without. */
  readonly http2: boolean
}

/** One value for the whole process, because the handles depend only on the Node version. */
let use: HandleUse = { sockets: false, http2: false }

/** Applies to watches that begin afterwards. */
export function setHandleUse(kinds: HandleUse): void {
  use = kinds
}

export function handleUse(): HandleUse {
  return use
}

/**
 * Returns the handle of a plain socket that has no bytes waiting, or of an HTTP/2 stream whose headers have been sent;
 * null when the caller has to write to the stream itself.
 */
export function handleOf(stream: Socket | ServerHttp2Stream): StreamHandle | null {
  if (isHttp2Stream(stream)) return use.http2 ? findHttp2Handle(stream) : null
  return use.sockets ? findSocketHandle(stream) : null
}

export function isHttp2Stream(stream: Socket | ServerHttp2Stream): stream is ServerHttp2Stream {
  return 'respond' in stream
}

/** Like `handleOf`, whether or not this kind is in use. */
export function findSocketHandle(socket: Socket): StreamHandle | null {
  if (socket.writableLength > 0 || 'encrypted' in socket) return null
  return usable((socket as { _handle?: unknown })._handle)
}

/** Like `handleOf`, whether or not this kind is in use. */
export function findHttp2Handle(stream: ServerHttp2Stream): StreamHandle | null {
  if (stream.writableLength > 0 || stream.pending) return null
  http2HandleKey ??= Object.getOwnPropertySymbols(stream).find(({ description }) => description === 'kHandle')
  if (http2HandleKey === undefined) return null
  return usable((stream as unknown as Record<symbol, unknown>)[http2HandleKey])
}

function usable(handle: unknown): StreamHandle | null {
  const { writeBuffer } = (handle ?? {}) as Partial<StreamHandle>
  return binding !== null && typeof writeBuffer === 'function' ? (handle as StreamHandle) : null
}

/**
 * `queued`: the kernel or the HTTP/2 session has not taken all bytes yet. The owner is called once the bytes are taken,
 * or when they never will be.
 */
export type WriteResult = 'taken' | 'queued' | 'failed'

/** @param bytes must not change until they are taken. */
export function writeTo(handle: StreamHandle, bytes: Buffer, owner: WriteOwner): WriteResult {
  const request = spare
  const code = handle.writeBuffer(request, bytes)
  if (code === 0 && state[asyncAt] === 0) return 'taken'
  spare = new binding!.WriteWrap()
  if (code !== 0) return 'failed'
  request.buffer = bytes
  request.owner = owner
  request.oncomplete = complete
  return 'queued'
}

function complete(this: WriteRequest, status: number): void {
  this.owner!.taken(this.buffer!, status)
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

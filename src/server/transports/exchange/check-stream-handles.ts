/**
 * Tests Node's private stream handles before the server relies on them, on a TCP connection over loopback and on an
 * HTTP/2 stream. It writes more through the handle than the peer takes at once, then writes through the stream itself,
 * and compares what arrives with what was written. A kind of stream that fails is written through its public API from
 * then on.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type ServerHttp2Stream, connect as connectHttp2, createServer as createHttp2Server } from 'node:http2'
import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import type { Logger } from '../../../support/log.js'
import { type StreamHandle, findHttp2Handle, findSocketHandle, setHandleUse, writeTo } from './stream-handle.js'
import { errorMessage } from '../../../support/error-message.js'

/** Finds the handles. A test replaces it with one that loses bytes. */
export interface HandleFinders {
  readonly socket: (socket: Socket) => StreamHandle | null
  readonly http2: (stream: ServerHttp2Stream) => StreamHandle | null
}

const nodeHandles: HandleFinders = { socket: findSocketHandle, http2: findHttp2Handle }

/** Why each kind of handle is unusable; null if it works. */
interface HandleProblems {
  readonly sockets: string | null
  readonly http2: string | null
}

/** The handles are tested once per process, even if several servers start in it one after the other. */
let nodeProblems: Promise<HandleProblems> | undefined

/** Loopback takes a few milliseconds; a machine under load may take more. */
const TIMEOUT_MS = 5_000
const PIECE_BYTES = 256 * 1024
/** 32 MiB: far beyond what the kernel buffers for one connection, so that some write must wait. */
const MAX_PIECES = 128

/**
 * Decides how this process writes to its watchers, and logs it if the handles are unusable.
 *
 * @param wanted `--stream-handles`
 */
export async function checkStreamHandles(wanted: boolean, logger: Logger, finders = nodeHandles): Promise<void> {
  setHandleUse({ sockets: false, http2: false })
  if (!wanted) return
  const { sockets, http2 } = await (finders === nodeHandles
    ? (nodeProblems ??= problemsOf(finders))
    : problemsOf(finders))
  setHandleUse({ sockets: sockets === null, http2: http2 === null })
  if (sockets === null && http2 === null) return
  logger.warn({ node: process.version, sockets, http2 }, 'stream handles cannot be used; writing with the public API')
}

async function problemsOf(finders: HandleFinders): Promise<HandleProblems> {
  const [sockets, http2] = await Promise.all([
    problemOf(() => trySocket(finders.socket)),
    problemOf(() => tryHttp2(finders.http2)),
  ])
  return { sockets, http2 }
}

/** Returns null when the trial succeeds. */
async function problemOf(trial: () => Promise<void>): Promise<string | null> {
  try {
    await trial()
    return null
  } catch (error) {
    return errorMessage(error)
  }
}

async function trySocket(find: HandleFinders['socket']): Promise<void> {
  const listener = createServer()
  await withDeadline(async (cleanUp) => {
    cleanUp(() => listener.close())
    const port = await listen(listener)
    const client = connect(port, '127.0.0.1').on('error', () => {})
    cleanUp(() => client.destroy())
    const [server] = (await once(listener, 'connection')) as [Socket]
    cleanUp(() => server.destroy())
    server.on('error', () => {})
    await tryStream(server, find(server), client)
  })
}

async function tryHttp2(find: HandleFinders['http2']): Promise<void> {
  const listener = createHttp2Server()
  await withDeadline(async (cleanUp) => {
    cleanUp(() => listener.close())
    const session = connectHttp2(`http://127.0.0.1:${await listen(listener)}`).on('error', () => {})
    cleanUp(() => session.destroy())
    const request = session.request({ ':path': '/' }).on('error', () => {})
    const [stream] = (await once(listener, 'stream')) as [ServerHttp2Stream]
    stream.on('error', () => {}).respond({ ':status': 200 })
    await tryStream(stream, find(stream), request)
  })
}

/** @throws Error that says what is wrong. */
async function tryStream(stream: Writable, handle: StreamHandle | null, reader: Readable): Promise<void> {
  if (handle === null) throw new Error('there is no handle')
  const random = randomBytes(PIECE_BYTES + MAX_PIECES)
  const written: Buffer[] = []
  let waiting = 0
  const owner = { taken: (_bytes: Buffer, status: number): void => void (waiting -= status === 0 ? 1 : 0) }
  while (waiting < 2) {
    if (written.length === MAX_PIECES) throw new Error('no write was deferred')
    // Every piece begins with a different byte, so that a wrong order is noticed.
    const bytes = random.subarray(written.length, written.length + PIECE_BYTES)
    const result = writeTo(handle, bytes, owner)
    if (result === 'failed') throw new Error('a write failed')
    if (result === 'queued') waiting++
    written.push(bytes)
  }
  const last = Buffer.from('and a write by the stream itself')
  written.push(last)
  stream.end(last)
  await expectBytes(reader, written)
  if (waiting !== 0) throw new Error('the completion of a write was never reported')
}

/** Compares chunk by chunk, because the total is many megabytes. @throws Error when anything else arrives. */
async function expectBytes(reader: Readable, pieces: readonly Buffer[]): Promise<void> {
  let [index, offset] = [0, 0]
  for await (const chunk of reader as AsyncIterable<Buffer>) {
    for (let at = 0; at < chunk.length;) {
      const piece = pieces[index]?.subarray(offset, offset + chunk.length - at) ?? Buffer.alloc(0)
      const isSame = piece.length > 0 && piece.equals(chunk.subarray(at, at + piece.length))
      if (!isSame) throw new Error('the bytes that arrived differ from those written')
      at += piece.length
      offset += piece.length
      if (offset === pieces[index]!.length) [index, offset] = [index + 1, 0]
    }
  }
  if (index !== pieces.length) throw new Error('some of the written bytes never arrived')
}

async function listen(listener: Pick<Server, 'listen' | 'address' | 'once'>): Promise<number> {
  const listening = once(listener as Server, 'listening')
  listener.listen(0, '127.0.0.1')
  await listening
  return (listener.address() as AddressInfo).port
}

/** Runs `work` and then its clean-up steps, latest first, whether it finished or took too long. */
async function withDeadline(work: (cleanUp: (step: () => void) => void) => Promise<void>): Promise<void> {
  const steps: (() => void)[] = []
  let timer: NodeJS.Timeout | undefined
  const timedOut = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing arrived within ${TIMEOUT_MS} ms`)), TIMEOUT_MS)
  })
  try {
    await Promise.race([work((step) => steps.push(step)), timedOut])
  } finally {
    clearTimeout(timer)
    for (const step of steps.reverse()) step()
  }
}

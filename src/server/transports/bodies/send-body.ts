/** Writes a body to one client: a shared body in pieces, at the client's pace; the body of one object as a whole. */
import type { OutgoingHttpHeaders } from 'node:http'
import { promisify } from 'node:util'
import { createGzip, gzip as gzipWhole } from 'node:zlib'
import { acceptsGzip } from '../../../kubernetes/dialect/media-type.js'
import { turns } from '../../../support/turns.js'
import type { BodyCache, BodyUse } from './body-cache.js'
import type { Exchange } from '../exchange/exchange.js'
import type { BodyReader, Pieces, SharedBody } from './shared-body.js'

/** The API server compresses larger bodies; below this the network is cheaper than the CPU. */
const GZIP_ABOVE_BYTES = 128 * 1024
/**
 * The level that the API server uses. The result is nearly as small as with the default level, in a fraction of the
 * time.
 */
const GZIP_LEVEL = 1

export interface BodyResponse {
  readonly contentType: string
  readonly acceptsGzip: boolean
  readonly headers: OutgoingHttpHeaders
}

/**
 * Sends the body and releases it.
 * @returns bytes of the body before compression.
 * @throws any error of the body's source that occurs before the headers are sent.
 */
export async function sendBody(
  exchange: Exchange,
  cache: BodyCache,
  key: string,
  use: BodyUse,
  response: BodyResponse,
): Promise<number> {
  try {
    const first = await use.body.piece(0)
    const second = first === undefined ? undefined : await use.body.piece(1)
    if (exchange.isGone) return 0
    const { headers } = response
    const isLarge = second !== undefined || (first?.length ?? 0) > GZIP_ABOVE_BYTES
    if (!isLarge) {
      const body = first ?? Buffer.alloc(0)
      exchange.send(200, response.contentType, body, headers)
      return body.length
    }
    if (exchange.isHead) {
      const encoding = response.acceptsGzip ? { 'content-encoding': 'gzip' } : {}
      exchange.writeHead(200, { 'content-type': response.contentType, ...encoding, ...headers })
      exchange.end()
      return 0
    }
    if (!response.acceptsGzip) {
      exchange.writeHead(200, { 'content-type': response.contentType, ...headers })
      await writePieces(exchange, use.body)
      return use.body.bytes
    }
    const gzipped = cache.useDerived(`${key}\ngzip`, () => gzip(use.shared))
    try {
      exchange.writeHead(200, { 'content-type': response.contentType, 'content-encoding': 'gzip', ...headers })
      await writePieces(exchange, gzipped.body)
    } finally {
      gzipped.release()
    }
    return use.body.bytes
  } finally {
    use.release()
  }
}

/** Compresses in a thread. */
const gzipInThread = promisify(gzipWhole)

/**
 * Sends one object, compressed if it is large and the client accepts gzip. If caches may keep the response, the caller
 * must set `Vary`.
 */
export async function sendObject(
  exchange: Exchange,
  code: number,
  contentType: string,
  body: Buffer,
  headers: OutgoingHttpHeaders = {},
): Promise<void> {
  if (body.length <= GZIP_ABOVE_BYTES || !acceptsGzip(exchange.requestHeaders['accept-encoding'])) {
    return exchange.send(code, contentType, body, headers)
  }
  const bytes = await gzipInThread(body, { level: GZIP_LEVEL })
  exchange.send(code, contentType, bytes, { ...headers, 'content-encoding': 'gzip' })
}

/**
 * Sends an unshared body at the client's pace, yielding to the event loop.
 * @throws any error of the source that occurs before the headers are sent.
 */
export async function sendPieces(exchange: Exchange, code: number, contentType: string, source: Pieces): Promise<void> {
  const first = await nextPiece(source)
  const second = first === undefined ? undefined : await nextPiece(source)
  if (second === undefined) return exchange.send(code, contentType, first ?? Buffer.alloc(0))
  if (exchange.isGone) return
  const { response } = exchange
  exchange.writeHead(code, { 'content-type': contentType })
  response.write(first)
  for (let piece: Buffer | undefined = second; piece !== undefined; piece = await nextPiece(source)) {
    if (exchange.isGone) return
    if (!response.write(piece) && exchange.needsDrain) await roomOrEnd(response)
  }
  if (!exchange.isGone) exchange.end()
}

async function nextPiece(source: Pieces): Promise<Buffer | undefined> {
  for (;;) {
    if (turns.isOver) await turns.take()
    const next = await source.next()
    if (next.done) return undefined
    if (next.value !== null) return next.value
    await turns.take()
  }
}

async function writePieces(exchange: Exchange, body: BodyReader): Promise<void> {
  const { response } = exchange
  for (let i = 0; !exchange.isGone; i++) {
    const next = body.piece(i)
    const piece = next instanceof Promise ? await next : next
    if (piece === undefined) break
    const hasRoom = response.write(piece)
    if (!hasRoom && exchange.needsDrain) await roomOrEnd(response)
    else if (turns.isOver) await turns.take()
  }
  if (!exchange.isGone) exchange.end()
}

/** Compresses with a separate reader, because the first client may leave before the last. */
function gzip(shared: SharedBody): AsyncGenerator<Buffer, void, void> {
  return gzipped(shared.open())
}

async function* gzipped(body: ReturnType<SharedBody['open']>): AsyncGenerator<Buffer, void, void> {
  const stream = createGzip({ level: GZIP_LEVEL, chunkSize: 64 * 1024 })
  const feeding = feed(body, stream)
  try {
    for await (const chunk of stream) yield chunk as Buffer
  } finally {
    stream.destroy()
    await feeding.catch(() => {})
    body.close()
  }
}

async function feed(body: BodyReader, stream: ReturnType<typeof createGzip>): Promise<void> {
  try {
    for (let i = 0; !stream.destroyed; i++) {
      const piece = await body.piece(i)
      if (piece === undefined) break
      if (!stream.write(piece)) await roomOrEnd(stream)
    }
    stream.end()
  } catch (error) {
    stream.destroy(error instanceof Error ? error : new Error(String(error)))
  }
}

/** Resolves when the stream can take more, or when it has closed. */
async function roomOrEnd(stream: NodeJS.EventEmitter): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      stream.off('drain', done)
      stream.off('close', done)
      resolve()
    }
    stream.on('drain', done)
    stream.on('close', done)
  })
}

/**
 * Reads of etcd through the publisher, for edges that have no route to etcd and whose cache cannot answer.
 *
 * Each request is for one page, one key or one revision, so the publisher keeps no state between two requests. It reads
 * only keys of its resource, and only a few pages at a time. Further requests wait for their turn, or until their edges
 * give up.
 *
 * A signed response is valid only for its own request, and no two requests are the same.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { Key, KeyValue } from '../../engine/model/event.js'
import { type Revision, toRevision } from '../../engine/model/revision.js'
import {
  type Page,
  type ReadOptions,
  type StateReader,
  UpstreamError,
  type UpstreamErrorCode,
} from '../../engine/upstream/upstream.js'
import { Semaphore } from '../../support/semaphore.js'
import { ByteReader, ByteWriter } from '../byte-codec.js'
import { readKeyValue, readKeyValues, writeKeyValue, writeKeyValues } from '../key-value-codec.js'
import { type Broker, BrokerError } from '../broker.js'
import type { Envelope } from './signed-envelope.js'
import { PAGES_AT_ONCE } from '../limits.js'

/**
 * A request from an edge that gets no reply. `progress` asks for etcd's progress in the stream, `snapshot` for a
 * snapshot soon, and `word` for the publisher's status now instead of at the next second. The request may be lost, so
 * the edge repeats it.
 */
export type OneWayRequest = 'progress' | 'snapshot' | 'word'

type EdgeRequest =
  | {
      readonly kind: 'page'
      readonly startKey: string | null
      readonly revision: number | null
      readonly limit: number | null
      readonly keysOnly: boolean
    }
  | { readonly kind: 'key'; readonly key: string; readonly revision: number | null }
  | { readonly kind: 'revision' }
  | { readonly kind: OneWayRequest }

export interface EdgeHandlerOptions {
  readonly upstream: StateReader
  readonly prefix: Key
  readonly envelope: Envelope
  /** The most bytes in one message; a response may take several messages. */
  readonly maxBytes: number
  readonly onOneWay: Readonly<Record<OneWayRequest, () => void>>
}

const OK = 1
const FAILED = 0
const REQUEST_TIMEOUT_MS = 5_000
const HANDLER_TIMEOUT_MS = 10_000
/** The largest page that a publisher holds for an edge. */
const MOST_KEYS = 1_000
const MOST_PAGE_BYTES = 8 * 2 ** 20
/**
 * The values of one response are sent in at most this many messages, because the client rejects replies with many more.
 */
const MOST_PARTS = 200

/** @returns a function that answers a request, with null if this fleet has not signed the request. */
export function edgeRequestHandler(options: EdgeHandlerOptions): (request: Buffer) => Promise<Buffer | null> {
  const { envelope } = options
  const pages = new Semaphore(PAGES_AT_ONCE)
  return async (sealed) => {
    const request = envelope.open('question', '', sealed)
    if (request === null) return null
    return envelope.seal('answer', placeOf(sealed), await responseBytes(request, options, pages))
  }
}

/** The place under which a response is signed, which identifies its request. */
function placeOf(request: Buffer): string {
  return createHash('sha256').update(request).digest('hex')
}

async function responseBytes(request: Buffer, options: EdgeHandlerOptions, pages: Semaphore): Promise<Buffer> {
  const writer = new ByteWriter()
  try {
    const writeResponse = await handle(JSON.parse(request.toString('utf8')) as EdgeRequest, options, pages)
    writer.byte(OK)
    writeResponse(writer)
    return writer.done()
  } catch (error) {
    const failed = new ByteWriter().byte(FAILED)
    writeFailure(failed, error instanceof UpstreamError ? error : new UpstreamError('protocol', String(error)))
    return failed.done()
  }
}

async function handle(
  request: EdgeRequest,
  options: EdgeHandlerOptions,
  pages: Semaphore,
): Promise<(writer: ByteWriter) => void> {
  const { upstream, prefix } = options
  const signal = AbortSignal.timeout(HANDLER_TIMEOUT_MS)
  switch (request.kind) {
    case 'page': {
      if (request.startKey !== null && !request.startKey.startsWith(prefix)) {
        throw new UpstreamError('protocol', 'the key does not belong to this resource')
      }
      const release = await pages.acquire(signal)
      try {
        const page = await readPage(request, options, signal)
        return (writer) => writePage(writer, page)
      } finally {
        release()
      }
    }
    case 'key': {
      const { key, revision } = request
      if (!key.startsWith(prefix)) throw new UpstreamError('protocol', 'the key does not belong to this resource')
      const at = revision === null ? {} : { revision: toRevision(revision) }
      const found = await upstream.readKey(key as Key, { signal, ...at })
      return (writer) => {
        writer.byte(found === null ? 0 : 1)
        if (found !== null) writeKeyValue(writer, found)
      }
    }
    case 'revision': {
      const revision = await upstream.currentRevision(signal)
      return (writer) => writer.number(revision)
    }
    case 'progress':
    case 'snapshot':
    case 'word':
      options.onOneWay[request.kind]()
      return () => {}
    default:
      throw new UpstreamError('protocol', 'unknown kind of request')
  }
}

async function readPage(
  { startKey, revision, limit, keysOnly }: Extract<EdgeRequest, { kind: 'page' }>,
  { upstream, prefix, maxBytes }: EdgeHandlerOptions,
  signal: AbortSignal,
): Promise<Page> {
  const page = await upstream.read({
    prefix,
    limit: Math.min(limit ?? MOST_KEYS, MOST_KEYS),
    keysOnly,
    signal,
    ...(startKey === null ? {} : { startKey: startKey as Key }),
    ...(revision === null ? {} : { revision: toRevision(revision) }),
  })
  return cutPage(page, Math.min(MOST_PAGE_BYTES, maxBytes * MOST_PARTS))
}

/** Shortens a page that is too large, but keeps at least one key-value. The caller continues after its last key. */
function cutPage(page: Page, maxBytes: number): Page {
  let bytes = 0
  const most = page.keyValues.findIndex(({ key, value }, i) => {
    bytes += key.length + value.length
    return i > 0 && bytes > maxBytes
  })
  return most === -1 ? page : { ...page, keyValues: page.keyValues.slice(0, most), more: true }
}

function writePage(writer: ByteWriter, { revision, currentRevision, keyValues, more, count }: Page): void {
  writer.number(revision)
  writer.number(currentRevision)
  writer.byte(more ? 1 : 0)
  writer.number(count)
  writeKeyValues(writer, keyValues)
}

function writeFailure(writer: ByteWriter, { code, message, compactRevision }: UpstreamError): void {
  writer
    .text(code)
    .text(message)
    .number(compactRevision ?? -1)
}

/** @throws RangeError */
function readFailure(reader: ByteReader): UpstreamError {
  const code = reader.text() as UpstreamErrorCode
  const message = reader.text()
  const compactRevision = reader.number()
  return new UpstreamError(code, message, compactRevision < 0 ? {} : { compactRevision: toRevision(compactRevision) })
}

/** Reads etcd through the publisher. */
export class RemoteReader implements StateReader {
  /** @param client returns the connection; null while there is none. */
  constructor(
    private readonly client: () => Broker | null,
    private readonly subject: string,
    private readonly envelope: Envelope,
  ) {}

  async read({ startKey, revision, limit, keysOnly, signal }: ReadOptions): Promise<Page> {
    const request: EdgeRequest = {
      kind: 'page',
      startKey: startKey ?? null,
      revision: revision ?? null,
      limit: limit ?? null,
      keysOnly: keysOnly ?? false,
    }
    return this.#request(request, signal, (reader) => ({
      revision: toRevision(reader.number()),
      currentRevision: toRevision(reader.number()),
      more: reader.byte() === 1,
      count: reader.number(),
      keyValues: readKeyValues(reader),
    }))
  }

  async readKey(key: Key, options: { revision?: Revision; signal?: AbortSignal } = {}): Promise<KeyValue | null> {
    return this.#request({ kind: 'key', key, revision: options.revision ?? null }, options.signal, (reader) =>
      reader.byte() === 0 ? null : readKeyValue(reader),
    )
  }

  async currentRevision(signal?: AbortSignal): Promise<Revision> {
    return this.#request({ kind: 'revision' }, signal, (reader) => toRevision(reader.number()))
  }

  sendOneWay(kind: OneWayRequest): void {
    this.client()?.publish(this.subject, this.#bytesOf({ kind }))
  }

  #bytesOf(request: EdgeRequest): Buffer {
    const unique = this.envelope.isSigning ? { ...request, nonce: randomBytes(12).toString('base64') } : request
    return this.envelope.seal('question', '', Buffer.from(JSON.stringify(unique)))
  }

  /** @throws UpstreamError; the signal's reason. */
  async #request<T>(
    request: EdgeRequest,
    signal: AbortSignal | undefined,
    read: (reader: ByteReader) => T,
  ): Promise<T> {
    const client = this.client()
    if (client === null) throw new UpstreamError('unavailable', 'not connected to NATS')
    const sealed = this.#bytesOf(request)
    let response: Buffer | null
    try {
      response = this.envelope.open(
        'answer',
        placeOf(sealed),
        await client.request(this.subject, sealed, REQUEST_TIMEOUT_MS, signal),
      )
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error
      throw new UpstreamError('unavailable', `the publisher: ${error.message}`, { cause: error })
    }
    if (response === null)
      throw new UpstreamError('unavailable', 'the publisher: its answer is not signed by this fleet')
    try {
      const reader = new ByteReader(response, 'copied')
      if (reader.byte() === OK) return read(reader)
      throw readFailure(reader)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      throw new UpstreamError('protocol', `the publisher's answer cannot be read: ${error.message}`, { cause: error })
    }
  }
}

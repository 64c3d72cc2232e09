/**
 * Reads a whole prefix at one revision, for lists, comparisons and consistency checks. If the source supports streams
 * (etcd from 3.7 on), everything after the first page comes as one stream, because for every page etcd would count all
 * remaining keys.
 */
import { type Key, keyToText, type KeyValue } from '../model/event.js'
import type { KeysSummary, StateAtRevision } from '../model/freshness-source.js'
import type { Revision } from '../model/revision.js'
import { sleep, type Clock } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { beginSpan, failSpan } from '../../support/tracing.js'
import { UpstreamError, type Page, type StreamPart, type StateReader } from '../upstream/upstream.js'
import { errorMessage } from '../../support/error-message.js'

export interface PagesOptions {
  readonly upstream: StateReader
  readonly prefix: Key
  /** null means a linearizable read of the first page; the other pages use the revision of the first. */
  readonly revision: Revision | null
  readonly keysOnly?: boolean
  /** As in `ReadOptions`. */
  readonly willWatch?: boolean
  /** The most keys in the first page. */
  readonly firstKeys?: number
  /** Called when the first page is not the last. The next one is read when its promise resolves. */
  readonly beforeMore?: () => Promise<void>
  readonly clock: Clock
  readonly signal?: AbortSignal | undefined
}

/** The most keys in a page. A source chooses smaller pages itself when values are large. */
const PAGE_KEYS = 10_000
/** The time limit of one read. */
export const READ_TIMEOUT_MS = 15_000

/** @throws UpstreamError `unavailable` when a read takes too long; the signal's reason when it aborts. */
export function readInTime<T>(
  clock: Clock,
  signal: AbortSignal | undefined,
  read: (signal: AbortSignal) => Promise<T>,
  timeoutMs = READ_TIMEOUT_MS,
): Promise<T> {
  const late = (): Error => new UpstreamError('unavailable', `no answer to a read within ${timeoutMs} ms`)
  return withDeadline(clock, timeoutMs, signal, late, read)
}

/**
 * Yields consecutive pages of one revision, at least one. While the caller works on a page, the next page is read, but
 * no more than that.
 *
 * @throws UpstreamError, or the signal's reason.
 */
export async function* readPages(options: PagesOptions): AsyncGenerator<Page, void, undefined> {
  const { prefix } = options
  let revision = options.revision
  let pages = 0
  let keys = 0
  let lastKey = '' as Key
  const about = { 'distributary.prefix': keyToText(prefix) }
  const span = beginSpan('upstream list', { kind: 'client', attributes: about })
  const done = new AbortController()
  // Not `AbortSignal.any`: on Node 20 each call leaves something behind with a signal that lives long.
  const onAbort = (): void => done.abort(options.signal?.reason)
  options.signal?.addEventListener('abort', onAbort, { once: true })
  if (options.signal?.aborted === true) onAbort()
  const reader = new PageReader(options, done.signal)
  try {
    let ahead: Promise<Page> | null = reader.first(revision)
    while (ahead !== null) {
      const page: Page = await ahead
      if ((revision !== null && page.revision !== revision) || (page.more && page.keyValues.length === 0)) {
        throw new UpstreamError(
          'protocol',
          `unexpected page at revision ${page.revision}, with ${page.count} keys remaining`,
        )
      }
      const { keyValues } = page
      if (keyValues.length > 0 && keyValues[0]!.key <= lastKey) {
        throw new UpstreamError(
          'protocol',
          `a page begins with ${keyToText(keyValues[0]!.key)}, which does not follow the previous page`,
        )
      }
      lastKey = keyValues.at(-1)?.key ?? lastKey
      pages++
      keys += keyValues.length
      revision = page.revision
      ahead = page.more ? reader.after(page) : null
      ahead?.catch(noop) // thrown when this page's turn comes
      yield page
    }
  } catch (error) {
    failSpan(span, errorMessage(error))
    throw error
  } finally {
    options.signal?.removeEventListener('abort', onAbort)
    done.abort(new UpstreamError('unavailable', 'given up'))
    span.setAttributes({
      'distributary.keys': keys,
      'distributary.pages': pages,
      'distributary.keys_only': options.keysOnly === true,
      'distributary.resource_version': revision ?? undefined,
    })
    span.end()
  }
}

/**
 * How many streams one list may use. After a broken stream, the list continues with a page, and then with another
 * stream.
 */
const MAX_STREAMS = 3
/** Milliseconds between two attempts to continue. */
const RETRY_MS = 100

interface Place {
  readonly startKey?: Key
  readonly revision?: Revision
}

interface OpenStream {
  readonly parts: AsyncIterator<StreamPart, void>
  readonly abort: AbortController
}

class PageReader {
  readonly #options: PagesOptions
  readonly #signal: AbortSignal
  #stream: OpenStream | null = null
  #streamsLeft = MAX_STREAMS
  #beforeMore: (() => Promise<void>) | undefined

  constructor(options: PagesOptions, signal: AbortSignal) {
    this.#options = options
    this.#signal = signal
    this.#beforeMore = options.beforeMore
  }

  /** @param revision null for the current revision. */
  first(revision: Revision | null): Promise<Page> {
    return this.#page(revision === null ? {} : { revision })
  }

  /** Continues after a page that has keys. */
  async after(page: Page): Promise<Page> {
    const { revision } = page
    await this.#beforeMore?.()
    this.#beforeMore = undefined
    const startKey = (page.keyValues.at(-1)!.key + '\0') as Key
    const stream = (this.#stream ??= this.#open(startKey, revision))
    if (stream === null) return this.#page({ startKey, revision })
    try {
      const { value: part } = await this.#inTime(() => stream.parts.next())
      if (!part) throw new UpstreamError('protocol', 'a stream ended before its last part')
      return { ...page, keyValues: part.keyValues, more: part.more, count: page.count - page.keyValues.length }
    } catch (error) {
      this.#signal.throwIfAborted()
      stream.abort.abort(error)
      this.#stream = null
      return this.#continue({ startKey, revision })
    }
  }

  #open(startKey: Key, revision: Revision): OpenStream | null {
    const { upstream, prefix, keysOnly = false } = this.#options
    if (this.#streamsLeft === 0) return null
    const abort = new AbortController()
    const signal = AbortSignal.any([this.#signal, abort.signal])
    const parts = upstream.stream?.({ prefix, startKey, revision, keysOnly, signal }) ?? null
    if (parts === null) return null
    this.#streamsLeft--
    return { parts, abort }
  }

  #page(place: Place): Promise<Page> {
    return this.#inTime((signal) => this.#read(place, signal))
  }

  /**
   * Retries until the source can be reached, for as long as a page may take. The stream may have broken because the
   * source is restarting.
   */
  #continue(place: Place): Promise<Page> {
    return this.#inTime(async (signal) => {
      for (;;) {
        try {
          return await this.#read(place, signal)
        } catch (error) {
          if (signal.aborted || !(error instanceof UpstreamError) || error.code !== 'unavailable') throw error
        }
        await sleep(this.#options.clock, RETRY_MS, signal)
      }
    })
  }

  #read(place: Place, signal: AbortSignal): Promise<Page> {
    const { upstream, prefix, keysOnly = false, willWatch = false, firstKeys = PAGE_KEYS } = this.#options
    const limit = place.startKey === undefined ? firstKeys : PAGE_KEYS
    return upstream.read({ prefix, limit, keysOnly, willWatch, signal, ...place })
  }

  #inTime<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return readInTime(this.#options.clock, this.#signal, work)
  }
}

function noop(): void {}

/** Returns all pages as one. */
export async function readState(options: PagesOptions): Promise<StateAtRevision> {
  const keyValues: KeyValue[] = []
  let { revision } = options
  for await (const page of readPages(options)) {
    revision = page.revision
    for (const keyValue of page.keyValues) keyValues.push(keyValue)
  }
  if (revision === null) throw new UpstreamError('protocol', 'the list ended without a page')
  return { revision, keyValues }
}

/** Returns the number of keys and the newest change among them, at one revision. */
export async function summariseKeys(options: PagesOptions): Promise<KeysSummary> {
  let revision: Revision | null = null
  let count = 0
  let maxModRevision = 0
  for await (const page of readPages({ ...options, keysOnly: true })) {
    revision = page.revision
    count += page.keyValues.length
    for (const { modRevision } of page.keyValues) if (modRevision > maxModRevision) maxModRevision = modRevision
  }
  if (revision === null) throw new UpstreamError('protocol', 'the list ended without a page')
  return { revision, count, maxModRevision }
}

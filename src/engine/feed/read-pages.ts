/** Reads a whole prefix at one revision, page by page: for lists, comparisons and consistency checks. */
import { type Key, keyToText, type KeyValue } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { Clock } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { beginSpan } from '../../support/tracing.js'
import { UpstreamError, type Page, type UpstreamReader } from '../upstream/upstream.js'
import { errorMessage } from '../../support/error-message.js'

export interface PagesOptions {
  readonly upstream: UpstreamReader
  readonly prefix: Key
  /** null means a linearizable read: the other pages use the revision of the first one. */
  readonly revision: Revision | null
  readonly keysOnly?: boolean
  /** As in `ReadOptions`. */
  readonly willWatch?: boolean
  /** The most keys in a page. */
  readonly pageKeys: number
  /** The time limit of each page. */
  readonly pageTimeoutMs: number
  readonly clock: Clock
  readonly signal?: AbortSignal
}

/**
 * Yields consecutive pages of one revision, at least one. While the caller works on a page, the next one is read: at
 * most one is ahead.
 *
 * @throws UpstreamError, or the signal's reason.
 */
export async function* readPages(options: PagesOptions): AsyncGenerator<Page, void, undefined> {
  const { prefix } = options
  let revision = options.revision
  let pages = 0
  let keys = 0
  const about = { 'distributary.prefix': keyToText(prefix) }
  const span = beginSpan('upstream list', { kind: 'client', attributes: about })
  const done = new AbortController()
  const signal = options.signal === undefined ? done.signal : AbortSignal.any([options.signal, done.signal])
  try {
    let ahead: Promise<Page> | null = readPage(options, { revision, startKey: null, signal })
    while (ahead !== null) {
      const page: Page = await ahead
      const last: KeyValue | undefined = page.keyValues.at(-1)
      if ((revision !== null && page.revision !== revision) || (page.more && last === undefined)) {
        throw new UpstreamError(
          'protocol',
          `a page at revision ${page.revision}, ${page.count} keys to come, is not as asked`,
        )
      }
      pages++
      keys += page.keyValues.length
      revision = page.revision
      ahead = null
      if (page.more && last !== undefined) {
        ahead = readPage(options, { revision, startKey: (last.key + '\0') as Key, signal })
        ahead.catch(noop) // thrown when this page's turn comes
      }
      yield page
    }
  } catch (error) {
    span.fail(errorMessage(error))
    throw error
  } finally {
    done.abort(new UpstreamError('unavailable', 'given up'))
    span.note({
      'distributary.keys': keys,
      'distributary.pages': pages,
      'distributary.keys_only': options.keysOnly === true,
      ...(revision === null ? {} : { 'distributary.resource_version': revision }),
    })
    span.end()
  }
}

/** Where a page begins; null for the first key at the present revision. */
interface PagePlace {
  readonly revision: Revision | null
  readonly startKey: Key | null
  readonly signal: AbortSignal
}

function readPage(options: PagesOptions, { revision, startKey, signal: given }: PagePlace): Promise<Page> {
  const { upstream, prefix, clock, pageTimeoutMs, pageKeys: limit, keysOnly, willWatch } = options
  const onTimeout = (): Error => new UpstreamError('unavailable', `no answer to a read within ${pageTimeoutMs} ms`)
  return withDeadline(clock, pageTimeoutMs, given, onTimeout, (signal) =>
    upstream.read({
      prefix,
      limit,
      signal,
      ...(startKey === null ? {} : { startKey }),
      ...(revision === null ? {} : { revision }),
      ...(keysOnly === true ? { keysOnly: true } : {}),
      ...(willWatch === true ? { willWatch: true } : {}),
    }),
  )
}

function noop(): void {}

export interface KeysSummary {
  readonly revision: Revision
  readonly count: number
  /** The highest mod revision of the present keys; 0 when there are none. */
  readonly maxModRevision: number
}

/**
 * Returns the number of keys and the newest change among them, at one revision. Two such summaries of one history show
 * whether the state is the same: an earlier state that has seen `maxModRevision` contains every key of the later one
 * unchanged, so with the same count it contains no other.
 */
export async function summariseKeys(options: PagesOptions): Promise<KeysSummary> {
  let revision: Revision | null = null
  let count = 0
  let maxModRevision = 0
  for await (const page of readPages({ ...options, keysOnly: true })) {
    revision = page.revision
    count += page.keyValues.length
    for (const { modRevision } of page.keyValues) if (modRevision > maxModRevision) maxModRevision = modRevision
  }
  if (revision === null) throw new UpstreamError('protocol', 'a list without a page')
  return { revision, count, maxModRevision }
}

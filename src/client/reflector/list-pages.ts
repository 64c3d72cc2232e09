/**
 * Reads a whole list in pages. When a page token expires before the last page, the pages read so far belong to a state
 * that the server no longer has. The list is then requested again in one piece, as in client-go's pager.
 */
import { WatchFailure } from './watch-failure.js'
import type { ObjectCodec } from './object-codec.js'
import { listQuery, type Selection } from './requests.js'
import type { Transport, TransportResponse } from './transport.js'
import { orAborted } from '../../support/deadline.js'
import { isObject } from '../../support/fields.js'
import { readBytes } from '../../support/read-bytes.js'

/** What `listPages` lists, and how. */
export interface ListOptions<T> {
  readonly transport: Transport
  readonly selection: Selection
  readonly codec: ObjectCodec<T>
  /** '' for the most recent state, '0' for any. */
  readonly resourceVersion: string
  /**
   * The number of items per page; 0 means all in one response. A list at any resourceVersion except '' and '0' is also
   * read in one response. With a limit, the resourceVersion would mean "exactly" instead of "not older than", and the
   * client would never get a newer state.
   */
  readonly pageSize: number
  readonly signal: AbortSignal
  /** Called when a response begins and with each page, for deadlines and progress bars. */
  readonly onPage?: (items: number, remaining: number | null) => void
}

/** A list of all pages. */
export interface WholeList<T> {
  readonly resourceVersion: string
  readonly items: T[]
}

const MAX_LIST_BYTES = 2 ** 30
const MAX_ERROR_BYTES = 2 ** 20

/** @throws WatchFailure; the signal's reason */
export async function listPages<T>(options: ListOptions<T>): Promise<WholeList<T>> {
  const { codec, onPage } = options
  const items: T[] = []
  let continueToken = ''
  for (;;) {
    let page
    try {
      page = codec.decodeList(await orAborted(readPage(options, continueToken), options.signal))
    } catch (error) {
      const failure = WatchFailure.from(error)
      if (failure.kind !== 'expired' || continueToken === '') throw failure
      return listPages({ ...options, resourceVersion: '', pageSize: 0 })
    }
    // A page may have more items than a call can have arguments, so `push(...)` cannot be used.
    for (const item of page.items) items.push(item)
    onPage?.(items.length, null)
    continueToken = page.continueToken
    if (continueToken === '') return { resourceVersion: page.resourceVersion, items }
  }
}

async function readPage<T>(options: ListOptions<T>, continueToken: string): Promise<Uint8Array> {
  const { transport, selection, codec, resourceVersion, signal } = options
  const pageSize = resourceVersion === '' || resourceVersion === '0' ? options.pageSize : 0
  const response = await transport.send({
    path: selection.path,
    query: listQuery(selection, resourceVersion, pageSize, continueToken),
    accept: codec.accept ?? 'application/json',
    signal,
  })
  if (response.status !== 200) throw await failureOf(response)
  return readBytes(response.body, MAX_LIST_BYTES)
}

/** Returns the failure for a response other than 200. If the body is a Status, the failure is read from it. */
export async function failureOf(response: TransportResponse): Promise<WatchFailure> {
  const { status: code } = response
  const retryAfter = response.header('retry-after')
  let text = ''
  try {
    text = new TextDecoder().decode(await readBytes(response.body, MAX_ERROR_BYTES))
    const status = JSON.parse(text) as unknown
    if (isObject(status)) return WatchFailure.fromStatus({ ...status, code }, code, retryAfter)
  } catch {
    // The body is a proxy's page, or was cut off, so only the code is used.
  }
  const [line = ''] = text.split('\n', 1)
  return WatchFailure.fromStatus({ message: `status ${code}: ${line.slice(0, 200)}`, code }, code, retryAfter)
}

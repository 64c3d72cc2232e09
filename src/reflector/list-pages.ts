/**
 * A whole list, in pages. A page token that expires under way means that the pages before it are of a state that the
 * server no longer has: the list starts again, in one piece, as client-go's pager does.
 */
import { WatchFailure, type StatusLike } from './failure.js'
import type { ObjectCodec } from './object-codec.js'
import { listQuery, type Selection } from './requests.js'
import { readBody, type Transport, type TransportResponse } from './transport.js'

export interface ListOptions<T> {
  readonly transport: Transport
  readonly selection: Selection
  readonly codec: ObjectCodec<T>
  /** '' for the most recent, '0' for any. */
  readonly resourceVersion: string
  /**
   * 0: all in one answer, as is a list at any resourceVersion but '' and '0': with a limit, that would mean "exactly" and
   * no longer "not older than", and a client would never get beyond what it has.
   */
  readonly pageSize: number
  readonly signal: AbortSignal
  /** Called when an answer begins and with each page: for deadlines and progress bars. */
  readonly onPage?: (items: number, remaining: number | null) => void
}

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
      page = codec.decodeList(await readPage(options, continueToken))
    } catch (error) {
      const failure = WatchFailure.from(error)
      if (failure.kind !== 'expired' || continueToken === '') throw failure
      return listPages({ ...options, resourceVersion: '', pageSize: 0 })
    }
    // Not `push(...)`: a page in one answer may have more items than a call may have arguments.
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
  return readBody(response, MAX_LIST_BYTES)
}

/** The failure that an answer other than 200 stands for, read from its body where that is a Status. */
export async function failureOf(response: TransportResponse): Promise<WatchFailure> {
  const { status: code } = response
  const retryAfter = response.header('retry-after')
  let text = ''
  try {
    text = new TextDecoder().decode(await readBody(response, MAX_ERROR_BYTES))
    const status = JSON.parse(text) as StatusLike | null
    if (typeof status === 'object' && status !== null)
      return WatchFailure.fromStatus({ ...status, code }, code, retryAfter)
  } catch {
    // A proxy's page, or a body that broke off: the code says enough.
  }
  const [line = ''] = text.split('\n', 1)
  return WatchFailure.fromStatus({ message: `status ${code}: ${line.slice(0, 200)}`, code }, code, retryAfter)
}

/**
 * Watches with long polls, so that nginx, Varnish or a CDN can answer a million clients with one request to the server.
 * This transport wraps another one, and turns the sequence of short responses into one stream of JSON lines. Everything
 * else works as it does over streams.
 *
 * Only distributary supports `wait`. A list, and every response to a poll, names the position at which it ends. The
 * next poll sends that name back, so it can go to any replica. A server that answers 410 names its own history. The
 * next list has that name in its URL, because a cache may still hold a list of an older history. A response without
 * events keeps its position and names a cursor, which makes the URL of the next poll another one.
 */
import type { StatusLike } from './reflector/watch-failure.js'
import type { Transport, TransportRequest, TransportResponse } from './reflector/transport.js'
import { jsonIn } from '../support/json-text.js'
import { readBytes } from '../support/read-bytes.js'

/** Options of `pollTransport`. */
export interface PollOptions {
  /**
   * How long the server lets a poll wait, in seconds, at most 50. It must be less than the lock timeouts of the caches
   * in between. Default: 20.
   */
  readonly waitSeconds?: number
}

interface PollDocument {
  readonly metadata: { readonly resourceVersion: string; readonly history: string; readonly cursor?: string }
}

const HISTORY = 'x-distributary-history'
const POSITION = 'x-distributary-position'
/** The number of positions kept, because informers that share a transport are at different positions. */
const KEPT_POSITIONS = 1_000
const MAX_DOCUMENT_BYTES = 64 * 2 ** 20
/** The first poll waits only this long for an event, because the watch counts as open only after the first response. */
const FIRST_WAIT_SECONDS = 1
const LINE_FEED = 0x0a
const COMMA = 0x2c

/** A transport whose watches are long polls; lists, and everything else, pass through unchanged. */
export function pollTransport(transport: Transport, { waitSeconds = 20 }: PollOptions = {}): Transport {
  /** The history named by the last 410, by path. */
  const histories = new Map<string, string>()
  /** Positions, keyed by selection and revision. */
  const positions = new Map<string, string>()
  const note = ({ path, query }: TransportRequest, position: string | null): void => {
    const [revision, proof] = position?.split('.') ?? []
    if (position === null || proof === undefined) return
    const key = positionKey(path, query, revision)
    positions.delete(key)
    positions.set(key, position)
    if (positions.size <= KEPT_POSITIONS) return
    for (const oldest of positions.keys()) return void positions.delete(oldest)
  }
  return {
    async send(request) {
      const { path, query } = request
      if ((request.method ?? 'GET') !== 'GET') return await transport.send(request)
      if (query['watch'] === undefined) {
        const history = histories.get(path) ?? ''
        const response = await transport.send({ ...request, query: { ...query, history } })
        note(request, response.header(POSITION))
        return response
      }
      // A poll can begin only after a list.
      if (query['sendInitialEvents'] !== undefined || query['resourceVersion'] === undefined) {
        return statusResponse(400, 'a poll needs a resourceVersion')
      }
      const poll: Poll = async (resourceVersion, cursor, seconds = waitSeconds) => {
        const { allowWatchBookmarks: _bookmarks, timeoutSeconds: _timeout, ...rest } = query
        // A saved state names its own history, because no list has come before it.
        const history = positions.get(positionKey(path, query, resourceVersion)) ?? query['history'] ?? ''
        const ends = cursor === undefined ? {} : { cursor }
        const pollQuery = { ...rest, resourceVersion, wait: `${seconds}s`, history, ...ends }
        const response = await transport.send({ ...request, query: pollQuery })
        const current = response.status === 410 ? response.header(HISTORY) : null
        if (current !== null) histories.set(path, current)
        return response
      }
      const endMs = performance.now() + Number(query['timeoutSeconds'] ?? 300) * 1_000
      const first = await poll(query['resourceVersion'], undefined, Math.min(FIRST_WAIT_SECONDS, waitSeconds))
      if (first.status !== 200) return first
      return {
        status: 200,
        header: (name) => first.header(name),
        body: lines(first, poll, (position) => note(request, position), endMs),
      }
    },
  }
}

type Poll = (resourceVersion: string, cursor: string | undefined, seconds?: number) => Promise<TransportResponse>

/** Different selections of one resource may have different names for the same revision. */
function positionKey(path: string, query: TransportRequest['query'], revision: string | undefined): string {
  return JSON.stringify([revision, path, query['prefix'], query['fieldSelector'], query['labelSelector']])
}

/**
 * Yields the events of each response in turn, with a bookmark after each response. The first refusal ends the stream
 * with an ERROR event.
 */
async function* lines(
  first: TransportResponse,
  poll: Poll,
  note: (position: string) => void,
  endMs: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  for (let response = first; ;) {
    const body = await readBytes(response.body, MAX_DOCUMENT_BYTES)
    if (response.status !== 200) return yield errorLine(response.status, body)
    const { head, events } = parted(body)
    const { resourceVersion, history, cursor } = head.metadata
    note(history)
    yield joined(
      events,
      textBytes(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":${JSON.stringify(resourceVersion)}}}}\n`),
    )
    if (performance.now() >= endMs) return
    response = await poll(resourceVersion, cursor)
  }
}

/**
 * Splits a document, which must have one line for its head, one for each event, and a last line.
 * @throws Error otherwise.
 */
function parted(body: Uint8Array): { readonly head: PollDocument; readonly events: Uint8Array } {
  const end = body.indexOf(LINE_FEED)
  const head = JSON.parse(`${new TextDecoder().decode(body.subarray(0, end))}]}`) as PollDocument
  const events = body.slice(end + 1, body.lastIndexOf(LINE_FEED, body.length - 2) + 1)
  for (let at = events.indexOf(LINE_FEED); at !== -1; at = events.indexOf(LINE_FEED, at + 1)) {
    if (events[at - 1] === COMMA) events[at - 1] = 0x20
  }
  return { head, events }
}

function errorLine(code: number, body: Uint8Array): Uint8Array {
  // A body that is not JSON is a proxy's own page.
  const given = jsonIn(new TextDecoder().decode(body)) as StatusLike | undefined
  const status: StatusLike = { code, ...(given === undefined ? { message: `status ${code}` } : given) }
  return textBytes(`${JSON.stringify({ type: 'ERROR', object: status })}\n`)
}

function statusResponse(status: number, message: string): TransportResponse {
  const body = textBytes(JSON.stringify({ kind: 'Status', code: status, message }))
  return {
    status,
    header: () => null,
    body: (async function* () {
      yield body
    })(),
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const whole = new Uint8Array(first.length + second.length)
  whole.set(first)
  whole.set(second, first.length)
  return whole
}

function textBytes(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

/**
 * Answers a long poll, `?watch=1&resourceVersion=R&wait=30s&history=H`: one document with the events after R as soon as
 * there are any, and the position at which the next poll begins. The events after a position (`position.ts`) never
 * change, so caches may keep such a response. They can also merge identical waiting requests into one, and any replica
 * can answer it.
 *
 * Caches may keep a response without events for only a second, and must not keep errors. The position is in the URL, so
 * a cache never mixes two histories. A response without events keeps the position, so it carries a `cursor`, which the
 * client adds to its next URL; otherwise a cache would answer each such poll with the response to the one before it.
 */
import { ExpiredError, BadRequestError } from '../../../kubernetes/model/status.js'
import { parseResourceVersion } from '../../../kubernetes/model/resource-version.js'
import { revoke } from '../../../engine/broadcast/endings.js'
import { nextRevision, type Revision } from '../../../engine/model/revision.js'
import { listedPrefix } from '../../../kubernetes/model/api-resource.js'
import { type Query, parameter } from '../../../kubernetes/dialect/query.js'
import { pollLines } from '../framing/poll-lines.js'
import { wireOf } from '../framing/framings.js'
import { type Polled, PollOutput } from '../watch/poll-output.js'
import { inMemoryTurn, isSmallState } from './read-state.js'
import { answerAfter, waitFor } from './answer-after.js'
import type { ApiContext } from './api-context.js'
import { publicCachingOf } from './cache-headers.js'
import { assertPosition, isPosition, positionAt } from './position.js'
import { assertNotDraining, type WatchRequest } from './request.js'

/** The header that names this process's history, on lists, watches and rejections. */
export const HISTORY_HEADER = 'x-distributary-history'

const NGINX_EXPIRES = 'x-accel-expires'

/** Proxies give up on a silent response after a minute. */
const MAX_WAIT_SECONDS = 50

/**
 * Polls whose predecessors were answered within the same period share a cursor, so caches still merge them. The server
 * holds at most one poll per position, cache and period of its wait, and one more.
 */
const CURSOR_PERIOD_MS = 10_000

/** @returns how long a poll waits; null for a watch that is not a poll. @throws BadRequestError */
export function waitMsOf(query: Query): number | null {
  const text = parameter(query, 'wait')
  if (text === undefined) return null
  const seconds = /^\d{1,2}s$/.test(text) ? Number(text.slice(0, -1)) : Number.NaN
  if (!(seconds >= 1 && seconds <= MAX_WAIT_SECONDS)) {
    throw new BadRequestError(`wait: must be from 1s to ${MAX_WAIT_SECONDS}s, not ${JSON.stringify(text.slice(0, 64))}`)
  }
  return seconds * 1_000
}

/** @throws StatusError before the response. */
export async function handlePoll(context: ApiContext, request: WatchRequest, waitMs: number): Promise<void> {
  const { live, exchange, caller, options } = request
  const { cache } = live
  if (options.start.kind !== 'after') throw new BadRequestError('wait: requires the resourceVersion to continue after')
  const after = options.start.revision
  await inMemoryTurn(
    context,
    request,
    async () => {},
    () => isSmallState(cache),
  )
  const history = cache.history.name
  exchange.headers[HISTORY_HEADER] = history
  const isForCaches = context.publicCachingOf(live.served.resource) !== null
  if (isForCaches) shareRefusals(exchange)
  assertNotDraining(context)
  const named = parameter(exchange.query, 'history')
  const { polled, caching } = await waitFor(request, async () => {
    await assertPosition(context, request, named, after)
    const events = await follow(context, request, after, waitMs)
    exchange.signal.throwIfAborted()
    return { polled: events, caching: await publicCachingOf(context, request) }
  })
  // The history changed while the poll waited, so its events may not continue the caller's.
  if (cache.history.name !== history) throw new ExpiredError('the history has changed')
  const revision = polled.revision === null ? after : parseResourceVersion(polled.revision)
  const gap = cache.history.gapBetween(after, revision)
  if (gap !== null) throw ExpiredError.tooOld(after, nextRevision(gap))
  const isEmpty = polled.events.length === 0
  // The cache may not have reached the position, which the caller has proved.
  const hasStayed = revision === after && isPosition(named, after)
  const findPosition = (): string | Promise<string> => (hasStayed ? named : positionAt(context, request, revision))
  await answerAfter(request, findPosition, (answering, position) => {
    if (cache.history.name !== history) throw new ExpiredError('the history has changed')
    delete exchange.headers[NGINX_EXPIRES]
    const vary = `Accept${caching === null && caller.rights !== '' ? ', Authorization' : ''}`
    const seconds = caching === null ? 0 : isEmpty ? 1 : Math.max(1, caching.maxAgeSeconds + caching.staleSeconds)
    const headers = caching === null ? { vary } : { vary, 'cache-control': `public, max-age=${seconds}` }
    const metadata = { resourceVersion: String(revision), history: position }
    const cursor = isEmpty ? { cursor: nextCursor(parameter(exchange.query, 'cursor'), context.clock.now()) } : {}
    answering.send(200, 'application/json', documentOf(polled, { ...metadata, ...cursor }), headers)
  })
}

/** Returns a cursor above the one that was sent. @param sent anything but up to 16 digits is ignored. */
export function nextCursor(sent: string | undefined, nowMs: number): string {
  const period = BigInt(Math.floor(nowMs / CURSOR_PERIOD_MS))
  const next = sent !== undefined && /^\d{1,16}$/.test(sent) ? BigInt(sent) + 1n : period
  return String(next > period ? next : period)
}

/**
 * If a response may not be cached, nginx releases the requests that wait for it one by one, two a second. A rejection
 * is the same for all of them, so they share it for a second. Only nginx knows this header, which must come before
 * Cache-Control.
 */
function shareRefusals({ headers }: WatchRequest['exchange']): void {
  const kept = headers['cache-control']
  if (String(kept).includes('no-store')) return
  delete headers['cache-control']
  headers[NGINX_EXPIRES] = '1'
  headers['cache-control'] = kept
}

/** Waits for events until the time is over. @throws StatusError that ended the watch. */
async function follow(context: ApiContext, request: WatchRequest, after: Revision, waitMs: number): Promise<Polled> {
  const { live, exchange, caller, options, path, encoder } = request
  const { dispatcher } = live
  const statePrefix = listedPrefix(live.served.resource, path.namespace, options.keyPrefix)
  const leave = await context.watchers.acquire(caller.identity, exchange.signal)
  // A reader that does not take its document keeps its slot, so that the slots bound the documents in memory.
  exchange.onClose(leave)
  const output = new PollOutput()
  let stopChecks = (): void => {}
  try {
    const cursor = dispatcher.open(
      {
        scope: path.namespace,
        prefix: options.keyPrefix === '' ? null : statePrefix,
        statePrefix,
        identity: caller.identity,
        selector: options.selector,
        encoder,
        wire: wireOf(pollLines, 'http1'),
        start: { kind: 'reached', revision: after },
        bookmarks: false,
        deadlineMs: context.clock.monotonic() + waitMs,
        onInitialComplete: () => {},
        onEnd: () => {},
      },
      output,
    )
    output.attach(cursor)
    exchange.onClose(() => output.close())
    stopChecks = caller.keep((error) => revoke(cursor, error, false))
    return await output.polled
  } finally {
    stopChecks()
  }
}

/** Puts each event on its own line, so that the document can also be read in pieces. */
function documentOf({ events }: Polled, metadata: Readonly<Record<string, string>>): Buffer {
  const head = JSON.stringify({ kind: 'WatchEvents', metadata })
  const lines = events.flatMap((event, i) => [event, Buffer.from(i + 1 < events.length ? ',\n' : '\n')])
  return Buffer.concat([Buffer.from(`${head.slice(0, -1)},"events":[\n`), ...lines, Buffer.from(']}\n')])
}

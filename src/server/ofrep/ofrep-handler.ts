/**
 * Answers under `/ofrep/v1/`, in the OpenFeature Remote Evaluation Protocol, from a declared prefix (`--ofrep`):
 *
 *     POST /ofrep/v1/evaluate/flags        all flags, with an ETag: `list`
 *     POST /ofrep/v1/evaluate/flags/{key}  one flag: `get`
 *     GET  /ofrep/v1/events                says when the flags have changed: `watch`
 *
 * A request passes the gate as the same read of the resource would, and counts towards the same limits. The POSTs only
 * read, so a page may send them as CORS says. The context in a body is checked and otherwise ignored, because flags here
 * have no rules. Evaluations read the cache as it is, so they go on while etcd is away, and a header says how old it is.
 *
 * An EventSource has no headers. If the caller needs a credential, the stream's URL carries a ticket.
 */
import { keyOfName, type ApiResource } from '../../kubernetes/model/api-resource.js'
import { negotiate } from '../../kubernetes/dialect/accept.js'
import { parseWatchParameters } from '../../kubernetes/dialect/list-options.js'
import type { LiveResource } from '../../kubernetes/dialect/served-live-resource.js'
import type { ResourcePath } from '../../kubernetes/dialect/request-path.js'
import type { ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import { BadRequestError, InternalError, NotFoundError, NotImplementedError } from '../../kubernetes/model/status.js'
import { statusOf } from '../../kubernetes/model/status-of.js'
import { keyName } from '../../support/key-name.js'
import { TicketExpiredError } from '../auth/authn/ticket.js'
import { type Attributes, resourceAttributes } from '../auth/authz/authorizer.js'
import { answerAfter, waitFor } from '../transports/api/answer-after.js'
import type { ApiContext } from '../transports/api/api-context.js'
import type { ApiHandler } from '../transports/api/api-handler.js'
import { inMemoryTurn, readSnapshot, untilLoaded } from '../transports/api/read-state.js'
import { assertNotDraining, encoderOf, type Request } from '../transports/api/request.js'
import { exposeStaleness } from '../transports/api/resource-handler.js'
import { handleWatch } from '../transports/api/watch-handler.js'
import type { Exchange } from '../transports/exchange/exchange.js'
import { readBody } from '../transports/exchange/read-body.js'
import { STREAM_HEADERS } from '../transports/framing/framings.js'
import { failAsEvents, httpWatch } from '../transports/watch/http-watch.js'
import { requirePost } from '../transports/server/gated-route.js'
import { ChangeOutput, NEEDS_TICKET, refetchEvent } from './change-output.js'
import { type EncodedFlags, Flags } from './flags.js'
import { MAX_CONTEXT_BYTES } from '../limits/fixed-limits.js'

const OFREP_PATH = '/ofrep/v1/'

const FLAGS_PATH = `${OFREP_PATH}evaluate/flags`
const EVENTS_PATH = `${OFREP_PATH}events`
const JSON_TYPE = 'application/json'

type Verb = 'get' | 'list' | 'watch'

interface FlagsRequest extends Request {
  /** The gate issues a ticket before the answer. */
  readonly exchange: Exchange
  readonly live: LiveResource
}

/** An error with OFREP's own code. */
class EvaluationError extends BadRequestError {
  constructor(
    readonly errorCode: 'PARSE_ERROR' | 'INVALID_CONTEXT',
    message: string,
  ) {
    super(message)
  }
}

/** @param served a declared prefix of values without namespaces. @param api answers every other path. */
export function ofrepHandler(context: ApiContext, { resource }: ServedResource, api: ApiHandler): ApiHandler {
  const flags = new Flags(resource)
  const { group, plural } = resource
  const { metrics } = context
  return async (exchange, refused) => {
    const { path } = exchange
    if (!path.startsWith(OFREP_PATH)) return await api(exchange, refused)
    // The router has refused a path that cannot be decoded.
    const rest = path.startsWith(`${FLAGS_PATH}/`) ? path.slice(FLAGS_PATH.length + 1) : null
    const verb: Verb = path === EVENTS_PATH ? 'watch' : rest === null ? 'list' : 'get'
    let key: string | null = null
    if (verb !== 'watch') metrics.inFlight('read', 1)
    try {
      if (refused !== undefined) throw refused
      key = rest === null ? null : decodeURIComponent(rest)
      await serve(context, resource, flags, exchange, verb, key)
    } catch (error) {
      fail(context, exchange, error, verb, key)
    } finally {
      metrics.requestEnded(verb, group, plural, String(exchange.statusCode))
      if (verb !== 'watch') {
        metrics.inFlight('read', -1)
        metrics.requestSeconds(verb, group, plural, (performance.now() - exchange.startedMs) / 1000)
      }
    }
  }
}

async function serve(
  context: ApiContext,
  resource: ApiResource,
  flags: Flags,
  exchange: Exchange,
  verb: Verb,
  key: string | null,
): Promise<void> {
  const name = key === null ? '' : keyName(key)
  const attributes = resourceAttributes({ verb, resource, namespace: '', name, path: exchange.path })
  const caller = await context.gate.check(exchange, attributes)
  if (verb === 'list' && exchange.path !== FLAGS_PATH) throw new NotFoundError('there is no such path', { details: {} })
  if (verb !== 'watch') requirePost(exchange, 'an evaluation')
  const found = context.find(resource.group, resource.version, resource.plural)
  if (found?.kind !== 'live') throw new NotImplementedError(`${resource.plural} are not cached here`)
  const request = { exchange, path: pathOf(found.served, name), verb, caller, span: null, live: found }
  if (found.cache.readiness.isLoading) await untilLoaded(context, found.cache, request)
  if (verb === 'watch') return await followChanges(context, request, flags)
  const readContext = async (): Promise<void> => {
    checkContext(await readBody(exchange, context.clock, context.requestTimeoutMs, MAX_CONTEXT_BYTES))
  }
  exposeStaleness(exchange, found)
  if (key === null) {
    await waitFor(request, readContext)
    return await evaluateAll(context, request, flags, attributes)
  }
  await answerAfter(request, readContext, (answering) => {
    const objectKey = keyOfName(resource, { namespace: '', name })
    const object = found.cache.snapshot().get(objectKey)
    if (object === undefined) {
      found.cache.reads.assertOpen(objectKey)
      throw new NotFoundError(`flag ${JSON.stringify(key)} was not found`, { details: {} })
    }
    const { code, json } = flags.evaluate(object)
    answering.send(code, JSON_TYPE, Buffer.from(json))
  })
}

async function evaluateAll(
  context: ApiContext,
  request: FlagsRequest,
  flags: Flags,
  attributes: Attributes,
): Promise<void> {
  const { exchange, live } = request
  const announced = exchange.query.get('flagConfigEtag')
  const prepare = async (): Promise<EncodedFlags & { readonly streams: string }> => {
    const encoded = await encodedFlags(request, flags, announced)
    return { ...encoded, streams: await eventStreams(context, request, attributes) }
  }
  const send = (answering: Exchange, { etag, bytes, streams }: Awaited<ReturnType<typeof prepare>>): void => {
    if (announced !== NEEDS_TICKET && answering.keeps(etag)) return answering.sendNotModified({ etag })
    const body = Buffer.concat([Buffer.from('{"flags":['), bytes, Buffer.from(`]${streams}}`)])
    answering.send(200, JSON_TYPE, body, { etag })
    live.metrics.listBytes(body.length)
  }
  await inMemoryTurn(context, request, () => answerAfter(request, prepare, send))
}

/** Reads etcd's current state if another replica has announced a change that may not have arrived here yet. */
async function encodedFlags(request: FlagsRequest, flags: Flags, announced: string | null): Promise<EncodedFlags> {
  const { cache, served } = request.live
  const snapshot = cache.snapshot()
  cache.reads.assertListOpen(snapshot, served.resource.etcdPrefix)
  const encoded = await flags.encode(snapshot)
  if (announced === null || announced === NEEDS_TICKET || announced === encoded.etag) return encoded
  const current = readSnapshot(cache, { kind: 'consistent' }, request).catch(() => cache.snapshot())
  return await flags.encode(await current)
}

/** Returns the member `eventStreams`; '' if the caller cannot open a stream by a URL alone. */
async function eventStreams(
  { gate }: ApiContext,
  { exchange, caller }: FlagsRequest,
  attributes: Attributes,
): Promise<string> {
  let query = ''
  if (!(await caller.isAnybody())) {
    const rule = exchange.access?.rule ?? null
    const made = await gate.issueTicket(exchange, attributes, () => Promise.resolve(EVENTS_PATH)).catch(() => null)
    if (exchange.access !== null) exchange.access.rule = rule
    if (made === null) return ''
    query = `?ticket=${encodeURIComponent(made.ticket)}`
    exchange.headers['cache-control'] = 'private, no-store'
  }
  // Providers know the server's origin; behind a proxy, the server does not.
  return `,"eventStreams":${JSON.stringify([{ type: 'sse', endpoint: { requestUri: `${EVENTS_PATH}${query}` } }])}`
}

async function followChanges(context: ApiContext, request: FlagsRequest, flags: Flags): Promise<void> {
  const { exchange, live } = request
  assertNotDraining(context)
  const form = negotiate('text/event-stream', 'watch')
  const { resource } = live.served
  const parsed = parseWatchParameters(new URLSearchParams(), { resource, namespace: '', legacyWatch: true })
  const options = { ...parsed, start: { kind: 'now', freshness: { kind: 'cached' } } as const }
  const understood = { form, refusal: null, shown: live, options }
  const { clock } = context
  const etag = async (): Promise<string> => (await flags.encode(live.cache.snapshot())).etag
  const seen = String(exchange.requestHeaders['last-event-id'] ?? '')
  const watch = { ...request, ...understood, encoder: encoderOf(context, understood) }
  await handleWatch(context, watch, (answering) => {
    const transport = httpWatch(answering, form)
    return {
      open(compression) {
        const output = new ChangeOutput(transport.open(compression), { clock, etag, seen })
        answering.response.once('close', () => output.close())
        return { wire: output.wire, output }
      },
      started: () => transport.started(),
    }
  })
}

function pathOf(served: ServedResource, name: string): ResourcePath {
  const { group, version, plural } = served.resource
  const rest = { namespace: '', hasEmptyNamespace: false, subresource: '', legacyWatch: false }
  return { kind: 'resource', group, version, plural, served, name, ...rest }
}

/** @throws EvaluationError */
function checkContext(body: Buffer): void {
  let parsed: unknown
  try {
    parsed = JSON.parse(body.toString('utf8'))
  } catch {
    throw new EvaluationError('PARSE_ERROR', 'the body is not JSON')
  }
  const context = (parsed as { readonly context?: unknown } | null)?.context
  if (typeof context !== 'object' || context === null || Array.isArray(context)) {
    throw new EvaluationError('INVALID_CONTEXT', 'the body needs a context: {"context":{"targetingKey":"…"}}')
  }
}

function fail(
  { onInternalError }: ApiContext,
  exchange: Exchange,
  error: unknown,
  verb: Verb,
  key: string | null,
): void {
  if (exchange.wasLeft(error)) return
  const status = statusOf(error)
  if (status instanceof InternalError) onInternalError(status)
  if (exchange.response.headersSent) return exchange.breakOff()
  if (verb === 'watch' && status instanceof TicketExpiredError) {
    // The provider reads the flags again, with its credential, and gets a URL with a new ticket.
    exchange.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...STREAM_HEADERS })
    return exchange.end(Buffer.concat([Buffer.from('retry: 60000\n'), refetchEvent(NEEDS_TICKET, null)]))
  }
  if (verb === 'watch' && failAsEvents(exchange, status)) return
  const isMissing = verb === 'get' && key !== null && status instanceof NotFoundError
  const errorCode = isMissing ? 'FLAG_NOT_FOUND' : error instanceof EvaluationError ? error.errorCode : 'GENERAL'
  const body = { ...(key === null ? {} : { key }), errorCode, errorDetails: status.message }
  const seconds = status.details?.retryAfterSeconds
  exchange.send(status.code, JSON_TYPE, Buffer.from(JSON.stringify(body)), {
    'x-content-type-options': 'nosniff',
    ...(status.code >= 429 ? { 'cache-control': 'no-store' } : {}),
    ...(seconds === undefined ? {} : { 'retry-after': String(Math.ceil(seconds)) }),
  })
}

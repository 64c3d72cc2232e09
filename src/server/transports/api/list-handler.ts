/** Answers a list: finds the state, chooses the page, and sends a body that equal requests share. */
import type { FactRegistry } from '../../../engine/broadcast/fact-registry.js'
import { Matcher } from '../../../engine/broadcast/matcher.js'
import type { Snapshot } from '../../../engine/cache/store.js'
import type { WatchCache } from '../../../engine/cache/watch-cache.js'
import { startKeyOf } from '../../../kubernetes/dialect/continue-token.js'
import type { ListParameters } from '../../../kubernetes/dialect/list-options.js'
import { fingerprintOf, type ServedResource } from '../../../kubernetes/dialect/resource-registry.js'
import { type ListPage, listPieces } from '../../../kubernetes/dialect/list-pieces.js'
import { acceptsGzip } from '../../../kubernetes/dialect/media-type.js'
import type { Selector } from '../../../kubernetes/dialect/selector.js'
import { parameter } from '../../../kubernetes/dialect/query.js'
import { listedPrefix } from '../../../kubernetes/model/api-resource.js'
import { type KeyParts, keyOf } from '../../../support/key-of.js'
import type { BodyUse } from '../bodies/body-cache.js'
import { type Layout, layOut } from '../bodies/layout.js'
import { sendBody } from '../bodies/send-body.js'
import type { Exchange } from '../exchange/exchange.js'
import { answerAfter, waitFor } from './answer-after.js'
import type { ApiContext, PublicCaching } from './api-context.js'
import { cacheHeaders, contentUnder, publicCachingOf } from './cache-headers.js'
import { HISTORY_HEADER } from './poll-handler.js'
import { POSITION_HEADER, positionOf } from './position.js'
import { inMemoryTurn, isSmallState, readListState } from './read-state.js'
import { encoderOf, type ReadRequest } from './request.js'
import { checkObjects } from './check-unknown-fields.js'

interface ListRequest extends ReadRequest<ListParameters> {
  /**
   * Whether the resource is cached. If not, the cache belongs to this request alone, and no other request will see its
   * history.
   */
  readonly isCached: boolean
}

/** Everything that determines the bytes of a list. */
interface ListContents extends Omit<ListPage, 'matches' | 'shard'> {
  readonly snapshot: Snapshot
  /**
   * The snapshot's position if the client asked for it, and otherwise its history. For an uncached resource, a digest
   * of the content.
   */
  readonly history: string
  readonly cache: Pick<WatchCache, 'name'>
  /** Determines how objects are shown, which may have changed since the list began. */
  readonly served: ServedResource
  readonly selector: Selector
  readonly layout: Layout
  /** The current second, for a table, because the ages in it change every second; null for every other form. */
  readonly second: number | null
}

const BODY_KEY: KeyParts<ListContents> = {
  cache: ({ name }) => name,
  served: fingerprintOf,
  snapshot: ({ revision }) => revision,
  history: (history) => history,
  prefix: (prefix) => prefix,
  startKey: (key) => key,
  limit: (limit) => limit,
  selector: ({ canonical }) => canonical,
  encoder: ({ schemaVersion: apiVersion, key }) => `${apiVersion} ${key}`,
  layout: ({ key }) => key,
  second: (second) => second,
}

export async function handleList(context: ApiContext, request: ListRequest): Promise<void> {
  const prepared = (): Promise<Prepared> => prepare(context, request)
  const send = (exchange: Exchange, list: Prepared): Promise<void> => sendList(context, request, exchange, list)
  const { cache } = request.live
  await inMemoryTurn(
    context,
    request,
    () => answerAfter(request, prepared, send),
    () => isSmallState(cache),
  )
}

interface Prepared {
  readonly caching: PublicCaching | null
  /** null unless the client asked for it. */
  readonly position: string | null
  readonly contents: ListContents
}

async function prepare(context: ApiContext, request: ListRequest): Promise<Prepared> {
  const { exchange, live, caller, options } = request
  const { cache } = live
  const { snapshot, caching } = await waitFor(request, async () => {
    const enter = (): Promise<() => void> => context.pastStates.acquire(caller.identity, exchange.signal)
    return {
      snapshot: await readListState(cache, options.read, request, enter),
      caching: await publicCachingOf(context, request),
    }
  })
  const isForPolls = request.isCached && parameter(exchange.query, 'history') !== undefined
  const position = isForPolls ? await positionOf(context, request, snapshot) : null
  const contents = await contentsOf(context, request, snapshot, position, caching === null)
  const { prefix, selector, encoder } = contents
  cache.reads.assertListOpen(snapshot, prefix)
  await checkObjects(context, request, snapshot, { prefix, selector, apiVersion: encoder.schemaVersion }, true)
  return { caching, position, contents }
}

async function sendList(
  context: ApiContext,
  request: ListRequest,
  exchange: Exchange,
  { caching, position, contents }: Prepared,
): Promise<void> {
  const { live, form, options } = request
  const { cache } = live
  const { snapshot } = contents
  if (contents.limit !== null) cache.reads.keep(snapshot)
  const key = keyOf(BODY_KEY, contents)
  // The number is of the whole resource, which is not for a caller that reads a part of it.
  const unservable = contents.prefix === cache.prefix ? snapshot.unservableCount : 0
  if (unservable > 0) exchange.warn(`${unservable} stored objects of ${cache.name} cannot be served`)
  const headers = cacheHeaders(context, request, caching, key)
  if (request.isCached) exchange.headers[HISTORY_HEADER] = snapshot.history
  if (position !== null) exchange.headers[POSITION_HEADER] = position
  const vary = `${headers.vary}, Accept-Encoding`
  // A watch must be able to start at the list's revision, so a client whose watch has just been rejected gets a full
  // list instead of a 304. If the resource is not cached, etcd has just read that revision, so a watch can start there.
  if (exchange.keeps(headers.etag) && (!request.isCached || cache.history.isResumable(snapshot.revision))) {
    exchange.sendNotModified({ ...headers, vary })
    live.metrics.listBytes(0)
    return
  }
  const release = (use: BodyUse): void => use.release()
  const use = await waitFor(request, () => useBody(context, request, key, contents), release)
  const bytes = await sendBody(exchange, context.bodies, key, use, {
    contentType: form.contentType,
    acceptsGzip: acceptsGzip(exchange.requestHeaders['accept-encoding']),
    headers: { ...headers, vary },
  })
  request.span?.setAttributes({
    'distributary.resource': cache.name,
    'distributary.read': options.read.kind,
    'distributary.resource_version': snapshot.revision,
    'http.response.body.size': bytes,
  })
  live.metrics.listBytes(bytes)
}

async function contentsOf(
  context: ApiContext,
  request: ListRequest,
  snapshot: Snapshot,
  position: string | null,
  byUserAgent: boolean,
): Promise<ListContents> {
  const { live, path, options, exchange, form } = request
  const { cache, served } = live
  const prefix = listedPrefix(served.resource, path.namespace, options.keyPrefix)
  return {
    cache,
    served,
    snapshot,
    history: position ?? (request.isCached ? snapshot.history : await contentUnder(prefix, snapshot)),
    prefix,
    startKey: options.read.kind === 'continue' ? startKeyOf(options.read, prefix) : prefix,
    // A limit above the number of objects means the whole list.
    limit: options.limit !== null && options.limit < snapshot.size ? options.limit : null,
    selector: options.selector,
    encoder: encoderOf(context, request),
    layout: layOut(exchange, form, byUserAgent),
    second: form.transform === 'table' ? Math.floor(context.clock.now() / 1000) : null,
  }
}

/** Builds the body from `contents` alone, because everything in `contents` is also in the body's key. */
function useBody(
  { bodies }: ApiContext,
  { exchange, live, caller }: ListRequest,
  key: string,
  contents: ListContents,
): Promise<BodyUse> {
  const { facts } = live.dispatcher
  return bodies.use(key, { identity: caller.identity, signal: exchange.signal }, () =>
    contents.layout.pieces(selectedPieces(contents, facts, caller.identity)),
  )
}

/** Keeps the selector's facts registered from the first piece to the last, or until the rest is not needed. */
function* selectedPieces(
  contents: ListContents,
  facts: FactRegistry,
  identity: string,
): Generator<Buffer | null, void, void> {
  const { selector, encoder } = contents
  if (selector.isEmpty) return yield* listPieces({ ...contents, matches: null, shard: null })
  const matcher = new Matcher('', selector, facts, encoder.schemaVersion, identity)
  try {
    const shard = selector.shard?.text ?? null
    yield* listPieces({ ...contents, shard, matches: (object) => matcher.matches(object) })
  } finally {
    matcher.close()
  }
}

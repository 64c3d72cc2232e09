/** GET of a collection that is no watch: which state, which page of it, and its shared body. */
import type { Snapshot } from '../../cache/store.js'
import { type Negotiated, isPretty } from '../../dialect/accept.js'
import { expiredTokenError, startKeyOf } from '../../dialect/continue-token.js'
import { type ListParameters, type ListRead, parseListParameters } from '../../dialect/list-options.js'
import { type ListPage, listPieces } from '../../dialect/list-pieces.js'
import { acceptsGzip } from '../../dialect/media-type.js'
import type { FactRegistry } from '../../broadcast/fact-registry.js'
import { Matcher } from '../../broadcast/matcher.js'
import type { Selector } from '../../dialect/selector.js'
import { namespacePrefix } from '../../model/resource.js'
import { ExpiredError, TooManyRequestsError } from '../../model/status.js'
import { sleep } from '../../support/clock.js'
import type { Span } from '../../support/tracing.js'
import type { Admitted } from '../limits/request-gate.js'
import type { Exchange } from '../server/exchange.js'
import { NO_CACHE } from './get-handler.js'
import { layOut } from '../bodies/layout.js'
import type { LiveResource, ResourceContext } from './resource-context.js'
import { sendBody } from '../bodies/send-body.js'

/** Longer is not waited for, but told: the client waits better than we do. */
const MAX_DEBT_WAIT_MS = 5_000

export interface Collection {
  /** '' for all. */
  readonly namespace: string
  /** From a path that names one object and still lists or watches; null otherwise. */
  readonly name: string | null
}

export async function handleList(
  context: ResourceContext,
  exchange: Exchange,
  live: LiveResource,
  collection: Collection,
  form: Negotiated,
  admitted: Admitted,
  span: Span | null,
): Promise<void> {
  const { served, cache } = live
  const options = parseListParameters(exchange.query, {
    resource: served.resource,
    ...(collection.name === null ? {} : { name: collection.name }),
  })
  const encoder = context.encoder(served, form, options.includeObject, options.projection)
  cache.assertReadable()
  context.memory.admit()
  await payDebt(context, admitted, exchange.signal)
  const snapshot = await readState(live, options, exchange.signal)
  // What it waited for may have been the very value that cannot be read.
  cache.assertReadable()
  const prefix = collection.namespace === '' ? cache.prefix : namespacePrefix(served.resource, collection.namespace)
  const startKey = options.read.kind === 'continue' ? startKeyOf(options.read, prefix) : prefix
  // A page larger than everything is everything.
  const limit = options.limit !== null && options.limit < snapshot.size ? options.limit : null
  if (limit !== null) cache.keep(snapshot)
  const pretty = isPretty(form, exchange.query, exchange.requestHeaders['user-agent'])
  const layout = layOut(form, pretty)
  // Ages are as of the second in which they are asked for.
  const second = form.transform === 'table' ? Math.floor(context.clock.now() / 1000) : null
  const key = [
    cache.name,
    cache.history,
    served.resource.version,
    snapshot.revision,
    prefix,
    startKey,
    limit,
    options.selector.canonical,
    encoder.key,
    layout.key,
    second,
  ].join('\n')
  const use = await context.bodies.use(key, { identity: admitted.identity, signal: exchange.signal }, () => {
    const page = { snapshot, prefix, startKey, limit, encoder }
    return layout.pieces(selectedPieces(page, options.selector, live.broadcaster.facts))
  })
  const warning =
    snapshot.unservableCount === 0
      ? {}
      : { warning: `299 - "${snapshot.unservableCount} objects of ${cache.name} are stored and cannot be served"` }
  const bytes = await sendBody(exchange, context.bodies, key, use, {
    contentType: form.contentType,
    headers: { ...NO_CACHE, ...warning },
    pace: (sent) => admitted.pace(sent),
    clock: context.clock,
    acceptsGzip: acceptsGzip(exchange.requestHeaders['accept-encoding']),
  })
  span?.note({
    'distributary.resource': cache.name,
    'distributary.read': options.read.kind,
    'distributary.resource_version': snapshot.revision,
    'http.response.body.size': bytes,
  })
  live.metrics.list((performance.now() - exchange.startedMs) / 1000, bytes)
}

/** What was sent beyond the identity's rate is waited for before more is begun. @throws TooManyRequestsError */
async function payDebt({ clock }: ResourceContext, admitted: Admitted, signal: AbortSignal): Promise<void> {
  const waitMs = admitted.pace(0)
  if (waitMs > MAX_DEBT_WAIT_MS) {
    throw new TooManyRequestsError('too many bytes of lists and initial states', Math.ceil(waitMs / 1000))
  }
  if (waitMs > 0) await sleep(clock, waitMs, signal)
}

async function readState(live: LiveResource, options: ListParameters, signal: AbortSignal): Promise<Snapshot> {
  const { cache } = live
  const read: ListRead = options.read
  switch (read.kind) {
    case 'cached':
      return cache.snapshot()
    case 'consistent':
      return await cache.consistentSnapshot(signal)
    case 'not-older-than':
      return await cache.snapshotNotOlderThan(read.revision, signal)
    case 'exact':
      return await cache.snapshotAt(read.revision, signal)
    case 'continue':
      if (read.revision === null) return await cache.consistentSnapshot(signal)
      try {
        return await cache.snapshotAt(read.revision, signal)
      } catch (error) {
        throw error instanceof ExpiredError ? expiredTokenError(read) : error
      }
  }
}

/** The selector's facts are in use from the first piece to the last, or until nobody wants the rest. */
function* selectedPieces(
  page: Omit<ListPage, 'matches'>,
  selector: Selector,
  facts: FactRegistry,
): Generator<Buffer | null, void, void> {
  if (selector.isEmpty) return yield* listPieces({ ...page, matches: null })
  const matcher = new Matcher('', selector, facts, page.encoder.apiVersion)
  try {
    yield* listPieces({ ...page, matches: (object) => matcher.matches(object) })
  } finally {
    matcher.close()
  }
}

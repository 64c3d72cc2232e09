/** Answers a list: finds the state, chooses the page of it, and sends a body that equal requests share. */
import type { FactRegistry } from '../../../engine/broadcast/fact-registry.js'
import { Matcher } from '../../../engine/broadcast/matcher.js'
import type { Snapshot } from '../../../engine/cache/store.js'
import { startKeyOf } from '../../../kubernetes/dialect/continue-token.js'
import type { ListParameters } from '../../../kubernetes/dialect/list-options.js'
import { type ListPage, listPieces } from '../../../kubernetes/dialect/list-pieces.js'
import { acceptsGzip } from '../../../kubernetes/dialect/media-type.js'
import type { Selector } from '../../../kubernetes/dialect/selector.js'
import { namespacePrefix } from '../../../engine/model/resource.js'
import { TooManyRequestsError } from '../../../engine/model/status.js'
import { sleep } from '../../../support/clock.js'
import type { BodyUse } from '../bodies/body-cache.js'
import { type Layout, layOut } from '../bodies/layout.js'
import { sendBody } from '../bodies/send-body.js'
import type { ApiContext } from './api-context.js'
import { readListState } from './read-state.js'
import type { ReadRequest } from './request.js'

/** A longer wait is left to the client, because waiting there holds no connection. */
const MAX_DEBT_WAIT_MS = 5_000

type ListRequest = ReadRequest<ListParameters>
type Page = Omit<ListPage, 'matches'>

export async function handleList(context: ApiContext, request: ListRequest): Promise<void> {
  const { exchange, live, caller, form, options } = request
  const { cache } = live
  cache.assertReadable()
  context.memory.admit()
  await payDebt(context, request)
  const snapshot = await readListState(cache, options.read, exchange.signal, () =>
    context.pastStates.enter(caller.identity, exchange.signal),
  )
  // The read may have waited for the very value that cannot be read.
  cache.assertReadable()
  const page = pageOf(request, snapshot)
  if (page.limit !== null) cache.keep(snapshot)
  const layout = layOut(exchange, form)
  const key = bodyKey(context, request, page, layout)
  const unservable = snapshot.unservableCount
  if (unservable > 0) exchange.warn(`${unservable} objects of ${cache.name} are stored and cannot be served`)
  const use = await useBody(context, request, key, page, layout)
  const bytes = await sendBody(exchange, context.bodies, key, use, {
    contentType: form.contentType,
    pace: (sent) => caller.pace(sent),
    clock: context.clock,
    acceptsGzip: acceptsGzip(exchange.requestHeaders['accept-encoding']),
  })
  request.span?.note({
    'distributary.resource': cache.name,
    'distributary.read': options.read.kind,
    'distributary.resource_version': snapshot.revision,
    'http.response.body.size': bytes,
  })
  live.metrics.list((performance.now() - exchange.startedMs) / 1000, bytes)
}

function pageOf({ live, path, options, encoder }: ListRequest, snapshot: Snapshot): Page {
  const { cache, served } = live
  const prefix = path.namespace === '' ? cache.prefix : namespacePrefix(served.resource, path.namespace)
  const startKey = options.read.kind === 'continue' ? startKeyOf(options.read, prefix) : prefix
  // A page that is larger than the state is the whole list.
  const limit = options.limit !== null && options.limit < snapshot.size ? options.limit : null
  return { snapshot, prefix, startKey, limit, encoder: encoder() }
}

/** Everything that the bytes of the body depend on. */
function bodyKey({ clock }: ApiContext, { live, form, options }: ListRequest, page: Page, layout: Layout): string {
  // A table shows ages, which change every second.
  const second = form.transform === 'table' ? Math.floor(clock.now() / 1000) : null
  return [
    live.cache.name,
    live.cache.history,
    live.served.resource.version,
    page.snapshot.revision,
    page.prefix,
    page.startKey,
    page.limit,
    options.selector.canonical,
    page.encoder.key,
    layout.key,
    second,
  ].join('\n')
}

function useBody(
  { bodies }: ApiContext,
  { exchange, live, caller, options }: ListRequest,
  key: string,
  page: Page,
  layout: Layout,
): Promise<BodyUse> {
  return bodies.use(key, { identity: caller.identity, signal: exchange.signal }, () =>
    layout.pieces(selectedPieces(page, options.selector, live.dispatcher.facts, caller.identity)),
  )
}

/** Waits until the identity is within its rate of bytes again. @throws TooManyRequestsError */
async function payDebt({ clock }: ApiContext, { caller, exchange }: ListRequest): Promise<void> {
  const waitMs = caller.pace(0)
  if (waitMs > MAX_DEBT_WAIT_MS) {
    throw new TooManyRequestsError('too many bytes of lists and initial states', Math.ceil(waitMs / 1000))
  }
  if (waitMs > 0) await sleep(clock, waitMs, exchange.signal)
}

/** Keeps the selector's facts registered from the first piece to the last, or until nobody wants the rest. */
function* selectedPieces(
  page: Page,
  selector: Selector,
  facts: FactRegistry,
  identity: string,
): Generator<Buffer | null, void, void> {
  if (selector.isEmpty) return yield* listPieces({ ...page, matches: null })
  const matcher = new Matcher('', selector, facts, page.encoder.apiVersion, identity)
  try {
    yield* listPieces({ ...page, matches: (object) => matcher.matches(object) })
  } finally {
    matcher.close()
  }
}

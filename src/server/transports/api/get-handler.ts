/** Answers GET of one object. */
import type { ObjectEncoder } from '../../../kubernetes/dialect/encoding/object-encoder.js'
import type { GetParameters } from '../../../kubernetes/dialect/list-options.js'
import { fingerprintOf, type ServedResource } from '../../../kubernetes/dialect/resource-registry.js'
import { objectNotFoundError } from '../../../kubernetes/dialect/status-body.js'
import { keyOfName } from '../../../kubernetes/model/api-resource.js'
import { NotAcceptableError } from '../../../kubernetes/model/status.js'
import type { Key } from '../../../engine/model/event.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import { type KeyParts, keyOf } from '../../../support/key-of.js'
import { type Layout, layOut } from '../bodies/layout.js'
import { sendObject } from '../bodies/send-body.js'
import type { Exchange } from '../exchange/exchange.js'
import { answerAfter } from './answer-after.js'
import type { ApiContext, PublicCaching } from './api-context.js'
import { cacheHeaders, contentOf, publicCachingOf } from './cache-headers.js'
import { readObject } from './read-state.js'
import { encoderOf, type ReadRequest } from './request.js'
import type { FormOptions } from './resource-forms.js'
import { checkObject } from './check-unknown-fields.js'

/** Everything that determines the bytes of one object's response. */
interface ObjectContents {
  readonly object: StoredObject
  /** Determines how objects are shown. */
  readonly served: ServedResource
  readonly encoder: ObjectEncoder
  readonly layout: Layout
  /** The current second, for a table, because the ages in it change every second; null for every other form. */
  readonly second: number | null
}

const OBJECT_KEY: KeyParts<ObjectContents> = {
  object: contentOf,
  served: fingerprintOf,
  encoder: ({ schemaVersion: apiVersion, key }) => `${apiVersion} ${key}`,
  layout: ({ key }) => key,
  second: (second) => second,
}

type GetRequest = ReadRequest<GetParameters & FormOptions>

interface Found {
  readonly object: StoredObject | undefined
  readonly caching: PublicCaching | null
}

export async function handleGet(context: ApiContext, request: GetRequest): Promise<void> {
  const { live, path, options } = request
  const key = keyOfName(live.served.resource, path)
  const find = async (): Promise<Found> => ({
    object: await readObject(live.cache, key, options.read, request),
    caching: await publicCachingOf(context, request),
  })
  await answerAfter(request, find, (exchange, found) => sendFound(context, request, exchange, key, found))
}

async function sendFound(
  context: ApiContext,
  request: GetRequest,
  exchange: Exchange,
  key: Key,
  { object, caching }: Found,
): Promise<void> {
  const { live, path, form } = request
  const { cache, served } = live
  if (object === undefined) cache.reads.assertOpen(key)
  if (object === undefined) {
    if (cache.contents.unservable.has(key)) exchange.warn(`the value of this object of ${cache.name} cannot be served`)
    throw objectNotFoundError(served.resource, path.name)
  }
  checkObject(context, request, object)
  const layout = layOut(exchange, form, caching === null)
  const encoder = encoderOf(context, request)
  const second = form.transform === 'table' ? Math.floor(context.clock.now() / 1000) : null
  const contents = { object, served, encoder, layout, second }
  const cached = cacheHeaders(context, request, caching, keyOf(OBJECT_KEY, contents))
  const headers = { ...cached, vary: `${cached.vary}, Accept-Encoding` }
  if (exchange.keeps(headers.etag)) return exchange.sendNotModified(headers)
  const body = encoder.single(object)
  if (body === null)
    throw new NotAcceptableError(
      `${served.resource.plural} ${JSON.stringify(path.name)} is stored in a form that cannot be read`,
    )
  await sendObject(exchange, 200, form.contentType, await layout.whole(body), headers)
}

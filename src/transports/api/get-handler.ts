/** GET of one object. */
import { type Negotiated, isPretty } from '../../dialect/accept.js'
import { type RequestedFreshness, parseGetParameters } from '../../dialect/list-options.js'
import { type ObjectName, keyOfName, type Resource } from '../../model/resource.js'
import { objectNotFoundError } from '../../dialect/status-body.js'
import { NotAcceptableError } from '../../model/status.js'
import type { StoredObject } from '../../model/stored-object.js'
import type { WatchCache } from '../../cache/watch-cache.js'
import type { Exchange } from '../server/exchange.js'
import { layOut } from '../bodies/layout.js'
import type { LiveResource, ResourceContext } from './resource-context.js'

export const NO_CACHE = { 'cache-control': 'no-cache, private' } as const

export async function handleGet(
  context: ResourceContext,
  exchange: Exchange,
  { served, cache }: LiveResource,
  name: ObjectName,
  form: Negotiated,
): Promise<void> {
  const options = parseGetParameters(exchange.query)
  const encoder = context.encoder(served, form, options.includeObject, null)
  cache.assertReadable()
  const object = await read(cache, served.resource, name, options.read, exchange.signal)
  // What it waited for may have been the very value that cannot be read.
  cache.assertReadable()
  if (object === undefined) throw objectNotFoundError(served.resource, name.name)
  const layout = layOut(form, isPretty(form, exchange.query, exchange.requestHeaders['user-agent']))
  const body = encoder.single(object)
  if (body === null)
    throw new NotAcceptableError(
      `${served.resource.plural} ${JSON.stringify(name.name)} is stored in a form that cannot be read`,
    )
  exchange.send(200, form.contentType, layout.whole(body), { ...NO_CACHE })
}

async function read(
  cache: WatchCache,
  resource: Resource,
  name: ObjectName,
  freshness: RequestedFreshness,
  signal: AbortSignal,
): Promise<StoredObject | undefined> {
  const key = keyOfName(resource, name)
  switch (freshness.kind) {
    case 'cached':
      return cache.snapshot().get(key)
    case 'not-older-than':
      return (await cache.snapshotNotOlderThan(freshness.revision, signal)).get(key)
    case 'consistent':
      return await cache.consistentObject(key, signal)
  }
}

/** Answers GET of one object. */
import type { GetParameters } from '../../../kubernetes/dialect/list-options.js'
import { objectNotFoundError } from '../../../kubernetes/dialect/status-body.js'
import { keyOfName } from '../../../engine/model/resource.js'
import { NotAcceptableError } from '../../../engine/model/status.js'
import { layOut } from '../bodies/layout.js'
import type { ApiContext } from './api-context.js'
import { readObject } from './read-state.js'
import type { ReadRequest } from './request.js'
import { checkObject } from './unknown-fields.js'

export async function handleGet(context: ApiContext, request: ReadRequest<GetParameters>): Promise<void> {
  const { exchange, live, path, form, options } = request
  const { cache, served } = live
  cache.assertReadable()
  const object = await readObject(cache, keyOfName(served.resource, path), options.read, exchange.signal)
  // The read may have waited for the very value that cannot be read.
  cache.assertReadable()
  if (object === undefined) throw objectNotFoundError(served.resource, path.name)
  checkObject(context, request, object)
  const layout = layOut(exchange, form)
  const body = request.encoder().single(object)
  if (body === null)
    throw new NotAcceptableError(
      `${served.resource.plural} ${JSON.stringify(path.name)} is stored in a form that cannot be read`,
    )
  exchange.send(200, form.contentType, await layout.whole(body))
}

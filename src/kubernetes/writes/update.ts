/** PUT: replaces a whole object or its status. */
import { cloneTree, textMember } from '../codec/json-tree.js'
import { conflictError, objectNotFoundError } from '../dialect/status-body.js'
import { apiVersion } from '../../engine/model/resource.js'
import { BadRequestError, NotFoundError } from '../../engine/model/status.js'
import { bareValueOf } from './bare-value.js'
import { checkNamespace, makeObject } from './create.js'
import { metadataOf, refuseOrWarn } from './object-change.js'
import type { Change } from './object-store.js'
import { checkType, readObject } from './request-body.js'
import {
  answerOf,
  managerOf,
  RequestLease,
  Warnings,
  type OneAnswer,
  type WriteContext,
  type WriteRequest,
} from './write-context.js'
import { parseWriteOptions } from './write-options.js'

/** @throws StatusError */
export async function updateObject(context: WriteContext, request: WriteRequest): Promise<OneAnswer> {
  const { served, namespace, name, subresource } = request
  const { resource } = served
  const options = parseWriteOptions(request.query, request.userAgent, 'Update')
  const { value, duplicates } = readObject(request.contentType, request.body, context.schema)
  const warnings = new Warnings()
  refuseOrWarn(
    duplicates.map((path) => `duplicate field "${path}"`),
    options.fieldValidation,
    warnings.add,
  )
  checkType(value, resource)
  const metadata = metadataOf(value)
  const given = textMember(metadata, 'name')
  if (given !== '' && given !== name) {
    throw new BadRequestError(`the name of the object (${given}) does not match the name on the URL (${name})`)
  }
  checkNamespace(metadata, request)
  const version = textMember(metadata, 'resourceVersion')
  const uid = textMember(metadata, 'uid')
  const bare = bareValueOf(served, value, name)
  const lease = new RequestLease(context, options.ttlSeconds)
  const manager = managerOf(context, apiVersion(resource), options, subresource)
  const change = async () =>
    await context.store.change(
      { served, namespace, name },
      (held): Change => {
        if (held === null) throw objectNotFoundError(resource, name)
        if (version !== '' && version !== textMember(held.object, 'metadata', 'resourceVersion')) {
          throw conflictError(resource, name)
        }
        if (bare !== null) return lease.putBare(held, bare)
        const after = context.change.update(held.object, cloneTree(value), {
          served,
          name: { namespace, name },
          subresource,
          verb: 'update',
          manager,
          keepsManagedFields: false,
          fieldValidation: options.fieldValidation,
          warn: warnings.add,
        })
        return lease.put(held, after)
      },
      { ...options, confirm: request.confirm },
    )
  try {
    const changed = await change()
    if (changed.kind === 'deleted') await context.containers.afterGone({ served, namespace, name })
    return answerOf(changed, warnings, options.dryRun)
  } catch (error) {
    const makes = context.change.rules(served).createsOnUpdate && subresource === '' && version === '' && uid === ''
    if (!(error instanceof NotFoundError) || !makes) throw error
    await request.mayCreate()
    return await makeObject(context, request, value, options, warnings)
  }
}

/** POST: creates an object with a given name or one generated from `generateName`. */
import { type JsonRecord, textMember } from '../codec/json-tree.js'
import { alreadyExistsError } from '../dialect/status-body.js'
import { apiVersion } from '../../engine/model/resource.js'
import { BadRequestError, InvalidError } from '../../engine/model/status.js'
import { bareValueOf } from './bare-value.js'
import { required } from './field-errors.js'
import { metadataOf, refuseOrWarn } from './object-change.js'
import { generatedName } from './object-names.js'
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
import { parseWriteOptions, type WriteOptions } from './write-options.js'

/** @throws StatusError */
export async function createObject(context: WriteContext, request: WriteRequest): Promise<OneAnswer> {
  const options = parseWriteOptions(request.query, request.userAgent, 'Create')
  const { value, duplicates } = readObject(request.contentType, request.body, context.schema)
  const warnings = new Warnings()
  refuseOrWarn(
    duplicates.map((path) => `duplicate field "${path}"`),
    options.fieldValidation,
    warnings.add,
  )
  checkType(value, request.served.resource)
  const name = nameOf(context, request, value)
  return await makeObject(context, { ...request, name }, value, options, warnings)
}

/** @param request contains the name of the new object. */
export async function makeObject(
  context: WriteContext,
  request: WriteRequest,
  body: JsonRecord,
  options: WriteOptions,
  warnings: Warnings,
  keepsManagedFields = false,
): Promise<OneAnswer> {
  const { served, namespace, name } = request
  const metadata = metadataOf(body)
  checkNamespace(metadata, request)
  await context.namespaces.assertOpen(served, namespace, name)
  const lease = new RequestLease(context, options.ttlSeconds)
  const bare = bareValueOf(served, body, name)
  const manager = managerOf(context, apiVersion(served.resource), options, '')
  const object =
    bare ??
    context.change.create(body, {
      served,
      name: { namespace, name },
      subresource: '',
      verb: 'update',
      manager,
      keepsManagedFields,
      fieldValidation: options.fieldValidation,
      warn: warnings.add,
    })
  const change = await context.store.change(
    { served, namespace, name },
    (held): Change => {
      if (held !== null) throw alreadyExistsError(served.resource, name)
      return Buffer.isBuffer(object) ? lease.putBare(null, object) : lease.put(null, object)
    },
    { ...options, confirm: request.confirm },
  )
  return answerOf(change, warnings, options.dryRun)
}

function nameOf(context: WriteContext, { served }: WriteRequest, body: JsonRecord): string {
  const metadata = metadataOf(body)
  const name = textMember(metadata, 'name')
  if (name !== '') return name
  const base = textMember(metadata, 'generateName')
  if (base !== '') return generatedName(base, context.randomBytes(8))
  const { kind, group } = served.resource
  throw InvalidError.forFields(kind, group, '', [required('metadata.name', 'name or generateName is required')])
}

/** @throws BadRequestError when the body names another namespace than the path. */
export function checkNamespace(metadata: JsonRecord, { served, namespace }: WriteRequest): void {
  const given = textMember(metadata, 'namespace')
  if (served.resource.namespaced && namespace === '') {
    throw new BadRequestError('an empty namespace may not be set during creation')
  }
  if (given === '' || given === namespace) return
  throw new BadRequestError(
    served.resource.namespaced
      ? `the namespace of the provided object does not match the namespace sent on the request`
      : `namespace may not be set on ${served.resource.plural}, which are not in one`,
  )
}

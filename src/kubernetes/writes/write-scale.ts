/**
 * Writes a scale. A write of the status is a plain update, but here the client sends an object of another kind (a
 * Scale) than the stored one.
 */
import {
  cloneTree,
  encodeJsonTree,
  isNumber,
  isRecord,
  JsonNumber,
  type JsonRecord,
  member,
  setMember,
  storedNumber,
  textMember,
} from '../codec/json-tree.js'
import type { Schema } from '../codec/protobuf/schema.js'
import { unknownResource } from '../dialect/request-path.js'
import { SCALE, scaleOf } from '../dialect/scale.js'
import { conflictError, objectNotFoundError } from '../dialect/status-body.js'
import { BadRequestError, InvalidError } from '../model/status.js'
import { type FieldProblem, invalid, wrongType } from './field-errors.js'
import { typeProblem } from './member-types.js'
import { metadataOf, unreadableAs } from './object-change.js'
import type { Change } from './object-store.js'
import { patched, readPatch } from './patch.js'
import { checkType, readObject } from './object-body.js'
import { ANY, BuiltInShapes } from './shape.js'
import { apiVersion } from '../model/api-resource.js'
import { oncePer } from '../../support/memo.js'
import { checkName } from './create.js'
import { type SingleResponse, Write, type WriteContext, type WriteRequest } from './write-context.js'
import { parseWriteOptions } from './write-options.js'

/** Handles PUT and PATCH. @throws StatusError */
export async function writeScale(
  context: WriteContext,
  request: WriteRequest,
  verb: 'update' | 'patch',
): Promise<SingleResponse> {
  const { served, namespace, name, query, userAgent, contentType } = request
  const { resource } = served
  const paths = context.change.rules(served).scale ?? missing()
  const options = parseWriteOptions(query, userAgent, verb === 'update' ? 'Update' : 'Patch')
  const next = verb === 'update' ? whole(request, context.schema) : partial(contentType, request.body)
  const write = new Write(context, request, options)
  let response: JsonRecord | null = null
  const changed = await context.store.change(
    { served, namespace, name },
    (held): Change => {
      if (held === null) throw objectNotFoundError(resource, name)
      const scale = next(scaleOf(held.object, paths))
      checkName(metadataOf(scale), request)
      const version = textMember(scale, 'metadata', 'resourceVersion')
      if (version !== '' && version !== textMember(held.object, 'metadata', 'resourceVersion')) {
        throw conflictError(resource, name)
      }
      const replicas = readReplicas(scale, name)
      const after = cloneTree(held.object)
      if (member(after, ...paths.specReplicas) !== replicas) setMember(after, paths.specReplicas, replicas)
      write.read(after)
      const object = context.change.update(held.object, after, write.changeRequest({ verb: 'patch' }))
      response = scaleOf(object, paths)
      return write.lease.put(held, object)
    },
    options,
  )
  const metadata = member(response ?? undefined, 'metadata')
  if (isRecord(metadata) && changed.stored !== null) metadata['resourceVersion'] = String(changed.stored.modRevision)
  const json = encodeJsonTree(response ?? missing())
  return { kind: 'document', code: 200, json, warnings: write.warnings.texts }
}

/** @throws InvalidError */
function readReplicas(scale: JsonRecord, name: string): number {
  const given = member(scale, 'spec', 'replicas') ?? 0
  const replicas = given instanceof JsonNumber && !/[.e]/i.test(given.text) ? storedNumber(given) : given
  const problems: FieldProblem[] = []
  if (!isNumber(replicas)) problems.push(wrongType('spec.replicas', typeof replicas, 'must be an integer'))
  else if (typeof replicas !== 'number' || !Number.isInteger(replicas) || replicas < 0 || replicas > 0x7fff_ffff) {
    problems.push(invalid('spec.replicas', replicas, 'must be greater than or equal to 0'))
  }
  if (problems.length > 0) throw InvalidError.forFields(SCALE.kind, SCALE.group, name, problems)
  return replicas as number
}

function whole({ contentType, body }: WriteRequest, schema: Schema): (scale: JsonRecord) => JsonRecord {
  const { value } = readObject(contentType, body, schema)
  checkType(value, SCALE)
  const problem = typeProblem(value, scaleShape(schema))
  if (problem !== null) throw unreadableAs(SCALE, problem)
  return () => value
}

function partial(contentType: string | undefined, body: Buffer): (scale: JsonRecord) => JsonRecord {
  const patch = readPatch(contentType, body, true)
  if (patch.type === 'application/apply-patch+yaml') {
    throw new BadRequestError('apply is not supported for scale: send a merge patch, or apply the object')
  }
  return (scale) => patched(scale, patch, ANY)
}

const scaleShape = oncePer((schema: Schema) => new BuiltInShapes(schema).ofKind(apiVersion(SCALE), SCALE.kind) ?? ANY)

function missing(): never {
  throw unknownResource()
}

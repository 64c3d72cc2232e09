/**
 * Turns a written object of a declared prefix into the bytes that etcd stores. Under such a prefix, only the value is
 * stored, which a client sends as `value`, `text` or `bytes`. The stored bytes alone determine how the value is read
 * back (`kubernetes/dialect/key-value-object.ts`): the text `true` has the same bytes as the value `true`.
 */
import { encodeJsonTree, isDeeperThan, type JsonRecord } from '../codec/json-tree.js'
import { VALUE_MEMBERS } from '../dialect/key-value-object.js'
import type { ServedResource } from '../dialect/resource-registry.js'
import { InvalidError } from '../model/status.js'
import { type FieldProblem, forbiddenField, invalid, required } from './field-errors.js'
import { nameProblem } from './object-names.js'
import { MAX_JSON_DEPTH } from '../model/limits.js'

/**
 * Members that a client may send along with a value, because reads return them. They are not stored, because the
 * server and the key determine them.
 */
const KEPT: ReadonlySet<string> = new Set([
  'apiVersion',
  'kind',
  'metadata',
  'key',
  'keyBytes',
  'createRevision',
  'version',
  'lease',
  'metadata.name',
  'metadata.namespace',
  'metadata.resourceVersion',
  'metadata.creationTimestamp',
  'metadata.managedFields',
])

type ValueMember = (typeof VALUE_MEMBERS)[number]

/**
 * Returns null if the resource holds objects.
 * @param held the object to which a patch was applied. A patch that adds another form of the value replaces the
 * current one.
 * @throws InvalidError
 */
export function bareValueOf(
  { resource }: ServedResource,
  object: JsonRecord,
  name: string,
  held?: JsonRecord,
): Buffer | null {
  if (resource.holds !== 'values') return null
  const problems: FieldProblem[] = []
  const bad = nameProblem(resource, name)
  if (bad !== null) problems.push(invalid('metadata.name', name, bad))
  const metadata = object['metadata']
  const inMetadata = typeof metadata === 'object' && metadata !== null ? Object.keys(metadata) : []
  for (const field of [...Object.keys(object), ...inMetadata.map((one) => `metadata.${one}`)]) {
    if (!KEPT.has(field) && !isValueMember(field))
      problems.push(forbiddenField(field, 'the value of a key cannot have this field'))
  }
  const given = VALUE_MEMBERS.filter((member) => isGiven(object, member))
  const [member, other] = given.length > 1 && held !== undefined ? given.filter((one) => !isGiven(held, one)) : given
  if (member === undefined) problems.push(required('value', 'value, text or bytes is required'))
  if (other !== undefined) problems.push(forbiddenField(other, `may not be given together with ${member}`))
  const bytes = member === undefined ? null : bytesOf(object, member, problems)
  if (problems.length > 0 || bytes === null) throw InvalidError.forFields(resource.kind, resource.group, name, problems)
  return bytes
}

function isValueMember(field: string): field is ValueMember {
  return (VALUE_MEMBERS as readonly string[]).includes(field)
}

/** Whether the member has a value. Only `value` itself may be null. */
function isGiven(object: JsonRecord, member: ValueMember): boolean {
  const given = object[member]
  return given !== undefined && (member === 'value' || given !== null)
}

function bytesOf(object: JsonRecord, member: ValueMember, problems: FieldProblem[]): Buffer | null {
  const given = object[member]!
  if (member === 'value') {
    if (!isDeeperThan(given, MAX_JSON_DEPTH - 1)) return encodeJsonTree(given)
    problems.push(forbiddenField(member, `may not be nested more than ${MAX_JSON_DEPTH - 1} deep`))
    return null
  }
  if (typeof given !== 'string') {
    problems.push(invalid(member, given, 'must be a string'))
    return null
  }
  if (member === 'text') return Buffer.from(given, 'utf8')
  const bytes = Buffer.from(given, 'base64')
  const digits = bytes.toString('base64').replaceAll('=', '')
  if (given.startsWith(digits) && /^=*$/.test(given.slice(digits.length))) return bytes
  problems.push(invalid(member, given, 'is not base64'))
  return null
}

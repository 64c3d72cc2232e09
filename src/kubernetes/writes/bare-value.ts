/**
 * A value under a declared prefix need not be an object. A body that has `text` or `base64` is written as these bytes
 * alone, and is read back the same way (`kubernetes/dialect/key-value-object.ts`).
 */
import { type JsonRecord, textMember } from '../codec/json-tree.js'
import { isEnvelope } from '../codec/ingest.js'
import type { ServedResource } from '../dialect/resource-registry.js'
import { InvalidError } from '../../engine/model/status.js'
import { type FieldProblem, forbiddenField, invalid } from './field-errors.js'
import { nameProblem } from './object-names.js'

/**
 * The metadata members that a bare value may be sent with. They are not stored, since a bare value has no place for
 * metadata.
 */
const KEPT: ReadonlySet<string> = new Set([
  'name',
  'namespace',
  'resourceVersion',
  'creationTimestamp',
  'managedFields',
])

/** Returns null when the body is an object and is stored as one. @throws InvalidError */
export function bareValueOf(served: ServedResource, object: JsonRecord, name: string): Buffer | null {
  if (served.origin !== 'declared') return null
  const { text, base64 } = object
  if (typeof text !== 'string' && typeof base64 !== 'string') return null
  const problems: FieldProblem[] = []
  const bad = nameProblem(served.resource, name)
  if (bad !== null) problems.push(invalid('metadata.name', name, bad))
  const metadata = object['metadata']
  for (const field of typeof metadata === 'object' && metadata !== null ? Object.keys(metadata) : []) {
    if (!KEPT.has(field)) problems.push(forbiddenField(`metadata.${field}`, 'a bare value has no place for it'))
  }
  if (typeof text === 'string' && typeof base64 === 'string') {
    problems.push(forbiddenField('base64', 'may not be given together with text'))
  }
  const bytes = Buffer.from(textMember(object, 'base64'), 'base64')
  if (typeof base64 === 'string' && bytes.toString('base64').replace(/=+$/, '') !== base64.replace(/=+$/, '')) {
    problems.push(invalid('base64', base64, 'is not base64'))
  }
  const value = typeof text === 'string' ? Buffer.from(text, 'utf8') : bytes
  if (isEnvelope(value)) {
    const field = typeof text === 'string' ? 'text' : 'base64'
    problems.push(forbiddenField(field, 'may not begin like an object that Kubernetes has encrypted or encoded'))
  }
  if (problems.length > 0) throw InvalidError.forFields(served.resource.kind, served.resource.group, name, problems)
  return value
}

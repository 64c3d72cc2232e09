/**
 * Checks whether Kubernetes would accept a manifest. Every field is looked up in the schema that the server itself
 * carries, which is generated from Kubernetes' own descriptors: this finds misspelt and misplaced fields, values of the
 * wrong type, and missing fields that the OpenAPI requires. Values that only Kubernetes' validation rejects are not
 * found.
 */
import { missingFields } from './required-fields.js'
import { type Field, type Message, kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'

export interface KubernetesObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly [field: string]: unknown }
  readonly [field: string]: unknown
}

/** The groups of operators, which have their own schemas. */
export const FOREIGN_GROUPS = ['cert-manager.io/', 'monitoring.coreos.com/', 'gateway.networking.k8s.io/']

const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/
const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/

/** Returns one line for each problem. */
export function problemsOf(object: KubernetesObject): string[] {
  const name = `${object.kind}/${object.metadata?.name}`
  const problems = NAME.test(object.metadata?.name) ? [] : [`${name} is not a name`]
  for (const [label, value] of Object.entries((object.metadata?.['labels'] ?? {}) as Record<string, string>)) {
    if (!LABEL_VALUE.test(value)) problems.push(`${name}: label ${label}=${value}`)
  }
  if (FOREIGN_GROUPS.some((group) => object.apiVersion.startsWith(group))) return problems
  const message = kubernetesSchema().messageOfKind(object.apiVersion, object.kind)
  if (message === undefined) return [...problems, `${name}: no such kind in ${object.apiVersion}`]
  const { apiVersion: _1, kind: _2, ...rest } = object
  return [...problems, ...missingFields(object), ...inMessage(message, rest, name)]
}

function inMessage(message: Message, value: unknown, path: string): string[] {
  if (message.form !== 'object') return []
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [`${path} is not an object`]
  const fields = fieldsOf(message)
  return Object.entries(value).flatMap(([key, inner]) => {
    const field = fields.get(key)
    return field === undefined ? [`${path}.${key} is not known`] : inField(field, inner, `${path}.${key}`)
  })
}

function fieldsOf(message: Message): Map<string, Field> {
  const fields = new Map<string, Field>()
  for (const field of message.fields) {
    if (field.jsonName !== '') fields.set(field.jsonName, field)
    else for (const [name, inner] of fieldsOf(kubernetesSchema().message(field.messageName)!)) fields.set(name, inner)
  }
  return fields
}

function inField(field: Field, value: unknown, path: string): string[] {
  if (value === null) return []
  if (field.label === 'repeated') {
    if (!Array.isArray(value)) return [`${path} is not a list`]
    return value.flatMap((item, i) => one(field, item, `${path}[${i}]`))
  }
  if (field.label === 'map') {
    if (typeof value !== 'object' || Array.isArray(value)) return [`${path} is not a map`]
    return Object.entries(value).flatMap(([key, item]) => one(field, item, `${path}[${key}]`))
  }
  return one(field, value, path)
}

function one(field: Field, value: unknown, path: string): string[] {
  switch (field.type) {
    case 'message': {
      const message = kubernetesSchema().message(field.messageName)
      return message === undefined ? [`${path}: no schema for ${field.messageName}`] : inMessage(message, value, path)
    }
    case 'bool':
      return typeof value === 'boolean' ? [] : [`${path} is not true or false`]
    case 'string':
      return typeof value === 'string' ? [] : [`${path} is not a string`]
    case 'int32':
    case 'int64':
      return Number.isSafeInteger(value) ? [] : [`${path} is not a whole number`]
    case 'quantity':
    case 'intorstring':
      return typeof value === 'string' || typeof value === 'number' ? [] : [`${path} is neither number nor string`]
    default:
      return []
  }
}

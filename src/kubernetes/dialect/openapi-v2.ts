/**
 * Builds the OpenAPI v2 document from the v3 documents. It has the same content, in the older grammar and in one piece.
 * Tools that merge and compare objects (Argo CD, `kubectl` before 1.27) build the schema of every kind from its
 * definitions, which they find by `x-kubernetes-group-version-kind`.
 *
 * Source: the API server drops what the older grammar cannot express: oneOf, anyOf, not and nullable, and allOf except
 * for a lone reference. It also drops the members of schemas that allow anything, because its clients could not read
 * them.
 */
import { isObject } from '../../support/fields.js'
import type { JsonSchema } from './openapi-schema.js'

/** One v3 document. */
export interface V3Part {
  readonly paths: Readonly<Record<string, JsonSchema>>
  readonly schemas: Readonly<Record<string, JsonSchema>>
}

export interface V2Document {
  readonly swagger: '2.0'
  readonly info: { readonly title: string; readonly version: string }
  readonly paths: Readonly<Record<string, JsonSchema>>
  readonly definitions: Readonly<Record<string, JsonSchema>>
}

export function openApiV2(info: V2Document['info'], parts: Iterable<V3Part>): V2Document {
  const paths: Record<string, JsonSchema> = {}
  const definitions: Record<string, JsonSchema> = {}
  for (const part of parts) {
    for (const [path, item] of Object.entries(part.paths)) paths[path] = pathItem(item)
    for (const [name, schema] of Object.entries(part.schemas)) definitions[name] ??= definition(schema)
  }
  return { swagger: '2.0', info, paths, definitions }
}

/**
 * A kind is an object, whatever else it may contain. If it keeps unknown members, its schema says nothing more. A
 * quantity, for which v3 names two types, is a string.
 */
function definition(schema: JsonSchema): JsonSchema {
  const { type = 'oneOf' in schema ? 'string' : undefined } = schema
  const known = type === 'object' || type === 'string' ? { type } : {}
  return { ...known, ...v2Schema(schema[KEEPS_UNKNOWN] === true ? ofKind(schema) : schema) }
}

function ofKind(schema: JsonSchema): JsonSchema {
  return mapMembers(schema, (value, name) => (OF_KIND.has(name) ? value : undefined))
}

const KEEPS_UNKNOWN = 'x-kubernetes-preserve-unknown-fields'
const OF_KIND: ReadonlySet<string> = new Set([
  'description',
  'x-kubernetes-group-version-kind',
  'x-kubernetes-selectable-fields',
])
const OF_EMBEDDED: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata'])

const METHODS = new Set(['get', 'put', 'post', 'delete', 'patch'])

function pathItem(item: JsonSchema): JsonSchema {
  return mapMembers(item, (value, name) => {
    if (METHODS.has(name)) return operation(value as JsonSchema)
    return name === 'parameters' ? parameters(value) : undefined
  })
}

function operation(operation: JsonSchema): JsonSchema {
  const { requestBody, parameters: given, responses, ...rest } = operation
  const types = requestBody === undefined ? [] : Object.keys((requestBody as { content: object }).content)
  const body = { name: 'body', in: 'body', required: true, schema: { type: 'object' } }
  const all = [...(types.length === 0 ? [] : [body]), ...(given === undefined ? [] : parameters(given))]
  return {
    ...rest,
    ...(types.length === 0 ? {} : { consumes: types }),
    produces: ['application/json', 'application/yaml'],
    ...(all.length === 0 ? {} : { parameters: all }),
    responses: mapMembers(responses as JsonSchema, (response) => v2Response(response as V3Response)),
  }
}

interface V3Response {
  readonly description: string
  readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>
}

function v2Response({ description, content = {} }: V3Response): JsonSchema {
  const schema = content['application/json']?.schema
  return schema === undefined ? { description } : { description, schema: v2Schema(schema) }
}

/** v3 describes a parameter in its schema, v2 in the parameter itself. */
function parameters(given: unknown): readonly JsonSchema[] {
  return (given as readonly JsonSchema[]).map(({ schema, ...rest }) => ({ ...rest, ...(schema as JsonSchema) }))
}

/** Keywords that only v3 has, and `default`, which clients would apply. */
const LEFT_OUT: ReadonlySet<string> = new Set(['oneOf', 'anyOf', 'allOf', 'not', 'nullable', 'default'])

function v2Schema(schema: JsonSchema): JsonSchema {
  const { $ref, allOf } = schema
  if (typeof $ref === 'string') return { $ref: $ref.replace('#/components/schemas/', '#/definitions/') }
  const only: unknown = Array.isArray(allOf) && allOf.length === 1 ? allOf[0] : undefined
  if (isObject(only) && '$ref' in only) return { ...v2Schema({ ...schema, allOf: undefined }), ...v2Schema(only) }
  const keepsUnknown = schema[KEEPS_UNKNOWN] === true
  const isAnything = schema['nullable'] === true || keepsUnknown
  const isEmbedded = schema['x-kubernetes-embedded-resource'] === true
  const isLeftOut = (member: string): boolean => isAnything && (keepsUnknown || !isEmbedded || !OF_EMBEDDED.has(member))
  return mapMembers(schema, (value, name) => {
    if (LEFT_OUT.has(name)) return undefined
    // For these clients, a list or an object without further details has no type.
    if (name === 'type') return isAnything || (value === 'array' && schema['items'] === undefined) ? undefined : value
    if (name === 'properties') {
      const left = mapMembers(value as JsonSchema, (one, of) =>
        isLeftOut(of) ? undefined : v2Schema(one as JsonSchema),
      )
      return isAnything && Object.keys(left).length === 0 ? undefined : left
    }
    if (name === 'items') return isAnything ? undefined : v2Schema(value as JsonSchema)
    if (name === 'required') return required(schema, value as readonly string[], keepsUnknown && isEmbedded)
    return name === 'additionalProperties' && typeof value === 'object' ? v2Schema(value as JsonSchema) : value
  })
}

/**
 * A member that may be null cannot be required, because v2 has no `nullable` and would reject the null.
 *
 * @param hasImplicitType whether the schema is of an embedded object whose type is not among its members.
 */
function required(
  schema: JsonSchema,
  names: readonly string[],
  hasImplicitType: boolean,
): readonly string[] | undefined {
  const properties = (schema['properties'] ?? {}) as Readonly<Record<string, JsonSchema>>
  const left = names.filter(
    (name) => properties[name]?.['nullable'] !== true && !(hasImplicitType && ['kind', 'apiVersion'].includes(name)),
  )
  return left.length === 0 ? undefined : left
}

/** Maps members by name. Members for which `map` returns undefined are dropped. */
function mapMembers(members: JsonSchema, map: (value: unknown, name: string) => unknown): JsonSchema {
  const mapped = Object.entries(members).map(([name, value]) => [name, map(value, name)] as const)
  return Object.fromEntries(mapped.filter(([, value]) => value !== undefined))
}

/** A custom resource definition as a client posts it, and parts that several definitions share. */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }
export type JsonObject = { readonly [name: string]: Json }

export interface Version {
  readonly name: string
  readonly served?: boolean
  readonly storage?: boolean
  readonly deprecated?: boolean
  readonly deprecationWarning?: string
  /** The structural schema; without it, all fields are kept. */
  readonly schema?: JsonObject
  readonly additionalPrinterColumns?: readonly JsonObject[]
  /** JSON paths. */
  readonly selectableFields?: readonly string[]
  readonly subresources?: JsonObject
}

export interface Definition {
  readonly group: string
  readonly kind: string
  readonly plural: string
  readonly singular?: string
  readonly shortNames?: readonly string[]
  readonly categories?: readonly string[]
  readonly scope: 'Namespaced' | 'Cluster'
  readonly conversion?: JsonObject
  /** The API server must not serve it: its names are taken by another definition. */
  readonly isRefused?: boolean
  readonly versions: readonly Version[]
}

/** The definition that a client would post. @param metadata other than its name. */
export function definitionObject(definition: Definition, metadata: JsonObject = {}): JsonObject {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${definition.plural}.${definition.group}`, ...metadata },
    spec: definitionSpec(definition),
  }
}

/** The status of a definition that is served. */
export const ESTABLISHED = { conditions: [{ type: 'Established', status: 'True' }] } as const

export function definitionSpec(definition: Definition): JsonObject {
  const { group, kind, plural, singular, shortNames, categories, scope, conversion, versions } = definition
  const names = {
    plural,
    kind,
    singular: singular ?? kind.toLowerCase(),
    listKind: `${kind}List`,
    ...(shortNames ? { shortNames } : {}),
    ...(categories ? { categories } : {}),
  }
  const full = versions.map(({ schema = anything, selectableFields, ...version }) => ({
    served: true,
    storage: false,
    ...version,
    schema: { openAPIV3Schema: schema },
    ...(selectableFields ? { selectableFields: selectableFields.map((jsonPath) => ({ jsonPath })) } : {}),
  }))
  return { group, names, scope, ...(conversion ? { conversion } : {}), versions: full as unknown as Json }
}

export function column(name: string, type: string, jsonPath: string, more: JsonObject = {}): JsonObject {
  return { name, type, jsonPath, ...more }
}

export const text = { type: 'string' } as const
export const flag = { type: 'boolean' } as const
export const integer = { type: 'integer', format: 'int64' } as const
export const int32 = { type: 'integer', format: 'int32' } as const
export const dateTime = { type: 'string', format: 'date-time' } as const
export const bytes = { type: 'string', format: 'byte' } as const
/** An object that keeps all its members. */
export const anything = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } as const

export function object(properties: JsonObject, more: JsonObject = {}): JsonObject {
  return { type: 'object', properties, ...more }
}

export function mapOf(values: JsonObject | true): JsonObject {
  return { type: 'object', additionalProperties: values }
}

export function listOf(items: JsonObject): JsonObject {
  return { type: 'array', items }
}

/** A list whose items are identified by one of their members. */
export function listBy(key: string, items: JsonObject): JsonObject {
  return { ...listOf(items), 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': [key] }
}

export const conditions = listBy(
  'type',
  object(
    { type: text, status: text, reason: text, message: text, lastTransitionTime: dateTime },
    { required: ['type', 'status'] },
  ),
)

export const AGE = column('Age', 'date', '.metadata.creationTimestamp')

/** A column with the status of a condition. */
export function conditionColumn(name: string, type: string): JsonObject {
  return column(name, 'string', `.status.conditions[?(@.type=='${type}')].status`)
}

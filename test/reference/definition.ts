/** A definition of a custom resource as a client posts it, and the parts that several are made of. */
import { printLossless } from './lossless.js'

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }
export type JsonObject = { readonly [name: string]: Json }

export interface Version {
  readonly name: string
  readonly served?: boolean
  readonly storage?: boolean
  readonly deprecated?: boolean
  readonly deprecationWarning?: string
  readonly schema?: { readonly openAPIV3Schema: JsonObject }
  readonly additionalPrinterColumns?: readonly JsonObject[]
  readonly selectableFields?: readonly { readonly jsonPath: string }[]
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
  /** The API server is not to serve it: another definition has its names. */
  readonly isRefused?: boolean
  readonly versions: readonly Version[]
}

/** The object that a client would post, as JSON. */
export function definitionText(definition: Definition): string {
  return printLossless({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${definition.plural}.${definition.group}` },
    spec: definitionSpec(definition),
  })
}

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
  const full = versions.map((version) => ({ served: true, storage: false, schema: anySchema, ...version }))
  return { group, names, scope, ...(conversion ? { conversion } : {}), versions: full as unknown as Json }
}

export function column(name: string, type: string, jsonPath: string, more: JsonObject = {}): JsonObject {
  return { name, type, jsonPath, ...more }
}

export const anySchema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } } as const

export function object(properties: JsonObject, more: JsonObject = {}): JsonObject {
  return { type: 'object', properties, ...more }
}

export const text = { type: 'string' } as const
export const integer = { type: 'integer', format: 'int64' } as const
export const listOf = (items: JsonObject): JsonObject => ({ type: 'array', items })

export const conditions: JsonObject = {
  ...listOf(
    object(
      {
        type: text,
        status: text,
        reason: text,
        message: text,
        lastTransitionTime: { type: 'string', format: 'date-time' },
      },
      { required: ['type', 'status'] },
    ),
  ),
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['type'],
}

export const AGE = column('Age', 'date', '.metadata.creationTimestamp')

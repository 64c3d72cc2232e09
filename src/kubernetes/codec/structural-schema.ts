/**
 * The parts of a definition's schema that change objects: which members and which nulls are kept, and what defaults
 * are filled in. The form is compiled once per schema. It does not check whether values are valid.
 *
 * Source: k8s.io/apiextensions-apiserver, which calls this a structural schema.
 */
import { isRecord, type Json, JsonNumber, treeFrom } from './json-tree.js'
import { pruneUnknown, type Structural } from './structural-change.js'
import { isObject } from '../../support/fields.js'
import { oncePer } from '../../support/memo.js'

/** A schema as parsed by `JSON.parse`. */
export type OpenApiSchema = Readonly<Record<string, unknown>>

export const structuralOf = oncePer(compile)

function compile(schema: OpenApiSchema): Structural {
  const properties = new Map<string, Structural>()
  const given = schema['properties']
  if (isObject(given)) {
    for (const [name, inner] of Object.entries(given)) if (isObject(inner)) properties.set(name, compile(inner))
  }
  const { additionalProperties, items } = schema
  const additional = isObject(additionalProperties)
    ? compile(additionalProperties)
    : additionalProperties === undefined
      ? null
      : 'nothing'
  const inItems = isObject(items) ? compile(items) : null
  const inner = [...properties.values(), ...(additional === 'nothing' ? [] : [additional]), inItems]
  const isEmbedded = schema['x-kubernetes-embedded-resource'] === true
  const structural: Structural = {
    properties,
    additional,
    items: inItems,
    keepsUnknown: schema['x-kubernetes-preserve-unknown-fields'] === true,
    isEmbedded,
    isNullable: schema['nullable'] === true,
    defaultValue: undefined,
    defaulted: [...properties].flatMap(([name, { defaultValue, isNullable }]) =>
      defaultValue === undefined ? [] : [[name, defaultValue, isNullable] as const],
    ),
    hasDefaults: inner.some((one) => one !== null && (one.hasDefaults || one.defaultValue !== undefined)),
    hasLongNumbers: inner.some((one) => one?.hasLongNumbers === true),
    hasEmbedded: isEmbedded || inner.some((one) => one?.hasEmbedded === true),
  }
  const byDefault = schema['default']
  if (byDefault === undefined || byDefault === null) return structural
  const defaultValue = treeFrom(byDefault)
  pruneUnknown(defaultValue, structural)
  return { ...structural, defaultValue, hasLongNumbers: structural.hasLongNumbers || hasLongNumber(defaultValue) }
}

function hasLongNumber(value: Json): boolean {
  if (Array.isArray(value)) return value.some(hasLongNumber)
  return value instanceof JsonNumber || (isRecord(value) && Object.values(value).some(hasLongNumber))
}

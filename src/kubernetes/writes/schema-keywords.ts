/**
 * The keywords of one schema in a definition (OpenAPI v3). A schema is read only when a value reaches it, because a
 * definition may have tens of thousands of properties, of which an object has a few. Compiling schemas to functions
 * was rejected, because it took 11 seconds for 20,000 properties.
 */
import { exactCopy } from '../codec/exact-json.js'
import { canonicalText, type Json, treeFrom } from '../codec/json-tree.js'
import { compilePattern, type Pattern } from './pattern.js'
import { field, isObject, listAt } from '../../support/fields.js'
import { getOrMake, oncePer } from '../../support/memo.js'

export type Schema = Readonly<Record<string, unknown>>

const TYPES: ReadonlySet<string> = new Set(['string', 'integer', 'number', 'boolean', 'object', 'array', 'null'])
const JUNCTORS = ['allOf', 'anyOf', 'oneOf'] as const
const BOUNDS = [
  'minimum',
  'maximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
] as const

/** Returns the allowed types; empty means any type. */
export function typesOf(schema: Schema): readonly string[] {
  if (isIntOrString(schema)) return ['integer', 'string']
  const { type } = schema
  if (typeof type !== 'string') return []
  return schema['nullable'] === true ? [type, 'null'] : [type]
}

function isIntOrString(schema: Schema): boolean {
  return schema['x-kubernetes-int-or-string'] === true
}

export function boundOf(schema: Schema, name: (typeof BOUNDS)[number]): number | undefined {
  const value = schema[name]
  return typeof value === 'number' || typeof value === 'bigint' ? Number(value) : undefined
}

/** Returns the schema of a member; undefined if it is not declared. */
export function propertyOf(schema: Schema, name: string): Schema | undefined {
  const property = field(schema, 'properties', name)
  return isObject(property) ? property : undefined
}

/** Returns the schema under one of the schema's keywords. */
export function innerOf(schema: Schema, name: 'items' | 'not' | 'additionalProperties'): Schema | undefined {
  const inner = schema[name]
  return isObject(inner) ? inner : undefined
}

export function branchesOf(schema: Schema, name: (typeof JUNCTORS)[number]): readonly Schema[] {
  return isIntOrString(schema) ? [] : listAt(schema, name).filter(isObject)
}

const patterns = new WeakMap<Schema, Pattern | null>()

/** @param onUnusable receives a pattern that does not compile. Such a pattern then allows everything. */
export function patternOf(schema: Schema, source: string, onUnusable: (problem: string) => void): Pattern | null {
  return getOrMake(patterns, schema, () => {
    try {
      return compilePattern(source)
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
      // A definition with such a pattern is rejected here, but one in etcd may have been written elsewhere.
      onUnusable(error.message)
      return null
    }
  })
}

export interface Enumeration {
  readonly values: readonly unknown[]
  has(value: Json): boolean
}

/** Returns undefined if any value is allowed. */
export function enumerationOf(schema: Schema): Enumeration | undefined {
  return Array.isArray(schema['enum']) ? enumerationIn(schema) : undefined
}

const enumerationIn = oncePer((schema: Schema): Enumeration => {
  const given = schema['enum'] as readonly unknown[]
  const values = schema['nullable'] === true ? [...given, null] : given
  const texts = new Set(values.map((value) => canonicalText(treeFrom(value))))
  const hasContainers = values.some((value) => typeof value === 'object' && value !== null)
  return {
    values,
    has: (value) => {
      const plain = exactCopy(value)
      if (typeof plain === 'object' && plain !== null && !hasContainers) return false
      return texts.has(canonicalText(treeFrom(plain)))
    },
  }
})

/** Returns what is wrong with the schema itself, checking all of it; null if it can be used. */
export function schemaProblem(schema: unknown): string | null {
  if (!isObject(schema)) return null
  const { type, pattern } = schema
  if (type !== undefined && type !== '' && (typeof type !== 'string' || !TYPES.has(type))) {
    return `type ${JSON.stringify(type)} is not one of ${[...TYPES].join(', ')}`
  }
  for (const name of BOUNDS) {
    if ((schema[name] ?? null) !== null && boundOf(schema, name) === undefined) return `${name} must be a number`
  }
  for (const name of ['enum', 'required', ...JUNCTORS]) {
    const list = schema[name]
    if (list !== undefined && list !== null && !Array.isArray(list)) return `${name} must be an array`
  }
  if (typeof pattern === 'string') {
    try {
      compilePattern(pattern)
    } catch (error) {
      if (error instanceof SyntaxError) return error.message
      throw error
    }
  }
  const { properties } = schema
  const inner = [schema['items'], schema['not'], schema['additionalProperties']]
  for (const name of JUNCTORS) if (Array.isArray(schema[name])) inner.push(...(schema[name] as unknown[]))
  if (isObject(properties)) inner.push(...Object.values(properties))
  for (const each of inner) {
    const problem = schemaProblem(each)
    if (problem !== null) return problem
  }
  return null
}

/**
 * One place in a definition's OpenAPI v3 schema, read when a value first reaches it: a definition may have tens of
 * thousands of properties, of which an object has a few. Compiling schemas to functions was rejected: it took 11
 * seconds for 20,000 properties.
 */
import { exactCopy } from '../codec/exact-json.js'
import { canonicalText, type Json, treeFrom } from '../codec/json-tree.js'
import { compilePattern, type Pattern } from './pattern.js'
import { isObject } from '../../support/fields.js'

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
type Bound = (typeof BOUNDS)[number]

export interface Enumeration {
  readonly values: readonly unknown[]
  has(value: Json): boolean
}

export class SchemaNode {
  readonly types: readonly string[]
  readonly required: readonly string[]
  readonly format: string
  readonly requiresUniqueItems: boolean
  readonly #schema: Schema
  readonly #isRoot: boolean
  readonly #isIntOrString: boolean
  readonly #onUnusable: (problem: string) => void
  readonly #properties = new Map<string, SchemaNode | null>()
  #items: SchemaNode | null | undefined
  #additional: SchemaNode | null | undefined
  #not: SchemaNode | null | undefined
  #pattern: Pattern | null | undefined
  #enumeration: Enumeration | null | undefined
  readonly #junctors = new Map<string, readonly SchemaNode[]>()

  /** @param onUnusable receives a pattern that does not compile, which then allows everything. */
  constructor(schema: Schema, onUnusable: (problem: string) => void, isRoot = false) {
    this.#schema = schema
    this.#isRoot = isRoot
    this.#onUnusable = onUnusable
    this.#isIntOrString = schema['x-kubernetes-int-or-string'] === true
    this.types = typesOf(schema)
    this.required = strings(schema['required'])
    this.format = typeof schema['format'] === 'string' ? schema['format'] : ''
    this.requiresUniqueItems = schema['uniqueItems'] === true
  }

  bound(name: Bound): number | undefined {
    const value = this.#schema[name]
    return typeof value === 'number' || typeof value === 'bigint' ? Number(value) : undefined
  }

  isExclusive(name: 'minimum' | 'maximum'): boolean {
    return this.#schema[name === 'minimum' ? 'exclusiveMinimum' : 'exclusiveMaximum'] === true
  }

  get patternSource(): string {
    return typeof this.#schema['pattern'] === 'string' ? this.#schema['pattern'] : ''
  }

  get pattern(): Pattern | null {
    if (this.#pattern === undefined) {
      this.#pattern = null
      try {
        if (this.patternSource !== '') this.#pattern = compilePattern(this.patternSource)
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error
        // Rejected when a definition is written here; what is in etcd may have been written elsewhere.
        this.#onUnusable(error.message)
      }
    }
    return this.#pattern
  }

  get enumeration(): Enumeration | null {
    if (this.#enumeration === undefined) this.#enumeration = enumerationOf(this.#schema)
    return this.#enumeration
  }

  /** Returns the schema of a member; null if only `additional` covers it. */
  property(name: string): SchemaNode | null {
    const known = this.#properties.get(name)
    if (known !== undefined) return known
    const properties = this.#schema['properties']
    // The metadata of the object itself is checked by our own rules, whatever the schema says about it.
    const isOurs = this.#isRoot && (name === 'metadata' || name === 'apiVersion' || name === 'kind')
    const schema = isObject(properties) && Object.hasOwn(properties, name) && !isOurs ? properties[name] : undefined
    const node = this.#child(schema)
    if (node !== null) this.#properties.set(name, node)
    return node
  }

  isDeclared(name: string): boolean {
    const properties = this.#schema['properties']
    return isObject(properties) && Object.hasOwn(properties, name)
  }

  get additional(): SchemaNode | null {
    return (this.#additional ??= this.#child(this.#schema['additionalProperties']))
  }

  get items(): SchemaNode | null {
    return (this.#items ??= this.#child(this.#schema['items']))
  }

  get not(): SchemaNode | null {
    return (this.#not ??= this.#child(this.#schema['not']))
  }

  branches(name: (typeof JUNCTORS)[number]): readonly SchemaNode[] {
    const list = this.#schema[name]
    if (!Array.isArray(list) || this.#isIntOrString) return NONE
    let nodes = this.#junctors.get(name)
    if (nodes === undefined) {
      nodes = list.flatMap((schema) => this.#child(schema) ?? [])
      this.#junctors.set(name, nodes)
    }
    return nodes
  }

  #child(schema: unknown): SchemaNode | null {
    return isObject(schema) ? new SchemaNode(schema, this.#onUnusable) : null
  }
}

const NONE: readonly SchemaNode[] = []

/** Empty means any type. */
function typesOf(schema: Schema): readonly string[] {
  if (schema['x-kubernetes-int-or-string'] === true) return ['integer', 'string']
  const { type } = schema
  if (typeof type !== 'string') return []
  return schema['nullable'] === true ? [type, 'null'] : [type]
}

function enumerationOf(schema: Schema): Enumeration | null {
  const given = schema['enum']
  if (!Array.isArray(given)) return null
  const values: readonly unknown[] = schema['nullable'] === true ? [...(given as unknown[]), null] : given
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
}

/** Returns what is wrong with the schema itself, checking all of it; null if it can be used. */
export function schemaProblem(schema: unknown): string | null {
  if (!isObject(schema)) return null
  const { type, pattern } = schema
  if (type !== undefined && type !== '' && (typeof type !== 'string' || !TYPES.has(type))) {
    return `type ${JSON.stringify(type)} is not one of ${[...TYPES].join(', ')}`
  }
  for (const name of BOUNDS) {
    const bound = schema[name]
    if (bound !== undefined && bound !== null && typeof bound !== 'number') return `${name} must be a number`
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

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

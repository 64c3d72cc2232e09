/**
 * Applies the schema of a custom resource: fills in defaults, and reports each field that the schema does not allow.
 * ajv validates. Defaults, sets and keyed lists are handled by a walk of our own, because Kubernetes' rules for them
 * are not those of JSON Schema.
 *
 * CEL rules (`x-kubernetes-validations`) are not evaluated. A pattern is a JavaScript regular expression, not one of
 * RE2.
 *
 * Source: "Extend the Kubernetes API with CustomResourceDefinitions" of the Kubernetes documentation.
 */
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import formatsPlugin from 'ajv-formats'
import { LRUCache } from 'lru-cache'
import {
  canonicalText,
  cloneTree,
  isRecord,
  type Json,
  joinPath,
  type JsonRecord,
  plainCopy,
  treeFrom,
} from '../codec/json-tree.js'
import { duplicate, type FieldProblem, invalid, notSupported, required, wrongType } from './field-errors.js'
import { itemsByElement } from './field-set.js'
import type { Shape } from './shape.js'

type Schema = Readonly<Record<string, unknown>>

/** The most problems reported for one object: a broken client must not get megabytes back. */
const MAX_PROBLEMS = 64
const CACHED_SCHEMAS = 500

/** The OpenAPI v3 keywords that validate. Every other keyword of a definition is an annotation or is read elsewhere. */
const KEYWORDS: readonly string[] = [
  'type',
  'format',
  'enum',
  'minimum',
  'maximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
  'required',
]
const FORMATS = ['date', 'date-time', 'email', 'hostname', 'ipv4', 'ipv6', 'uri', 'uuid', 'byte', 'duration'] as const
/** The formats that Kubernetes adds, as its own validator understands them. */
const OWN_FORMATS: Readonly<Record<string, RegExp>> = {
  uuid3: /^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i,
  uuid4: /^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$/i,
  uuid5: /^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$/i,
  mac: /^([0-9a-f]{2}[:-]){5}[0-9a-f]{2}$/i,
  cidr: /^([0-9.]+|[0-9a-f:.]+)\/\d{1,3}$/i,
  hexcolor: /^#?([0-9a-f]{3}|[0-9a-f]{6})$/i,
  // A duration is written as in Go, not as in ISO 8601.
  duration: /^[-+]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w))+$|^0$/,
}

export class CustomSchemas {
  readonly #ajv: Ajv
  readonly #compiled = new LRUCache<Schema, ValidateFunction>({ max: CACHED_SCHEMAS })

  constructor() {
    this.#ajv = new Ajv({ allErrors: true, strict: false, validateSchema: false, verbose: true, logger: false })
    // The library's own check compares each item with each other one, and fails on objects without a prototype.
    this.#ajv.removeKeyword('uniqueItems')
    this.#ajv.addKeyword({
      keyword: 'uniqueItems',
      type: 'array',
      schemaType: 'boolean',
      validate: (wanted: boolean, items: readonly Json[]) =>
        !wanted || new Set(items.map(canonicalText)).size === items.length,
    })
    const addFormats = formatsPlugin as unknown as (ajv: Ajv, formats: readonly string[]) => void
    addFormats(this.#ajv, FORMATS)
    for (const [name, pattern] of Object.entries(OWN_FORMATS)) this.#ajv.addFormat(name, pattern)
  }

  /** @returns what is wrong with the schema itself, or null when it can be used. */
  problemOf(schema: Schema): string | null {
    try {
      this.#validator(schema)
      return null
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  }

  /**
   * @param shape the shape made from the same schema. @throws never: a schema that does not compile validates nothing.
   */
  validate(object: JsonRecord, schema: Schema, shape: Shape): readonly FieldProblem[] {
    const problems: FieldProblem[] = []
    const plain = plainCopy(object)
    let validate: ValidateFunction | null = null
    try {
      validate = this.#validator(schema)
    } catch {
      // Such a schema is refused when its definition is written through us. This one was stored by another writer.
    }
    if (validate !== null && !validate(plain)) {
      const known = new Set<string>()
      for (const error of validate.errors ?? []) {
        const problem = problemOfError(error)
        if (problem === null) continue
        const text = `${problem.field}\n${problem.message}`
        if (!known.has(text)) problems.push(problem)
        known.add(text)
        if (problems.length >= MAX_PROBLEMS) break
      }
    }
    findRepeated(object, shape, [], problems)
    return problems.slice(0, MAX_PROBLEMS)
  }

  #validator(schema: Schema): ValidateFunction {
    let compiled = this.#compiled.get(schema)
    if (compiled === undefined) {
      const translated = translate(schema) as Record<string, unknown>
      compiled = this.#ajv.compile(translated)
      // ajv keeps every schema it compiles, so it is told to forget this one: our own cache is the only one.
      this.#ajv.removeSchema(translated)
      this.#compiled.set(schema, compiled)
    }
    return compiled
  }
}

/** Translates OpenAPI v3 into JSON Schema. */
function translate(schema: unknown, isRoot = true): unknown {
  if (!isSchema(schema)) return schema === false ? false : {}
  const result: Record<string, unknown> = {}
  for (const keyword of KEYWORDS) if (schema[keyword] !== undefined) result[keyword] = schema[keyword]
  for (const bound of ['minimum', 'maximum'] as const) {
    const exclusive = bound === 'minimum' ? 'exclusiveMinimum' : 'exclusiveMaximum'
    if (schema[exclusive] !== true) continue
    result[exclusive] = result[bound]
    delete result[bound]
  }
  if (schema['x-kubernetes-int-or-string'] === true) {
    delete result['type']
    result['type'] = ['integer', 'string']
  }
  if (schema['nullable'] === true && result['type'] !== undefined) {
    result['type'] = [result['type'], 'null'].flat()
    if (Array.isArray(result['enum'])) result['enum'] = [...(result['enum'] as unknown[]), null]
  }
  const properties = schema['properties']
  if (isSchema(properties)) {
    const translated = Object.create(null) as Record<string, unknown>
    for (const [name, inner] of Object.entries(properties)) {
      // The object's own metadata is checked by our own rules, whatever the schema says about it.
      if (isRoot && (name === 'metadata' || name === 'apiVersion' || name === 'kind')) continue
      translated[name] = translate(inner, false)
    }
    result['properties'] = translated
  }
  if (isSchema(schema['additionalProperties']))
    result['additionalProperties'] = translate(schema['additionalProperties'], false)
  if (isSchema(schema['items'])) result['items'] = translate(schema['items'], false)
  if (isSchema(schema['not'])) result['not'] = translate(schema['not'], false)
  for (const junctor of ['allOf', 'anyOf', 'oneOf'] as const) {
    const list = schema[junctor]
    if (Array.isArray(list) && schema['x-kubernetes-int-or-string'] !== true) {
      result[junctor] = list.map((inner) => translate(inner, false))
    }
  }
  return result
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function problemOfError(error: ErrorObject): FieldProblem | null {
  const path = fieldPath(error.instancePath)
  const value = error.data
  const body = `${path} in body`
  const params = error.params as Record<string, unknown>
  switch (error.keyword) {
    case 'required': {
      const name = String(params['missingProperty'])
      return required(path === '' ? name : `${path}.${name}`)
    }
    case 'type': {
      const wanted = [params['type']].flat().map(String)
      const types = wanted.filter((type) => type !== 'null').join(',')
      return wrongType(path, typeName(value), `${body} must be of type ${types}: ${JSON.stringify(typeName(value))}`)
    }
    case 'enum':
      return notSupported(path, value, params['allowedValues'] as unknown[])
    case 'minimum':
    case 'exclusiveMinimum':
    case 'maximum':
    case 'exclusiveMaximum': {
      const isExclusive = error.keyword.startsWith('exclusive')
      const word = error.keyword.toLowerCase().includes('min') ? 'greater' : 'less'
      return invalid(
        path,
        value,
        `${body} should be ${word} than ${isExclusive ? '' : 'or equal to '}${String(params['limit'])}`,
      )
    }
    case 'minLength':
      return invalid(path, value, `${body} should be at least ${String(params['limit'])} chars long`)
    case 'maxLength':
      return invalid(path, value, `${body} should be at most ${String(params['limit'])} chars long`)
    case 'minItems':
      return invalid(path, value, `${body} should have at least ${String(params['limit'])} items`)
    case 'maxItems':
      return invalid(path, value, `${body} should have at most ${String(params['limit'])} items`)
    case 'minProperties':
      return invalid(path, value, `${body} should have at least ${String(params['limit'])} properties`)
    case 'maxProperties':
      return invalid(path, value, `${body} should have at most ${String(params['limit'])} properties`)
    case 'pattern':
      return invalid(path, value, `${body} should match '${String(params['pattern'])}'`)
    case 'format':
      return invalid(path, value, `${body} must be of type ${String(params['format'])}: ${JSON.stringify(value)}`)
    case 'multipleOf':
      return invalid(path, value, `${body} should be a multiple of ${String(params['multipleOf'])}`)
    case 'uniqueItems':
      return invalid(path, value, `${body} shouldn't contain duplicates`)
    case 'not':
      return invalid(path, value, `${body} must not validate the schema (not)`)
    case 'oneOf':
      return invalid(path, value, `${body} must validate one and only one schema (oneOf)`)
    case 'anyOf':
      return invalid(path, value, `${body} must validate at least one schema (anyOf)`)
    case 'false schema':
      return invalid(path, value, `${body} is not allowed`)
    default:
      return null
  }
}

/** Turns `/spec/containers/0/name` into `spec.containers[0].name`. */
function fieldPath(pointer: string): string {
  const names = pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
  return joinPath(names.map((name) => (/^\d+$/.test(name) ? `[${name}]` : name)))
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value === 'number' && Number.isInteger(value) ? 'integer' : typeof value
}

/** Finds the items of sets and keyed lists that occur twice. */
function findRepeated(value: Json | undefined, shape: Shape, path: readonly string[], problems: FieldProblem[]): void {
  if (problems.length >= MAX_PROBLEMS) return
  if (Array.isArray(value)) {
    if (shape.type === 'list' && shape.list !== 'atomic') {
      const seen = new Set<string>()
      value.forEach((item, i) => {
        const [element] = itemsByElement([item], shape)?.keys() ?? []
        if (element === undefined) return
        if (seen.has(element)) problems.push(duplicate(joinPath([...path, `[${i}]`]), plainCopy(keysOf(item, shape))))
        seen.add(element)
      })
    }
    value.forEach((item, i) => findRepeated(item, shape.items, [...path, `[${i}]`], problems))
  } else if (isRecord(value)) {
    for (const name in value) {
      const inner = shape.member(name)
      if (inner !== undefined && inner.type !== 'any') findRepeated(value[name], inner, [...path, name], problems)
    }
  }
}

function keysOf(item: Json, { keys, list }: Shape): Json {
  if (list === 'set' || !isRecord(item)) return item
  return treeFrom(Object.fromEntries(keys.map((key) => [key, item[key]])))
}

/** Fills in the schema's defaults for absent members. A null counts as absent where the schema does not allow null. */
export function fillDefaults(value: Json, schema: Schema): void {
  if (Array.isArray(value)) {
    const items = schema['items']
    if (isSchema(items)) for (const item of value) fillDefaults(item, items)
    return
  }
  if (!isRecord(value)) return
  const properties = isSchema(schema['properties']) ? schema['properties'] : {}
  for (const [name, inner] of Object.entries(properties)) {
    if (!isSchema(inner)) continue
    const present = Object.hasOwn(value, name) ? value[name] : undefined
    const isMissing = present === undefined || (present === null && inner['nullable'] !== true)
    if (isMissing && inner['default'] !== undefined) value[name] = cloneTree(treeFrom(inner['default']))
    if (Object.hasOwn(value, name)) fillDefaults(value[name]!, inner)
  }
  const additional = schema['additionalProperties']
  if (!isSchema(additional)) return
  for (const name in value) if (!Object.hasOwn(properties, name)) fillDefaults(value[name]!, additional)
}

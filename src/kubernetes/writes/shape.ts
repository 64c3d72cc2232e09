/**
 * The part of an object's schema that writes need: which members are declared, and how lists and maps are merged. The
 * shape of a built-in kind comes from the table of messages and from Kubernetes' OpenAPI documents. The shape of a
 * custom kind comes from the schema of its definition. A kind with neither gets `ANY`: every member is allowed, and a
 * list is one value.
 */
import { field, type Fields, isObject, textsAt } from '../../support/fields.js'
import { isRecord, type Json, record } from '../codec/json-tree.js'
import { factsOf, membersOf, type SchemaFacts } from '../codec/openapi-facts.js'
import { type Field, type Message, META_PACKAGE, OBJECT_META, type Schema } from '../codec/protobuf/schema.js'
import { getOrMake } from '../../support/memo.js'

export interface Shape {
  /** An `object` has declared members, a `map` any members of one shape; `any` means that the type is unknown. */
  readonly type: 'object' | 'map' | 'list' | 'scalar' | 'any'
  /** The type of a scalar, as named in the table of messages; '' if unknown. */
  readonly scalar: string
  /** The name of the type in Go, for messages: `int32`, `[]string`, `v1.PodSpec`; '' if unknown. */
  readonly goType: string
  /**
   * Returns the shape of a declared member of an object, or of any member of a map; undefined if it is not declared.
   */
  member(name: string): Shape | undefined
  /** The shape of a list's items. */
  readonly items: Shape
  /** For `any` with a few forms, such as a schema or a boolean: returns the shape of such a value; null if it has none. */
  readonly choose?: (value: Json) => Shape | null
  /** How a list is merged: as one value, as a set of scalars, or item by item with keys that identify an item. */
  readonly list: 'atomic' | 'set' | 'keyed'
  readonly keys: readonly string[]
  /** The defaults of keys. An item that omits a key is the same item as one with the default. */
  readonly keyDefaults: Readonly<Record<string, Json>>
  /** Whether a map or object belongs to one owner as a whole. */
  readonly isAtomic: boolean
  /** Whether undeclared members are kept. */
  readonly keepsUnknown: boolean
  /** Whether a strategic merge patch merges this list. Objects are matched by `patchKey`, which is '' for scalars. */
  readonly isPatchMerged: boolean
  readonly patchKey: string
}

const BASE: Omit<Shape, 'type' | 'member' | 'items'> = {
  scalar: '',
  goType: '',
  list: 'atomic',
  keys: [],
  keyDefaults: {},
  isAtomic: false,
  keepsUnknown: false,
  isPatchMerged: false,
  patchKey: '',
}

/** The shape that allows everything. */
export const ANY: Shape = {
  ...BASE,
  type: 'any',
  keepsUnknown: true,
  member: () => ANY,
  get items(): Shape {
    return ANY
  },
}

const SCALAR: Shape = { ...BASE, type: 'scalar', member: () => undefined, items: ANY }
const STRING: Shape = { ...SCALAR, scalar: 'string', goType: 'string' }

/** Scalars of the table that have another name in Go. */
const GO_TYPES: Readonly<Record<string, string>> = {
  bytes: '[]uint8',
  double: 'float64',
  float: 'float32',
  time: 'v1.Time',
  microtime: 'v1.MicroTime',
  duration: 'v1.Duration',
  quantity: 'resource.Quantity',
  intorstring: 'intstr.IntOrString',
}

/** Shapes of the built-in kinds. Each message's shape is built once. */
export class BuiltInShapes {
  readonly #messages = new Map<string, Shape>()

  constructor(private readonly source: Schema) {}

  /** Returns undefined for a kind missing from the table. */
  ofKind(apiVersion: string, kind: string): Shape | undefined {
    const message = this.source.messageOfKind(apiVersion, kind)
    return message === undefined ? undefined : withType(this.#message(message))
  }

  get objectMeta(): Shape {
    return this.#named(OBJECT_META)
  }

  get deleteOptions(): Shape {
    return withType(this.#named(`${META_PACKAGE}.DeleteOptions`))
  }

  #named(fullName: string): Shape {
    const message = this.source.message(fullName)
    return message === undefined ? ANY : this.#message(message)
  }

  #message(message: Message): Shape {
    return getOrMake(this.#messages, message.fullName, () => this.#make(message))
  }

  #make(message: Message): Shape {
    if (message.form === 'either') return this.#either(message)
    const [only] = message.fields
    if (message.form === 'items' && only !== undefined) return this.#field(only, {})
    const facts = factsOf(message.fullName)
    let members: ReadonlyMap<string, Shape> | null = null
    const shapes = (): ReadonlyMap<string, Shape> =>
      new Map(
        membersOf(message, this.source).map((field) => [
          field.jsonName,
          this.#field(field, facts.properties?.[field.jsonName] ?? {}),
        ]),
      )
    return {
      ...BASE,
      type: 'object',
      goType: goNameOf(message),
      items: ANY,
      isAtomic: isAtomicMap(facts),
      // Members are built on first use, because messages contain each other.
      member: (name) => (members ??= shapes()).get(name),
    }
  }

  #either(message: Message): Shape {
    const shapes = message.fields.map((field) => this.#field(field, {}))
    const choose = (value: Json): Shape | null => {
      const form = Array.isArray(value) ? 'list' : isRecord(value) ? 'object' : 'scalar'
      return shapes.find(({ type }) => type === form) ?? null
    }
    return { ...ANY, goType: goNameOf(message), choose }
  }

  #field({ label, type, messageName }: Field, facts: SchemaFacts): Shape {
    const value = this.#value(type, messageName)
    const isAtomic = isAtomicMap(facts)
    if (label === 'map') {
      const goType = value.goType === '' ? '' : `map[string]${value.goType}`
      return { ...BASE, type: 'map', goType, member: () => value, items: ANY, isAtomic }
    }
    if (label !== 'repeated') return isAtomic ? { ...value, isAtomic } : value
    const patchKey = facts['x-kubernetes-patch-merge-key']
    return {
      ...BASE,
      type: 'list',
      goType: value.goType === '' ? '' : `[]${value.goType}`,
      member: () => undefined,
      items: value,
      ...mergeOf(facts, factsOf(messageName)),
      isPatchMerged: String(facts['x-kubernetes-patch-strategy']).split(',').includes('merge'),
      patchKey: typeof patchKey === 'string' ? patchKey : '',
    }
  }

  #value(type: string, messageName: string): Shape {
    if (type === 'json') return ANY
    if (type !== 'message') return { ...SCALAR, scalar: type, goType: GO_TYPES[type] ?? type }
    return this.#named(messageName)
  }
}

function goNameOf({ fullName }: Message): string {
  return fullName.split('.').slice(-2).join('.')
}

function withType(shape: Shape): Shape {
  return { ...shape, member: (name) => (name === 'apiVersion' || name === 'kind' ? STRING : shape.member(name)) }
}

function isAtomicMap(facts: SchemaFacts): boolean {
  return facts['x-kubernetes-map-type'] === 'atomic'
}

/** Returns how a list is merged. @param items the facts about its items. */
function mergeOf(list: Fields, items: Fields): Pick<Shape, 'list' | 'keys' | 'keyDefaults'> {
  const type = list['x-kubernetes-list-type']
  const keys = textsAt(list, 'x-kubernetes-list-map-keys')
  const keyDefaults = record()
  for (const key of keys) {
    const value = field(items, 'properties', key, 'default')
    if (value !== undefined) keyDefaults[key] = value as Json
  }
  return { list: type === 'set' ? 'set' : type === 'map' ? 'keyed' : 'atomic', keys, keyDefaults }
}

/** Returns the shape of a custom resource. @param metadata the shape of every object's metadata. */
export function customShape(schema: Fields | undefined, metadata: Shape): Shape {
  const shape = schema === undefined ? ANY : schemaShape(schema)
  const known: Readonly<Record<string, Shape>> = { apiVersion: SCALAR, kind: SCALAR, metadata }
  return {
    ...shape,
    type: shape.type === 'any' ? 'any' : 'object',
    member: (name) => (Object.hasOwn(known, name) ? known[name] : shape.member(name)),
  }
}

function schemaShape(schema: Fields): Shape {
  const { properties, additionalProperties: additional, items } = schema
  const isAtomic = isAtomicMap(schema)
  const keepsUnknown = schema['x-kubernetes-preserve-unknown-fields'] === true
  if (isObject(items)) {
    let shape: Shape | null = null
    return {
      ...BASE,
      type: 'list',
      member: () => undefined,
      get items(): Shape {
        return (shape ??= schemaShape(items))
      },
      ...mergeOf(schema, items),
    }
  }
  if (isObject(additional)) {
    const shape = schemaShape(additional)
    return { ...BASE, type: 'map', member: () => shape, items: ANY, isAtomic }
  }
  if (!isObject(properties)) {
    if (additional === true || keepsUnknown || schema['type'] === undefined)
      return isAtomic ? { ...ANY, isAtomic } : ANY
    return schema['type'] === 'object'
      ? { ...BASE, type: 'object', member: () => undefined, items: ANY, isAtomic }
      : { ...SCALAR, scalar: schema['x-kubernetes-int-or-string'] === true ? '' : scalarOf(schema['type']) }
  }
  const isEmbedded = schema['x-kubernetes-embedded-resource'] === true
  const members = new Map<string, Shape>()
  return {
    ...BASE,
    type: 'object',
    items: ANY,
    isAtomic,
    keepsUnknown: keepsUnknown || additional === true,
    member: (name) => {
      const known = members.get(name)
      if (known !== undefined) return known
      const found = field(properties, name)
      if (!isObject(found)) return isEmbedded && EMBEDDED.has(name) ? ANY : keepsUnknown ? ANY : undefined
      const shape = schemaShape(found)
      members.set(name, shape)
      return shape
    },
  }
}

function scalarOf(type: unknown): string {
  const scalars: Readonly<Record<string, string>> = {
    string: 'string',
    boolean: 'bool',
    integer: 'int64',
    number: 'double',
  }
  return scalars[String(type)] ?? ''
}

const EMBEDDED: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata'])

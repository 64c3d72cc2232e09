/**
 * Applies a structural schema to an object, step by step and in place, for reads and writes: removes undeclared members
 * and nulls where none are allowed, cleans up the metadata of embedded objects, and fills in defaults.
 *
 * The steps work on a lossless tree, and also on the output of `JSON.parse` if the caller only inspects it. Each step
 * returns whether it changed anything.
 *
 * Source: the packages `pruning`, `defaulting` and `objectmeta` of k8s.io/apiextensions-apiserver.
 */
import { oncePer } from '../../support/memo.js'
import { MAX_ADDED_BYTES } from '../model/limits.js'
import { cloneTree, isRecord, type Json, jsonText, joinPath, type JsonRecord } from './json-tree.js'
import { orderlyMetadata } from './object-metadata.js'
import { CodecError } from './protobuf/codec-error.js'

/** The parts of a schema that change objects; created by `structural-schema.ts`. */
export interface Structural {
  readonly properties: ReadonlyMap<string, Structural>
  /**
   * The schema of all other members. `nothing` means that they are allowed but everything inside them is pruned; null
   * means that they are not allowed.
   */
  readonly additional: Structural | 'nothing' | null
  readonly items: Structural | null
  readonly keepsUnknown: boolean
  /** Whether the value is an object with its own type and metadata. */
  readonly isEmbedded: boolean
  readonly isNullable: boolean
  /** undefined without a default. */
  readonly defaultValue: Json | undefined
  /** The members with a default. */
  readonly defaulted: readonly (readonly [name: string, value: Json, isNullable: boolean])[]
  /** Whether any default is inside, at any depth. */
  readonly hasDefaults: boolean
  /** Whether a default, here or at any depth, has a number that only a lossless tree can hold. */
  readonly hasLongNumbers: boolean
  readonly hasEmbedded: boolean
}

const META = new Set(['apiVersion', 'kind', 'metadata'])

/** Collects the paths of removed members. */
export interface UnknownFields {
  readonly path: string[]
  readonly found: string[]
}

/** The most paths reported for one object, so that a broken client does not get megabytes back. */
const MAX_REPORTED = 64

/**
 * @param isRoot whether the value is a whole object, whose type and metadata stay.
 *
 * @param unknown receives the removed paths.
 * @param keeps whether the value keeps its unknown members (`x-kubernetes-preserve-unknown-fields`): only the contents
 * of declared members are pruned then.
 * @returns whether something was removed.
 */
export function pruneUnknown(
  value: Json,
  schema: Structural | null,
  isRoot = false,
  unknown: UnknownFields | null = null,
  keeps = schema?.keepsUnknown === true,
): boolean {
  let isChanged = false
  if (Array.isArray(value)) {
    const items = schema?.items ?? null
    if (keeps && items === null) return false
    for (let i = 0; i < value.length; i++) {
      unknown?.path.push(`[${i}]`)
      isChanged = pruneUnknown(value[i]!, items, false, unknown, keeps || items?.keepsUnknown === true) || isChanged
      unknown?.path.pop()
    }
    return isChanged
  }
  if (!isRecord(value) || (keeps && schema?.properties.size === 0 && schema.additional === null)) return false
  const keepsMeta = isRoot || schema?.isEmbedded === true
  for (const name of Object.keys(value)) {
    if (keepsMeta && META.has(name)) continue
    const inner = memberSchema(schema, name)
    if (inner === undefined && keeps) continue
    unknown?.path.push(name)
    if (inner !== undefined) isChanged = pruneUnknown(value[name]!, inner, false, unknown) || isChanged
    else {
      delete value[name]
      isChanged = true
      if (unknown !== null && unknown.found.length < MAX_REPORTED) unknown.found.push(joinPath(unknown.path))
    }
    unknown?.path.pop()
  }
  return isChanged
}

/** Removes nulls where null is not allowed and there is no default. */
export function pruneNulls(value: Json, schema: Structural): boolean {
  let isChanged = false
  if (Array.isArray(value)) {
    if (schema.items === null) return false
    for (const item of value) isChanged = pruneNulls(item, schema.items) || isChanged
    return isChanged
  }
  if (!isRecord(value)) return false
  for (const name in value) {
    const inner = memberSchema(schema, name)
    if (inner === undefined || inner === null) continue
    const member = value[name]!
    if (member !== null) isChanged = pruneNulls(member, inner) || isChanged
    else if (!inner.isNullable && inner.defaultValue === undefined) {
      delete value[name]
      isChanged = true
    }
  }
  return isChanged
}

/** Cleans up the type and the metadata of embedded objects. */
export function coerceEmbedded(value: Json, schema: Structural): boolean {
  if (!schema.hasEmbedded) return false
  let isChanged = false
  if (Array.isArray(value)) {
    if (schema.items === null) return false
    for (const item of value) isChanged = coerceEmbedded(item, schema.items) || isChanged
    return isChanged
  }
  if (!isRecord(value)) return false
  if (schema.isEmbedded) isChanged = coerceObject(value)
  for (const name in value) {
    const inner = memberSchema(schema, name)
    if (inner !== undefined && inner !== null) isChanged = coerceEmbedded(value[name]!, inner) || isChanged
  }
  return isChanged
}

function coerceObject(object: JsonRecord): boolean {
  let isChanged = false
  for (const name of ['apiVersion', 'kind']) {
    if (!Object.hasOwn(object, name) || typeof object[name] === 'string') continue
    delete object[name]
    isChanged = true
  }
  const metadata = object['metadata']
  // Values that are not objects pass through unchanged.
  if (!Object.hasOwn(object, 'metadata') || (metadata !== null && !isRecord(metadata))) return isChanged
  const orderly = orderlyMetadata(metadata ?? {})
  if (orderly === metadata) return isChanged
  object['metadata'] = orderly
  return true
}

/** The JSON that defaults have added to one object so far. */
class Added {
  #bytes = 0

  /** @throws CodecError */
  count(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes <= MAX_ADDED_BYTES) return
    throw new CodecError('too-large', `the defaults of its definition add more than ${MAX_ADDED_BYTES} bytes`)
  }
}

const bytesOfMember = oncePer(([name, value]: Structural['defaulted'][number]) =>
  Buffer.byteLength(jsonText({ [name]: value })),
)
const bytesOfDefault = oncePer(({ defaultValue }: Structural) => Buffer.byteLength(jsonText(defaultValue!)))

/**
 * Fills in the defaults of absent members; a null where null is not allowed counts as absent.
 * @throws CodecError when they are too large together.
 */
export function fillDefaults(value: Json, schema: Structural, added = new Added()): boolean {
  if (!schema.hasDefaults) return false
  let isChanged = false
  if (Array.isArray(value)) {
    const { items } = schema
    if (items === null) return false
    for (let i = 0; i < value.length; i++) {
      if (isToBeFilled(value[i]!, items)) {
        value[i] = defaultOf(items, added)
        isChanged = true
      }
      isChanged = fillDefaults(value[i]!, items, added) || isChanged
    }
    return isChanged
  }
  if (!isRecord(value)) return false
  for (const member of schema.defaulted) {
    const [name, given, isNullable] = member
    if (Object.hasOwn(value, name) && (isNullable || value[name] !== null)) continue
    added.count(bytesOfMember(member))
    value[name] = cloneTree(given)
    isChanged = true
  }
  for (const name in value) {
    const inner = memberSchema(schema, name)
    if (inner === undefined || inner === null) continue
    if (isToBeFilled(value[name]!, inner)) {
      value[name] = defaultOf(inner, added)
      isChanged = true
    }
    isChanged = fillDefaults(value[name]!, inner, added) || isChanged
  }
  return isChanged
}

function isToBeFilled(value: Json, schema: Structural): boolean {
  return value === null && !schema.isNullable && schema.defaultValue !== undefined
}

function defaultOf(schema: Structural, added: Added): Json {
  added.count(bytesOfDefault(schema))
  return cloneTree(schema.defaultValue!)
}

/** Returns undefined if the member is not declared; null if it is, but nothing inside it is. */
function memberSchema(schema: Structural | null, name: string): Structural | null | undefined {
  if (schema === null) return undefined
  const declared = schema.properties.get(name)
  if (declared !== undefined) return declared
  return schema.additional === 'nothing' ? null : (schema.additional ?? undefined)
}

/** Whether both have the same effect on every object that already has its defaults. */
export function changeAlike(a: Structural, b: Structural): boolean {
  if (a === b) return true
  const { properties, additional, items } = a
  return (
    a.keepsUnknown === b.keepsUnknown &&
    a.isEmbedded === b.isEmbedded &&
    a.isNullable === b.isNullable &&
    (a.defaultValue === undefined) === (b.defaultValue === undefined) &&
    areAlike(additional, b.additional) &&
    areAlike(items, b.items) &&
    properties.size === b.properties.size &&
    [...properties].every(([name, inner]) => areAlike(inner, b.properties.get(name) ?? null))
  )
}

function areAlike(a: Structural | 'nothing' | null, b: Structural | 'nothing' | null): boolean {
  if (a === null || b === null || a === 'nothing' || b === 'nothing') return a === b
  return changeAlike(a, b)
}

/**
 * A set of fields of an object, as `metadata.managedFields` keeps one for each manager: a tree of path elements. `f:NAME`
 * is a member, `k:{"name":"a"}` an item known by keys, `v:"a"` an item of a set; `.` marks a node that is in the set itself.
 *
 * Source: the FieldsV1 format of Kubernetes' API conventions and structured-merge-diff's documented rules.
 */
import { equalTrees, isRecord, type Json, jsonText, type JsonRecord, record } from '../codec/json-tree.js'
import type { Shape } from './shape.js'
import { ANY } from './shape.js'

export class FieldSet {
  /** Whether the path of this node is itself in the set. */
  isMember = false
  readonly children = new Map<string, FieldSet>()

  static empty(): FieldSet {
    return new FieldSet()
  }

  /** Anything that is not FieldsV1 is skipped: entries of other managers are accepted as they come. */
  static fromJson(json: Json | undefined): FieldSet {
    const set = new FieldSet()
    if (!isRecord(json)) return set
    for (const name in json) {
      if (name === '.') {
        set.isMember = true
        continue
      }
      const child = FieldSet.fromJson(json[name])
      if (child.children.size === 0) child.isMember = true
      set.children.set(name, child)
    }
    return set
  }

  toJson(): JsonRecord {
    const json = record()
    if (this.isMember && this.children.size > 0) json['.'] = record()
    for (const name of [...this.children.keys()].sort()) json[name] = this.children.get(name)!.toJson()
    return json
  }

  get isEmpty(): boolean {
    if (this.isMember) return false
    for (const child of this.children.values()) if (!child.isEmpty) return false
    return true
  }

  child(element: string): FieldSet {
    let child = this.children.get(element)
    if (child === undefined) this.children.set(element, (child = new FieldSet()))
    return child
  }

  union(other: FieldSet): FieldSet {
    return combine(this, other, (a, b) => a || b)
  }

  difference(other: FieldSet): FieldSet {
    return combine(this, other, (a, b) => a && !b)
  }

  intersection(other: FieldSet): FieldSet {
    return combine(this, other, (a, b) => a && b)
  }

  /** Returns this set without whole subtrees: everything at or under a member of `other` is left out. */
  without(other: FieldSet): FieldSet {
    const result = new FieldSet()
    if (other.isMember) return result
    result.isMember = this.isMember
    for (const [element, child] of this.children) {
      const removed = other.children.get(element)
      const rest = child.without(removed ?? NOTHING)
      if (!rest.isEmpty) result.children.set(element, rest)
    }
    return result
  }

  equals(other: FieldSet): boolean {
    return equalTrees(this.toJson(), other.toJson()) && this.isMember === other.isMember
  }

  /** Lists paths as the API server names fields in a conflict: `.spec.containers[name="a"].image`. */
  *paths(prefix = ''): Generator<string> {
    if (this.isMember && prefix !== '') yield prefix
    for (const [element, child] of this.children) yield* child.paths(`${prefix}${pathText(element)}`)
  }
}

const NOTHING = new FieldSet()

function combine(a: FieldSet, b: FieldSet, keep: (inA: boolean, inB: boolean) => boolean): FieldSet {
  const result = new FieldSet()
  result.isMember = keep(a.isMember, b.isMember)
  for (const element of new Set([...a.children.keys(), ...b.children.keys()])) {
    const child = combine(a.children.get(element) ?? NOTHING, b.children.get(element) ?? NOTHING, keep)
    if (!child.isEmpty) result.children.set(element, child)
  }
  return result
}

function pathText(element: string): string {
  const text = element.slice(2)
  if (element.startsWith('f:')) return `.${text}`
  if (element.startsWith('v:')) return `[=${text}]`
  if (element.startsWith('i:')) return `[${text}]`
  try {
    const keys = Object.entries(JSON.parse(text) as Record<string, unknown>)
    return `[${keys.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(',')}]`
  } catch {
    return `[${text}]`
  }
}

/**
 * The value that a key of a keyed list has when an item leaves it out: the API server fills it in before it compares
 * items.
 */
const KEY_DEFAULTS: Readonly<Record<string, Json>> = { protocol: 'TCP' }

/**
 * Returns the items of a list by their path elements, or null when items cannot be told apart and the list is one
 * value.
 */
export function itemsByElement(list: readonly Json[], shape: Shape): Map<string, Json> | null {
  if (shape.list === 'atomic') return null
  const items = new Map<string, Json>()
  for (const item of list) {
    const element = shape.list === 'set' ? setElement(item) : keyedElement(item, shape.keys)
    if (element === null || items.has(element)) return null
    items.set(element, item)
  }
  return items
}

function setElement(item: Json): string | null {
  return isRecord(item) || Array.isArray(item) ? null : `v:${jsonText(item)}`
}

function keyedElement(item: Json, keys: readonly string[]): string | null {
  if (!isRecord(item) || keys.length === 0) return null
  const element = record()
  for (const key of [...keys].sort()) {
    const value = item[key] ?? KEY_DEFAULTS[key]
    if (value === undefined) continue
    if (isRecord(value) || Array.isArray(value)) return null
    element[key] = value
  }
  return Object.keys(element).length === 0 ? null : `k:${jsonText(element)}`
}

/** Whether the members of this object are owned one by one. Otherwise the object is one value. */
export function isGranular(value: Json | undefined, shape: Shape): value is JsonRecord {
  return isRecord(value) && !shape.isAtomic && shape.type !== 'scalar'
}

/** Returns the fields that a configuration names. */
export function fieldsOf(value: Json, shape: Shape): FieldSet {
  const set = new FieldSet()
  addFields(set, value, shape)
  return set
}

function addFields(set: FieldSet, value: Json, shape: Shape): void {
  const items = Array.isArray(value) ? itemsByElement(value, shape) : null
  if (items !== null) {
    for (const [element, item] of items) {
      const child = set.child(element)
      addFields(child, item, shape.items)
      child.isMember = true
    }
    if (items.size === 0) set.isMember = true
  } else if (isGranular(value, shape)) {
    const names = Object.keys(value)
    for (const name of names) addFields(set.child(`f:${name}`), value[name]!, shape.member(name) ?? ANY)
    if (names.length === 0) set.isMember = true
  } else {
    set.isMember = true
  }
}

export interface FieldChanges {
  readonly added: FieldSet
  readonly modified: FieldSet
  readonly removed: FieldSet
}

/** Returns the fields that an update changes. */
export function compareFields(before: Json, after: Json, shape: Shape): FieldChanges {
  const changes = { added: new FieldSet(), modified: new FieldSet(), removed: new FieldSet() }
  compare(before, after, shape, changes.added, changes.modified, changes.removed)
  const prune = (set: FieldSet): FieldSet => set.union(NOTHING)
  return { added: prune(changes.added), modified: prune(changes.modified), removed: prune(changes.removed) }
}

function compare(
  before: Json | undefined,
  after: Json | undefined,
  shape: Shape,
  added: FieldSet,
  modified: FieldSet,
  removed: FieldSet,
): void {
  const parts = partsOf(before, after, shape)
  if (parts === null) {
    if (before === undefined) added.isMember = true
    else if (after === undefined) removed.isMember = true
    else if (!equalTrees(before, after)) modified.isMember = true
    return
  }
  for (const [element, a, b, inner] of parts) {
    if (equalTrees(a, b)) continue
    compare(a, b, inner, added.child(element), modified.child(element), removed.child(element))
  }
  if (before === undefined) added.isMember = true
  else if (after === undefined) removed.isMember = true
}

type Part = readonly [element: string, before: Json | undefined, after: Json | undefined, shape: Shape]

/** Returns null when both are compared as one value. */
function partsOf(before: Json | undefined, after: Json | undefined, shape: Shape): Part[] | null {
  if ((before ?? after) === undefined) return []
  if (isGranular(before ?? record(), shape) && isGranular(after ?? record(), shape) && isRecord(before ?? after)) {
    const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])
    return [...names].map((name) => [
      `f:${name}`,
      memberOf(before, name),
      memberOf(after, name),
      shape.member(name) ?? ANY,
    ])
  }
  if ((before !== undefined && !Array.isArray(before)) || (after !== undefined && !Array.isArray(after))) return null
  const a = itemsByElement(before ?? [], shape)
  const b = itemsByElement(after ?? [], shape)
  if (a === null || b === null) return null
  const elements = new Set([...a.keys(), ...b.keys()])
  return [...elements].map((element) => [element, a.get(element), b.get(element), shape.items])
}

function memberOf(value: Json | undefined, name: string): Json | undefined {
  return isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

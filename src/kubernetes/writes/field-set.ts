/**
 * A set of fields of an object, as `metadata.managedFields` stores one for each manager: a tree of path elements.
 * `f:NAME` is a member, `k:{"name":"a"}` a list item identified by keys, and `v:"a"` an item of a set. `.` marks a
 * node that is in the set itself.
 *
 * Source: the FieldsV1 format of Kubernetes' API conventions and structured-merge-diff's documented rules.
 */
import { equalTrees, extendPath, isRecord, type Json, jsonText, type JsonRecord, record } from '../codec/json-tree.js'
import type { Shape } from './shape.js'
import { ANY } from './shape.js'
import { jsonIn } from '../../support/json-text.js'
import { getOrMake } from '../../support/memo.js'

export class FieldSet {
  /** Whether this node's own path is in the set. */
  isMember = false
  #children: Map<string, FieldSet> | null = null

  /** The children by path element. Most nodes are leaves, which share one empty map. */
  get children(): ReadonlyMap<string, FieldSet> {
    return this.#children ?? NO_CHILDREN
  }

  /** Adopts the child unless it is empty. */
  put(element: string, child: FieldSet): void {
    if (!child.isEmpty) (this.#children ??= new Map()).set(element, child)
  }

  remove(element: string): void {
    this.#children?.delete(element)
  }

  /** Anything that is not FieldsV1 is skipped, because entries of other managers are accepted as they are. */
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
      set.put(name, child)
    }
    return set
  }

  /** Whether the API server can read this as a set. It skips types of elements that it does not know. */
  static isReadable(json: Json): boolean {
    if (!isRecord(json)) return false
    for (const name in json) if (name !== '.' && !(isElement(name) && FieldSet.isReadable(json[name]!))) return false
    return true
  }

  toJson(): JsonRecord {
    const json = record()
    if (this.isMember && this.children.size > 0) json['.'] = record()
    for (const name of [...this.children.keys()].sort()) json[name] = this.children.get(name)!.toJson()
    return json
  }

  /** Whether nothing is in the set. Children are never empty, so only this node is examined. */
  get isEmpty(): boolean {
    return !this.isMember && this.children.size === 0
  }

  /** Takes time linear in the sizes of all sets together. */
  static unionOf(sets: Iterable<FieldSet>): FieldSet {
    const all = new FieldSet()
    for (const set of sets) absorb(all, set)
    return all
  }

  union(other: FieldSet): FieldSet {
    if (this.isEmpty) return other
    return other.isEmpty ? this : FieldSet.unionOf([this, other])
  }

  difference(other: FieldSet): FieldSet {
    if (other.isEmpty) return this
    const result = new FieldSet()
    result.isMember = this.isMember && !other.isMember
    for (const [element, child] of this.children) {
      result.put(element, child.difference(other.children.get(element) ?? NOTHING))
    }
    return result
  }

  intersection(other: FieldSet): FieldSet {
    const result = new FieldSet()
    result.isMember = this.isMember && other.isMember
    for (const [element, child] of this.children) {
      const present = other.children.get(element)
      if (present !== undefined) result.put(element, child.intersection(present))
    }
    return result
  }

  /** Returns this set without whole subtrees: everything at or under a member of `other` is dropped. */
  without(other: FieldSet): FieldSet {
    if (other.isEmpty) return this
    const result = new FieldSet()
    if (other.isMember) return result
    result.isMember = this.isMember
    for (const [element, child] of this.children) {
      result.put(element, child.without(other.children.get(element) ?? NOTHING))
    }
    return result
  }

  equals(other: FieldSet): boolean {
    return equalTrees(this.toJson(), other.toJson()) && this.isMember === other.isMember
  }

  /**
   * Yields paths in the form in which the API server names fields in a conflict: `.spec.containers[name="a"].image`.
   */
  *paths(prefix = ''): Generator<string> {
    if (this.isMember && prefix !== '') yield prefix
    for (const [element, child] of this.children) yield* child.paths(extendPath(prefix, elementText(element)))
  }
}

const NO_CHILDREN: ReadonlyMap<string, FieldSet> = new Map()
const NOTHING = new FieldSet()

/** @param into is changed. It shares no node with another set. */
function absorb(into: FieldSet, other: FieldSet): void {
  into.isMember ||= other.isMember
  for (const [element, child] of other.children) {
    const present = into.children.get(element)
    const target = present ?? new FieldSet()
    absorb(target, child)
    if (present === undefined) into.put(element, target)
  }
}

function isElement(text: string): boolean {
  const value = text.slice(2)
  if (text.startsWith('k:')) return isRecord(jsonIn(value))
  if (text.startsWith('v:')) return jsonIn(value) !== undefined
  return text.startsWith('i:') ? /^[-+]?\d+$/.test(value) : text[1] === ':'
}

/** Returns a path element in the form in which conflicts show it. */
export function elementText(element: string): string {
  const text = element.slice(2)
  if (element.startsWith('f:')) return `.${text}`
  if (element.startsWith('v:')) return `[=${text}]`
  if (element.startsWith('i:')) return `[${text}]`
  return `[${keysText(text) ?? text}]`
}

/**
 * Returns null unless the text is a map of scalars. Other managers' entries are accepted as they are, so a value may
 * nest to any depth; it is not written out, because that recurses.
 */
function keysText(text: string): string | null {
  const keys = jsonIn(text)
  if (!isRecord(keys)) return null
  const entries = Object.entries(keys)
  if (entries.some(([, value]) => isRecord(value) || Array.isArray(value))) return null
  return entries.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(',')
}

/** Returns the path elements of a list's items, or null if an item has none and the list is therefore one value. */
export function elementsOf(list: readonly Json[], shape: Shape): readonly string[] | null {
  if (shape.list === 'atomic') return null
  const elements: string[] = []
  for (const item of list) {
    const element = elementOf(item, shape)
    if (element === null) return null
    elements.push(element)
  }
  return elements
}

/**
 * Returns the items of a list by their path elements, or null as `elementsOf`. Stored lists may have several items with
 * the same element: the API server does not check most built-in lists. Those items are one value.
 */
function itemsByElement(list: readonly Json[], shape: Shape): Map<string, readonly Json[]> | null {
  const elements = elementsOf(list, shape)
  if (elements === null) return null
  const items = new Map<string, Json[]>()
  elements.forEach((element, i) => getOrMake(items, element, () => []).push(list[i]!))
  return items
}

/** Returns the path element of an item in its set or keyed list; null if the item has none. */
export function elementOf(item: Json, shape: Shape): string | null {
  return shape.list === 'set' ? setElement(item) : keyedElement(item, shape)
}

function setElement(item: Json): string | null {
  return isRecord(item) || Array.isArray(item) ? null : `v:${jsonText(item)}`
}

function keyedElement(item: Json, { keys, keyDefaults }: Shape): string | null {
  if (!isRecord(item) || keys.length === 0) return null
  const element = record()
  for (const key of [...keys].sort()) {
    const value = item[key] ?? keyDefaults[key]
    if (value === undefined) continue
    if (isRecord(value) || Array.isArray(value)) return null
    element[key] = value
  }
  return Object.keys(element).length === 0 ? null : `k:${jsonText(element)}`
}

/** Whether the members of this object are owned individually. Otherwise the object is one value. */
export function isGranular(value: Json | undefined, shape: Shape): value is JsonRecord {
  return isRecord(value) && !shape.isAtomic && shape.type !== 'scalar'
}

/**
 * Returns the fields that a configuration names: its leaves, the items of lists, and the entries of maps. An empty
 * list names no field if its items would have owners.
 *
 * Source: structured-merge-diff v6, typed/tofieldset.go.
 */
export function fieldsOf(value: Json, shape: Shape): FieldSet {
  const set = new FieldSet()
  addFields(set, value, shape)
  return set
}

function addFields(set: FieldSet, value: Json, shape: Shape): void {
  const items = Array.isArray(value) ? itemsByElement(value, shape) : null
  if (items !== null) {
    for (const [element, [item, ...repeated]] of items) {
      const child = new FieldSet()
      if (repeated.length === 0) addFields(child, item!, shape.items)
      child.isMember = true
      set.put(element, child)
    }
  } else if (isGranular(value, shape)) {
    const names = Object.keys(value)
    for (const name of names) {
      const child = new FieldSet()
      addFields(child, value[name]!, shape.member(name) ?? ANY)
      // A declared member of an object needs no owner besides the owners of the members inside it.
      if (shape.type !== 'object' || shape.member(name) === undefined) child.isMember = true
      set.put(`f:${name}`, child)
    }
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

/** Returns the fields that an update changes. Each value is visited once, at any depth. */
export function compareFields(before: Json, after: Json, shape: Shape): FieldChanges {
  const changes = { added: new FieldSet(), modified: new FieldSet(), removed: new FieldSet() }
  compare(before, after, shape, changes)
  return changes
}

function compare(before: Json | undefined, after: Json | undefined, shape: Shape, changes: FieldChanges): void {
  const { added, modified, removed } = changes
  const parts = partsOf(before, after, shape)
  if (before === undefined) added.isMember = true
  else if (after === undefined) removed.isMember = true
  else if (parts === null && !equalTrees(before, after)) modified.isMember = true
  for (const [element, a, b, inner] of parts ?? []) {
    if (a === b) continue
    const below = { added: new FieldSet(), modified: new FieldSet(), removed: new FieldSet() }
    compare(a, b, inner, below)
    added.put(element, below.added)
    modified.put(element, below.modified)
    removed.put(element, below.removed)
  }
}

type Part = readonly [element: string, before: Json | undefined, after: Json | undefined, shape: Shape]

/** Returns null when both are compared as one value. */
function partsOf(was: Json | undefined, is: Json | undefined, shape: Shape): Part[] | null {
  if ((was ?? is) === undefined) return []
  // Go treats null as an empty list or map.
  const [before, after] = [emptyFor(was, is), emptyFor(is, was)]
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
  return [...new Set([...a.keys(), ...b.keys()])].flatMap((element): Part[] => {
    const [left, right] = [valueOf(a.get(element), shape), valueOf(b.get(element), shape)]
    if (left.shape === right.shape) return [[element, left.value, right.value, left.shape]]
    return [
      [element, left.value, undefined, left.shape],
      [element, undefined, right.value, right.shape],
    ]
  })
}

/** Several items with the same element are compared as one value with others, and not at all with a single item. */
function valueOf(items: readonly Json[] = [], { items: shape }: Shape): { value: Json | undefined; shape: Shape } {
  return items.length > 1 ? { value: [...items], shape: ANY } : { value: items[0], shape }
}

function emptyFor(value: Json | undefined, other: Json | undefined): Json | undefined {
  if (value !== null) return value
  return Array.isArray(other) ? [] : isRecord(other) ? record() : value
}

function memberOf(value: Json | undefined, name: string): Json | undefined {
  return isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

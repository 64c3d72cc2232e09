/**
 * Applies a strategic merge patch: a merge patch with rules for the lists of the built-in kinds. A list with a merge
 * key is merged item by item, sets are united, and directives express what a merge cannot: `$patch` (`delete`,
 * `replace`, `merge`), `$deleteFromPrimitiveList/NAME`, `$setElementOrder/NAME`, `$retainKeys`.
 *
 * Source: "Strategic Merge Patch" in the Kubernetes API conventions.
 */
import { canonicalText, cloneTree, isRecord, type Json, jsonText, type JsonRecord, record } from '../codec/json-tree.js'
import { BadRequestError } from '../model/status.js'
import { ANY, type Shape } from './shape.js'
import { getOrMake } from '../../support/memo.js'

const PATCH = '$patch'
const RETAIN = '$retainKeys'
const DELETE_FROM = '$deleteFromPrimitiveList/'
const ORDER = '$setElementOrder/'

/** @throws BadRequestError */
export function applyStrategicPatch(object: JsonRecord, patch: Json, shape: Shape): JsonRecord {
  if (patch === null) return object
  if (!isRecord(patch)) throw new BadRequestError('error decoding patch: a strategic merge patch must be an object')
  const patched = mergeObjects(object, patch, shape)
  if (!isRecord(patched)) throw new BadRequestError('a patch cannot delete the object itself')
  return patched
}

/** Not every name with a `$` is a directive; a schema has `$ref`, for example. */
function isDirective(name: string): boolean {
  return name === PATCH || name === RETAIN || name.startsWith(DELETE_FROM) || name.startsWith(ORDER)
}

/** Returns null when the patch deletes the object. */
function mergeObjects(target: JsonRecord | undefined, patch: JsonRecord, shape: Shape): Json {
  switch (patch[PATCH]) {
    case undefined:
    case 'merge':
      break
    case 'replace':
      return withoutDirectives(patch)
    case 'delete':
      return null
    default:
      throw new BadRequestError(`unknown patch type found: ${jsonText(patch[PATCH]!)}`)
  }
  const merged = record(target ?? {})
  const retained = patch[RETAIN]
  const kept = Array.isArray(retained) ? new Set(retained) : null
  if (kept !== null) for (const name in merged) if (!kept.has(name)) delete merged[name]
  for (const name in patch) {
    if (isDirective(name)) continue
    const value = patch[name]!
    const inner = shape.member(name) ?? ANY
    const present = Object.hasOwn(merged, name) ? merged[name] : undefined
    if (value === null) delete merged[name]
    else if (isRecord(value)) {
      const result = mergeObjects(isRecord(present) ? present : undefined, value, inner)
      if (result === null) delete merged[name]
      else merged[name] = result
    } else if (Array.isArray(value)) {
      merged[name] = mergeLists(Array.isArray(present) ? present : [], value, inner)
    } else merged[name] = value
  }
  for (const name in patch) {
    if (name.startsWith(DELETE_FROM)) deleteFrom(merged, name.slice(DELETE_FROM.length), patch[name]!)
  }
  for (const name in patch) {
    const list = name.slice(ORDER.length)
    if (name.startsWith(ORDER)) order(merged, list, patch[name]!, (shape.member(list) ?? ANY).patchKey)
  }
  return merged
}

function mergeLists(target: readonly Json[], patch: readonly Json[], shape: Shape): Json {
  const items = patch.filter((item) => !isRecord(item) || item[PATCH] !== 'replace' || Object.keys(item).length > 1)
  const isReplacement = items.length < patch.length
  if (!shape.isPatchMerged || isReplacement) {
    return items
      .filter((item) => !isRecord(item) || item[PATCH] !== 'delete')
      .map((item) => (isRecord(item) ? withoutDirectives(item) : cloneTree(item)))
  }
  if (shape.patchKey === '') {
    const union = [...target]
    const known = new Set(target.map(canonicalText))
    for (const item of items) {
      const text = canonicalText(item)
      if (!known.has(text)) union.push(cloneTree(item))
      known.add(text)
    }
    return union
  }
  return mergeByKey(target, items, shape)
}

function mergeByKey(target: readonly Json[], patch: readonly Json[], shape: Shape): Json {
  const { patchKey, items: inner } = shape
  const merged = new KeyedItems(target, patchKey)
  for (const item of patch) {
    const key = isRecord(item) ? item[patchKey] : undefined
    if (!isRecord(item) || key === undefined) {
      throw new BadRequestError(`map: ${jsonText(item)} does not contain declared merge key: ${patchKey}`)
    }
    const text = canonicalText(key)
    if (item[PATCH] === 'delete') merged.delete(text)
    else merged.put(text, mergeObjects(merged.first(text), item, inner))
  }
  return interleaved(merged.list(), target, patch, patchKey)
}

/**
 * Orders a merged list as the API server does. The items of the patch keep their order, and so do the others. For an
 * item of each group, the old order decides if both were in the list before; otherwise the item of the patch comes
 * first.
 */
function interleaved(
  merged: readonly Json[],
  target: readonly Json[],
  patch: readonly Json[],
  patchKey: string,
): Json[] {
  const ranksOf = (list: readonly Json[]): ReadonlyMap<string | null, number> =>
    new Map(list.map((item, rank) => [keyTextOf(item, patchKey), rank] as const).reverse())
  const [before, inPatch] = [ranksOf(target), ranksOf(patch)]
  const rankOf = (item: Json): number => inPatch.get(keyTextOf(item, patchKey)) ?? -1
  const given = merged.filter((item) => rankOf(item) !== -1).sort((a, b) => rankOf(a) - rankOf(b))
  const others = merged.filter((item) => rankOf(item) === -1)
  const list: Json[] = []
  let next = 0
  for (const item of given) {
    const place = before.get(keyTextOf(item, patchKey)) ?? -1
    while (next < others.length && (before.get(keyTextOf(others[next]!, patchKey)) ?? Infinity) < place) {
      list.push(others[next++]!)
    }
    list.push(item)
  }
  return [...list, ...others.slice(next)]
}

/** The items of a list by key. Several items may have the same key: a merge changes the first, a delete removes all. */
class KeyedItems {
  /** A deleted item is undefined. */
  readonly #items: (Json | undefined)[]
  readonly #placesByKey = new Map<string, number[]>()

  constructor(
    items: readonly Json[],
    private readonly keyName: string,
  ) {
    this.#items = [...items]
    items.forEach((item, place) => this.#note(item, place))
  }

  first(key: string): JsonRecord | undefined {
    const place = this.#placesByKey.get(key)?.[0]
    const item = place === undefined ? undefined : this.#items[place]
    return isRecord(item) ? item : undefined
  }

  /** Replaces the first item with that key, or appends the item if there is none. */
  put(key: string, item: Json): void {
    const places = this.#placesByKey.get(key)
    const place = places?.[0]
    if (place === undefined) {
      this.#note(item, this.#items.push(item) - 1)
    } else {
      this.#items[place] = item
      // A patch may have removed the item's key (`null`).
      if (keyTextOf(item, this.keyName) !== key) places!.shift()
    }
  }

  delete(key: string): void {
    for (const place of this.#placesByKey.get(key) ?? []) this.#items[place] = undefined
    this.#placesByKey.delete(key)
  }

  list(): Json[] {
    return this.#items.filter((item) => item !== undefined)
  }

  #note(item: Json, place: number): void {
    const key = keyTextOf(item, this.keyName)
    if (key !== null) getOrMake(this.#placesByKey, key, () => []).push(place)
  }
}

/** Returns null if the item has no key. */
function keyTextOf(item: Json, keyName: string): string | null {
  const key = isRecord(item) ? item[keyName] : undefined
  return key === undefined ? null : canonicalText(key)
}

function deleteFrom(merged: JsonRecord, name: string, values: Json): void {
  const list = merged[name]
  if (!Array.isArray(list) || !Array.isArray(values)) return
  const deleted = new Set(values.map(canonicalText))
  merged[name] = list.filter((item) => !deleted.has(canonicalText(item)))
}

/** Puts the named items into the wanted order. An unnamed item stays behind the item that it followed before. */
function order(merged: JsonRecord, name: string, wanted: Json, patchKey: string): void {
  const list = merged[name]
  if (!Array.isArray(list) || !Array.isArray(wanted)) return
  const textOf = (item: Json): string | null =>
    patchKey !== '' && isRecord(item) ? keyTextOf(item, patchKey) : canonicalText(item)
  const ranks = new Map<string | null, number>()
  for (const [rank, item] of wanted.entries()) if (!ranks.has(textOf(item))) ranks.set(textOf(item), rank)
  const runs: { readonly rank: number; readonly items: Json[] }[] = [{ rank: -1, items: [] }]
  for (const item of list) {
    const rank = ranks.get(textOf(item))
    if (rank === undefined) runs.at(-1)!.items.push(item)
    else runs.push({ rank, items: [item] })
  }
  merged[name] = runs.sort((a, b) => a.rank - b.rank).flatMap(({ items }) => items)
}

function withoutDirectives(value: JsonRecord): JsonRecord {
  const copy = record()
  for (const name in value) if (!isDirective(name)) copy[name] = stripped(value[name]!)
  return copy
}

function stripped(value: Json): Json {
  if (Array.isArray(value)) return value.map(stripped)
  return isRecord(value) ? withoutDirectives(value) : cloneTree(value)
}

/**
 * The two steps that a server-side apply performs on the object itself. First it merges the applied configuration
 * over the live object. Then it removes the fields that this manager applied before and no longer applies, unless
 * another manager owns them.
 */
import { cloneTree, isEmptyRecord, isRecord, type Json, record } from '../codec/json-tree.js'
import { elementsOf, type FieldSet, isGranular } from './field-set.js'
import { ANY, type Shape } from './shape.js'

/** Merges the two values without changing them. */
export function mergeApplied(live: Json | undefined, applied: Json, shape: Shape): Json {
  if (live === undefined) return cloneTree(applied)
  if (Array.isArray(live) && Array.isArray(applied)) return mergeLists(live, applied, shape)
  if (!isGranular(live, shape) || !isGranular(applied, shape)) return cloneTree(applied)
  const merged = record()
  for (const name in live) {
    const over = Object.hasOwn(applied, name) ? applied[name] : undefined
    merged[name] =
      over === undefined ? cloneTree(live[name]!) : mergeApplied(live[name]!, over, shape.member(name) ?? ANY)
  }
  for (const name in applied) if (!Object.hasOwn(live, name)) merged[name] = cloneTree(applied[name]!)
  return merged
}

function mergeLists(live: readonly Json[], applied: readonly Json[], shape: Shape): Json {
  const elements = elementsOf(live, shape)
  const wanted = new Map(elementsOf(applied, shape)?.map((element, i) => [element, applied[i]!]))
  if (elements === null || wanted.size < applied.length) return cloneTree([...applied])
  const present = new Map<string, Json | undefined>()
  elements.forEach((element, i) => {
    // As in structured-merge-diff, an applied item replaces several with its element, and all others stay.
    if (!present.has(element)) present.set(element, live[i])
    else if (wanted.has(element)) present.set(element, undefined)
    else present.set(`${element} ${i}`, live[i])
  })
  return mergedOrder([...present.keys()], [...wanted.keys()]).map((element) => {
    const over = wanted.get(element)
    return over === undefined ? cloneTree(present.get(element)!) : mergeApplied(present.get(element), over, shape.items)
  })
}

/**
 * Returns the order of the merged items. The applied items keep their order, because the order of environment
 * variables and containers matters. Each other item stays behind the item that it follows in the live list.
 *
 * Source: structured-merge-diff v6, typed/merge.go, visitListItems.
 */
function mergedOrder(live: readonly string[], applied: readonly string[]): readonly string[] {
  const [isLive, isApplied] = [new Set(live), new Set(applied)]
  const shared = applied.filter((element) => isLive.has(element))
  const order = new Set<string>()
  for (let i = 0, j = 0, next = 0; i < live.length || j < applied.length;) {
    const [left, right] = [live[i], applied[j]]
    if (left !== undefined && !isApplied.has(left)) {
      order.add(left)
      i++
    } else if (
      left !== undefined &&
      right !== undefined &&
      left !== right &&
      shared[next] !== left &&
      next < shared.length
    ) {
      // The element comes later, at its applied position.
      i++
    } else {
      if (left !== undefined && (left === right || order.has(left))) i++
      if (right === undefined) continue
      order.add(right)
      j++
      if (shared[next] === right) next++
    }
  }
  return [...order]
}

/**
 * @param given the fields that the manager has given up.
 * @param kept the fields that still have an owner. These fields and the objects and lists around them are not
 * removed.
 */
export function removeFields(value: Json, given: FieldSet, kept: FieldSet | undefined, shape: Shape): Json {
  if (Array.isArray(value)) return removeItems(value, given, kept, shape)
  if (!isRecord(value)) return value
  const rest = record()
  for (const name in value) {
    const left = removeOne(value[name]!, `f:${name}`, given, kept, shape.member(name) ?? ANY)
    if (left !== undefined) rest[name] = left
  }
  return rest
}

function removeItems(list: readonly Json[], given: FieldSet, kept: FieldSet | undefined, shape: Shape): Json {
  const elements = elementsOf(list, shape)
  if (elements === null) return [...list]
  const rest: Json[] = []
  list.forEach((item, i) => {
    const left = removeOne(item, elements[i]!, given, kept, shape.items, shape.keys)
    if (left !== undefined) rest.push(left)
  })
  return rest
}

/**
 * @param keys members that identify an item and stay as long as the item does.
 * @returns undefined when the whole value is removed.
 */
function removeOne(
  value: Json,
  element: string,
  given: FieldSet,
  kept: FieldSet | undefined,
  shape: Shape,
  keys: readonly string[] = [],
): Json | undefined {
  const gone = given.children.get(element)
  if (gone === undefined) return value
  const owned = kept?.children.get(element)
  const isOwned = owned !== undefined && !owned.isEmpty
  // The manager has given up this member. Parts of it without an owner, such as defaults, are removed with it.
  if ((gone.isMember || element.startsWith('f:')) && !isOwned) return undefined
  const rest = removeFields(value, gone, owned, shape)
  if (isRecord(rest) && isRecord(value)) for (const key of keys) if (Object.hasOwn(value, key)) rest[key] = value[key]!
  return isEmptied(value, rest) && !isOwned ? undefined : rest
}

function isEmptied(before: Json, after: Json): boolean {
  if (Array.isArray(before) && Array.isArray(after)) return before.length > 0 && after.length === 0
  return isRecord(before) && isRecord(after) && !isEmptyRecord(before) && isEmptyRecord(after)
}

/**
 * Strategic merge patch: a merge patch that knows the lists of the built-in kinds. A list with a merge key is merged item by
 * item, a set is united, and directives say what a merge cannot: `$patch` (`delete`, `replace`, `merge`),
 * `$deleteFromPrimitiveList/NAME`, `$setElementOrder/NAME`, `$retainKeys`.
 *
 * Source: "Strategic Merge Patch" in the Kubernetes API conventions.
 */
import { cloneTree, equalTrees, isRecord, type Json, jsonText, type JsonRecord, record } from '../codec/json-tree.js'
import { BadRequestError } from '../model/status.js'
import { ANY, type Shape } from './shape.js'

const PATCH = '$patch'
const RETAIN = '$retainKeys'
const DELETE_FROM = '$deleteFromPrimitiveList/'
const ORDER = '$setElementOrder/'

/** @throws BadRequestError */
export function applyStrategicPatch(object: JsonRecord, patch: Json, shape: Shape): JsonRecord {
  if (!isRecord(patch)) throw new BadRequestError('error decoding patch: a strategic merge patch must be an object')
  const patched = mergeObjects(object, patch, shape)
  if (!isRecord(patched)) throw new BadRequestError('a patch cannot delete the object itself')
  return patched
}

/** Not every `$`: a schema has `$ref`. */
function isDirective(name: string): boolean {
  return name === PATCH || name === RETAIN || name.startsWith(DELETE_FROM) || name.startsWith(ORDER)
}

/** null: the object is to go. */
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
  if (Array.isArray(retained)) for (const name in merged) if (!retained.includes(name)) delete merged[name]
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
    for (const item of items) if (!union.some((present) => equalTrees(present, item))) union.push(cloneTree(item))
    return union
  }
  return mergeByKey(target, items, shape)
}

function mergeByKey(target: readonly Json[], patch: readonly Json[], shape: Shape): Json {
  const { patchKey, items: inner } = shape
  let merged = [...target]
  for (const item of patch) {
    const key = isRecord(item) ? item[patchKey] : undefined
    if (!isRecord(item) || key === undefined) {
      throw new BadRequestError(`map: ${jsonText(item)} does not contain declared merge key: ${patchKey}`)
    }
    const isIt = (present: Json): boolean => isRecord(present) && equalTrees(present[patchKey], key)
    if (item[PATCH] === 'delete') {
      merged = merged.filter((present) => !isIt(present))
      continue
    }
    const at = merged.findIndex(isIt)
    const present = at === -1 ? undefined : merged[at]
    const result = mergeObjects(isRecord(present) ? present : undefined, item, inner)
    if (at === -1) merged.push(result)
    else merged[at] = result
  }
  return merged
}

function deleteFrom(merged: JsonRecord, name: string, values: Json): void {
  const list = merged[name]
  if (!Array.isArray(list) || !Array.isArray(values)) return
  merged[name] = list.filter((item) => !values.some((value) => equalTrees(item, value)))
}

/** The items named come in that order; one that is not named stays behind the one it stood behind. */
function order(merged: JsonRecord, name: string, wanted: Json, patchKey: string): void {
  const list = merged[name]
  if (!Array.isArray(list) || !Array.isArray(wanted)) return
  const keyOf = (item: Json): Json | undefined => (patchKey !== '' && isRecord(item) ? item[patchKey] : item)
  const rankOf = (item: Json): number => wanted.findIndex((other) => equalTrees(keyOf(other), keyOf(item)))
  const named = list
    .filter((item) => rankOf(item) !== -1)
    .map((item) => ({ item, rank: rankOf(item) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ item }) => item)
  const result: Json[] = [...named]
  list.forEach((item, i) => {
    if (rankOf(item) !== -1) return
    const behind = i === 0 ? -1 : result.indexOf(list[i - 1]!)
    result.splice(behind + 1, 0, item)
  })
  merged[name] = result
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

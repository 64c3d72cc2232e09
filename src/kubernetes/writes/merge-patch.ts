/**
 * Applies a JSON Merge Patch (RFC 7386) to a tree. It follows the RFC, except that nulls inside arrays are dropped too,
 * as in the API server. Existing packages were rejected, because they drop members named `constructor` and take a
 * `JsonNumber` for an object.
 */
import { cloneTree, isRecord, type Json, type JsonRecord, record } from '../codec/json-tree.js'
import { BadRequestError } from '../model/status.js'

/** @throws BadRequestError when the patch is not an object, because the result would not be one either. */
export function applyMergePatch(object: JsonRecord, patch: Json): JsonRecord {
  if (!isRecord(patch)) throw new BadRequestError('error decoding patch: a merge patch must be an object')
  return merge(object, patch) as JsonRecord
}

function merge(target: Json | undefined, patch: Json): Json {
  if (!isRecord(target)) return withoutNulls(patch)
  if (!isRecord(patch)) return cloneTree(patch)
  const merged = record(target)
  for (const name in patch) {
    if (patch[name] === null) delete merged[name]
    else merged[name] = merge(Object.hasOwn(merged, name) ? merged[name] : undefined, patch[name]!)
  }
  return merged
}

/** Drops nulls, also inside arrays. */
function withoutNulls(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (!isRecord(value)) return value
  const kept = record()
  for (const name in value) if (value[name] !== null) kept[name] = withoutNulls(value[name]!)
  return kept
}

/**
 * Applies a JSON Merge Patch (RFC 7386) to a tree. The algorithm is the RFC's ten lines. The packages for it drop
 * members named `constructor`, and mistake a number that keeps its text for an object.
 */
import { cloneTree, isRecord, type Json, type JsonRecord, record } from '../codec/json-tree.js'
import { BadRequestError } from '../../engine/model/status.js'

/** @throws BadRequestError when the patch is not an object: applying it would not leave an object. */
export function applyMergePatch(object: JsonRecord, patch: Json): JsonRecord {
  if (!isRecord(patch)) throw new BadRequestError('error decoding patch: a merge patch must be an object')
  return merge(object, patch) as JsonRecord
}

function merge(target: Json | undefined, patch: Json): Json {
  if (!isRecord(patch)) return cloneTree(patch)
  const merged = record(isRecord(target) ? target : {})
  for (const name in patch) {
    if (patch[name] === null) delete merged[name]
    else merged[name] = merge(Object.hasOwn(merged, name) ? merged[name] : undefined, patch[name]!)
  }
  return merged
}

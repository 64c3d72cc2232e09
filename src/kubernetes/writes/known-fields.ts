/** Removes members that an object's shape does not declare, as the API server does, and reports them. */
import { isRecord, joinPath, type Json } from '../codec/json-tree.js'
import type { Shape } from './shape.js'

/** The most removed members reported for one object, as in the API server. */
const MAX_REPORTED = 100

/** Removes the undeclared members from `value`. @returns their paths. */
export function dropUnknownFields(value: Json, shape: Shape): readonly string[] {
  const unknown: string[] = []
  drop(value, shape, [], unknown)
  return unknown
}

function drop(value: Json, shape: Shape, path: string[], unknown: string[]): void {
  // As in the API server, what is removed there is not reported: Go's types for it have a decoder of their own.
  const chosen = shape.choose?.(value) ?? null
  if (chosen !== null) return drop(value, chosen, path, [])
  if (shape.type === 'any' || shape.type === 'scalar') return
  if (Array.isArray(value)) {
    value.forEach((item, i) => {
      path.push(`[${i}]`)
      drop(item, shape.items, path, unknown)
      path.pop()
    })
    return
  }
  if (!isRecord(value)) return
  for (const name of Object.keys(value)) {
    const inner = shape.member(name)
    path.push(name)
    if (inner !== undefined) drop(value[name]!, inner, path, unknown)
    else if (!shape.keepsUnknown) {
      delete value[name]
      if (unknown.length < MAX_REPORTED) unknown.push(joinPath(path))
    }
    path.pop()
  }
}

/**
 * JSON as plain JavaScript values without loss of digits. An integer beyond 2^53 is a bigint, which can be sent to
 * threads and is accepted by `treeFrom`. This form suits documents that are read member by member. Documents that are
 * changed and written again use a tree instead (`json-tree.ts`).
 */
import { hasUsualNumbers, isRecord, type Json, JsonNumber, jsonText, parseJsonTree, treeFrom } from './json-tree.js'

/** @throws SyntaxError */
export function parseExactJson(json: Buffer): unknown {
  const text = json.toString('utf8')
  return hasUsualNumbers(text) ? (JSON.parse(text) as unknown) : exactCopy(parseJsonTree(json).value)
}

/** Converts a tree into such values. */
export function exactCopy(value: Json): unknown {
  if (value instanceof JsonNumber) return /^-?\d+$/.test(value.text) ? BigInt(value.text) : Number(value.text)
  if (Array.isArray(value)) return value.map(exactCopy)
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, exactCopy(member)]))
}

/** The inverse of `parseExactJson`. It works like `JSON.stringify` but also accepts bigints. */
export function exactText(value: unknown): string {
  let isPlain = true
  const text = JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member !== 'bigint') return member
    isPlain = false
    return 0
  })
  return isPlain ? text : jsonText(treeFrom(value))
}

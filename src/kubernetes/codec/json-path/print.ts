/**
 * Prints values found by a JSONPath as client-go does: objects and lists as JSON with sorted names, numbers as in Go.
 */
import { goJsonText, isNumber, type Json } from '../json-tree.js'
import { encodedNumber, goNumber, printedNumber } from '../../../engine/facts/numbers.js'

export function printedValue(value: Json): string {
  if (typeof value === 'string') return value
  if (isNumber(value)) return printedNumber(goNumber(value))
  return goJson(value)
}

/** Writes JSON as `encoding/json` does. */
function goJson(value: Json): string {
  if (typeof value === 'string') return goJsonText(value)
  if (isNumber(value)) return encodedNumber(goNumber(value))
  if (value === null || typeof value === 'boolean') return String(value)
  if (Array.isArray(value)) return `[${value.map(goJson).join(',')}]`
  const names = Object.keys(value).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  return `{${names.map((name) => `${goJsonText(name)}:${goJson(value[name]!)}`).join(',')}}`
}

/** Values that a JSONPath found, as client-go prints them: objects and lists as JSON with sorted names, numbers as Go's. */
import { isNumber, type Json } from '../json-tree.js'
import { encodedNumber, goNumber, printedNumber } from './numbers.js'

export function printedValue(value: Json): string {
  if (typeof value === 'string') return value
  if (isNumber(value)) return printedNumber(goNumber(value))
  return goJson(value)
}

/** JSON as `encoding/json` writes it. */
function goJson(value: Json): string {
  if (typeof value === 'string') return goString(value)
  if (isNumber(value)) return encodedNumber(goNumber(value))
  if (value === null || typeof value === 'boolean') return String(value)
  if (Array.isArray(value)) return `[${value.map(goJson).join(',')}]`
  const names = Object.keys(value).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  return `{${names.map((name) => `${goString(name)}:${goJson(value[name]!)}`).join(',')}}`
}

/** Go escapes what HTML and JavaScript would read in their own way. */
function goString(text: string): string {
  return JSON.stringify(text).replace(
    /[<>&\u2028\u2029]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

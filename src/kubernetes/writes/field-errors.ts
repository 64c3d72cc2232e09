/** Problems with a field, in the API server's words. They become the causes of a 422. */
import { JsonNumber } from '../codec/json-tree.js'
import type { StatusCause } from '../model/status.js'

export type FieldProblem = StatusCause & { readonly field: string }

/** Longer values are cut, because people read these messages. */
const SHOWN = 256
/** The most enumeration values that a message lists. */
const MAX_SUPPORTED = 100

export function required(field: string, why = ''): FieldProblem {
  return { reason: 'FieldValueRequired', message: `Required value${why === '' ? '' : `: ${why}`}`, field }
}

export function invalid(field: string, value: unknown, why: string): FieldProblem {
  return { reason: 'FieldValueInvalid', message: `Invalid value: ${shown(value)}: ${why}`, field }
}

export function forbiddenField(field: string, why: string): FieldProblem {
  return { reason: 'FieldValueForbidden', message: `Forbidden: ${why}`, field }
}

export function notSupported(field: string, value: unknown, supported: readonly unknown[]): FieldProblem {
  const values = supported
    .slice(0, MAX_SUPPORTED)
    .map((each) => shown(each))
    .join(', ')
  return {
    reason: 'FieldValueNotSupported',
    message: `Unsupported value: ${shown(value)}: supported values: ${values}`,
    field,
  }
}

export function duplicate(field: string, value: unknown): FieldProblem {
  return { reason: 'FieldValueDuplicate', message: `Duplicate value: ${shown(value)}`, field }
}

export function tooLong(field: string, maxLength: number): FieldProblem {
  return { reason: 'FieldValueTooLong', message: `Too long: may not be more than ${maxLength} bytes`, field }
}

/** @param typeName the actual type, such as `string` or `integer`. */
export function wrongType(field: string, typeName: string, why: string): FieldProblem {
  return { reason: 'FieldValueTypeInvalid', message: `Invalid value: ${JSON.stringify(typeName)}: ${why}`, field }
}

function shown(value: unknown): string {
  const text = beginningOf(value, SHOWN + 1)
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text
}

/**
 * Returns the first characters of the value's JSON without visiting the rest, because each of a hundred problems may
 * be about a value of megabytes.
 */
function beginningOf(value: unknown, length: number): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, length))
  if (value instanceof JsonNumber) return value.text
  if (typeof value === 'bigint') return String(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const isList = Array.isArray(value)
  let text = isList ? '[' : '{'
  for (const name in value) {
    if (text.length >= length) return text
    const inner = (value as Record<string, unknown>)[name]
    if (inner === undefined) continue
    if (text.length > 1) text += ','
    if (!isList) text += `${JSON.stringify(name.slice(0, length))}:`
    text += beginningOf(inner, length - text.length)
  }
  return `${text}${isList ? ']' : '}'}`
}

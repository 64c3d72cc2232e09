/**
 * Reads the scalars of YAML bodies. The API server reads YAML 1.1: `defaultMode: 0644` is octal, and `on` is true.
 * Integers of 64 bits keep their digits, other numbers are doubles (`3.0` becomes `3`), and numbers that no double
 * can hold are text. The YAML library's 1.1 schema also has times and base-60 numbers, which the API server does not
 * accept, so plain scalars are read here.
 */
import { printedNumber } from '../../engine/facts/numbers.js'
import type { Scalar } from '../../support/yaml.js'
import { type Json, JsonNumber, numberFromText } from './json-tree.js'

/** What Go's YAML reads as a boolean; the first group matches the words for true. */
const BOOLEAN = /^(?:(y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON)|n|N|no|No|NO|false|False|FALSE|off|Off|OFF)$/
/** At most 64 digits, because 64 bits never need more in any base. */
const INTEGER = /^([-+]?)(?:0[xX]([\da-fA-F]{1,64})|0[bB]([01]{1,64})|0[oO]?([0-7]{1,64})|(0|[1-9]\d{0,19}))$/
const MAX_INT64 = 2n ** 63n - 1n
const MAX_UINT64 = 2n ** 64n - 1n
const DECIMAL = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/

const NOT_JSON: ReadonlySet<string> = new Set(['tag:yaml.org,2002:binary', 'tag:yaml.org,2002:timestamp'])

/** Returns the value of a scalar. @throws SyntaxError if JSON cannot express it. */
export function scalar(node: Scalar): Json {
  const { value, source = '', tag } = node
  const plain = plainScalar(node)
  if (plain !== null) return plain
  if (tag !== undefined && NOT_JSON.has(tag)) throw new SyntaxError(`${source} has no JSON form`)
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (value === null || value === undefined) return null
  if (typeof value !== 'number') throw new SyntaxError(`${source || typeof value} has no JSON form`)
  // Go's YAML treats a number that fits no type as text.
  if (tag === undefined && /\d/.test(source)) return source
  const digits = source.replaceAll('_', '')
  const number = integerOf(digits) ?? floatOf(digits)
  if (number === null) throw new SyntaxError(`${source} has no JSON form`)
  return typeof number === 'string' ? numberFromText(number) : numberFromFloat(number)
}

/** Returns the boolean or number that an unquoted, untagged scalar represents; null if it is neither. */
function plainScalar(node: Scalar): boolean | number | JsonNumber | null {
  const plain = plainValue(node)
  if (typeof plain === 'string') return numberFromText(plain)
  return typeof plain === 'number' ? numberFromFloat(plain) : plain
}

/** @returns a boolean, the digits of an integer, or another number; null if the scalar is none of these. */
function plainValue({ type, tag, source }: Scalar): boolean | number | string | null {
  if (type !== 'PLAIN' || tag !== undefined || source === undefined) return null
  const boolean = BOOLEAN.exec(source)
  if (boolean !== null) return boolean[1] !== undefined
  if (!/^[-+.\d]/.test(source)) return null
  const digits = source.replaceAll('_', '')
  return integerOf(digits) ?? floatOf(digits)
}

/** Returns the decimal digits of an integer of 64 bits. */
function integerOf(source: string): string | null {
  const match = INTEGER.exec(source)
  if (match === null) return null
  const [, sign, hex, binary, octal, decimal] = match
  const digits = decimal ?? (hex !== undefined ? `0x${hex}` : binary !== undefined ? `0b${binary}` : `0o${octal}`)
  const magnitude = BigInt(digits)
  if (magnitude > (sign === '' ? MAX_UINT64 : sign === '-' ? MAX_INT64 + 1n : MAX_INT64)) return null
  return String(sign === '-' ? -magnitude : magnitude)
}

function floatOf(source: string): number | null {
  const number = DECIMAL.test(source) ? Number(source) : Infinity
  return Number.isFinite(number) ? number : null
}

function numberFromFloat(number: number): number | JsonNumber {
  return numberFromText(Object.is(number, -0) ? '-0' : String(number))
}

/**
 * Returns a key as the API server does, which turns it into the text of its value: `y` becomes `true`, and `010`
 * becomes `8`.
 * @returns null for values that the API server does not accept as keys: null, and integers of more than 63 bits.
 */
export function keyText(node: Scalar): string | null {
  const { value, source } = node
  const plain = plainValue(node)
  if (typeof plain === 'string') return BigInt(plain) > MAX_INT64 ? null : plain
  if (plain !== null) return typeof plain === 'number' ? float32Text(plain) : String(plain)
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return source ?? String(value)
  return null
}

/** Writes a number as the API server does in a key: with the digits of a 32-bit float, `1e+06` from a million on. */
function float32Text(number: number): string {
  const float = Math.fround(number)
  if (!Number.isFinite(float)) return float < 0 ? '-.inf' : '.inf'
  if (float === 0) return Object.is(float, -0) ? '-0' : '0'
  let digits = 1
  while (Math.fround(Number(float.toPrecision(digits))) !== float) digits++
  return printedNumber({ kind: 'float', float: Number(float.toPrecision(digits)) })
}

/**
 * Finds the positions of object members and array elements in JSON bytes. Only the needed parts are parsed, so that the
 * bytes can be passed on unchanged. Parts that are not inspected are assumed to be valid JSON.
 */
import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  endOfString,
  endOfValue,
  skipSpace,
} from './json-walk.js'

const COLON = 0x3a

/**
 * Calls `visit` with each member's name and the position of its value; stops when `visit` returns false.
 * @throws Error
 */
export function eachMember(
  bytes: Uint8Array,
  at: number,
  visit: (name: string, start: number, end: number) => boolean,
): void {
  let i = skipSpace(bytes, at)
  if (bytes[i] !== OPEN_BRACE) throw new Error(`expected a JSON object at byte ${i}`)
  i = skipSpace(bytes, i + 1)
  while (bytes[i] !== CLOSE_BRACE) {
    if (bytes[i] !== QUOTE) throw new Error(`expected the name of a member at byte ${i}`)
    const nameEnd = endOfString(bytes, i)
    const name = stringAt(bytes, i, nameEnd)
    i = skipSpace(bytes, nameEnd)
    if (bytes[i] !== COLON) throw new Error(`expected a colon at byte ${i}`)
    const start = skipSpace(bytes, i + 1)
    const end = requireValue(bytes, start)
    if (!visit(name, start, end)) return
    i = afterItem(bytes, end, CLOSE_BRACE)
  }
}

/** Calls `visit` with the position of each element. @throws Error */
export function eachElement(bytes: Uint8Array, at: number, visit: (start: number, end: number) => void): void {
  let i = skipSpace(bytes, at)
  if (bytes[i] !== OPEN_BRACKET) throw new Error(`expected a JSON array at byte ${i}`)
  i = skipSpace(bytes, i + 1)
  while (bytes[i] !== CLOSE_BRACKET) {
    const end = requireValue(bytes, i)
    visit(i, end)
    i = afterItem(bytes, end, CLOSE_BRACKET)
  }
}

const decoder = new TextDecoder()

/** Returns the text of the string literal from `start` to `end`. @throws Error when there is none. */
export function stringAt(bytes: Uint8Array, start: number, end: number): string {
  if (bytes[start] !== QUOTE) throw new Error(`expected a JSON string at byte ${start}`)
  const inner = bytes.subarray(start + 1, end - 1)
  const text = decoder.decode(inner)
  return inner.includes(BACKSLASH) ? (JSON.parse(`"${text}"`) as string) : text
}

/**
 * Returns the end (exclusive) of the value at `start`.
 * @throws Error when there is no value, or when the text ends with it.
 */
function requireValue(bytes: Uint8Array, start: number): number {
  const end = endOfValue(bytes, start)
  if (end === start) throw new Error(`expected a JSON value at byte ${start}`)
  if (end >= bytes.length) throw new Error('the JSON text ends too early')
  return end
}

/** Returns the index of the next item after a comma, or of the closing bracket. @throws Error when neither follows. */
function afterItem(bytes: Uint8Array, end: number, close: number): number {
  const i = skipSpace(bytes, end)
  if (bytes[i] === COMMA) return skipSpace(bytes, i + 1)
  if (bytes[i] !== close) throw new Error(`expected a comma or ${String.fromCharCode(close)} at byte ${i}`)
  return i
}

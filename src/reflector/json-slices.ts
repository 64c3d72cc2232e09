/**
 * Finds where values lie in JSON bytes without parsing them: what is handed on must not be changed. It trusts that the
 * text is JSON as far as it need not look; where it must, it throws.
 */
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

export interface Slice {
  readonly start: number
  readonly end: number
}

/** Calls with each member's name and the place of its value; stops when `visit` returns false. @throws Error */
export function eachMember(
  bytes: Uint8Array,
  at: number,
  visit: (name: string, start: number, end: number) => boolean,
): void {
  let i = skipSpace(bytes, at)
  if (bytes[i] !== OPEN_BRACE) throw new Error(`no object at ${i}`)
  i = skipSpace(bytes, i + 1)
  while (bytes[i] !== CLOSE_BRACE) {
    const nameEnd = skipValue(bytes, i)
    const name = stringAt(bytes, i, nameEnd)
    i = skipSpace(bytes, nameEnd)
    if (bytes[i] !== COLON) throw new Error(`no colon at ${i}`)
    const start = skipSpace(bytes, i + 1)
    const end = skipValue(bytes, start)
    if (!visit(name, start, end)) return
    i = skipSpace(bytes, end)
    if (bytes[i] === COMMA) i = skipSpace(bytes, i + 1)
    else if (bytes[i] !== CLOSE_BRACE) throw new Error(`an object that does not end at ${i}`)
  }
}

/** @throws Error */
export function eachElement(bytes: Uint8Array, at: number, visit: (start: number, end: number) => void): void {
  let i = skipSpace(bytes, at)
  if (bytes[i] !== OPEN_BRACKET) throw new Error(`no array at ${i}`)
  i = skipSpace(bytes, i + 1)
  while (bytes[i] !== CLOSE_BRACKET) {
    const end = skipValue(bytes, i)
    visit(i, end)
    i = skipSpace(bytes, end)
    if (bytes[i] === COMMA) i = skipSpace(bytes, i + 1)
    else if (bytes[i] !== CLOSE_BRACKET) throw new Error(`an array that does not end at ${i}`)
  }
}

const decoder = new TextDecoder()

/** The text of the string that lies there. @throws Error when it is not one. */
export function stringAt(bytes: Uint8Array, start: number, end: number): string {
  if (bytes[start] !== QUOTE) throw new Error(`no string at ${start}`)
  const inner = bytes.subarray(start + 1, end - 1)
  const text = decoder.decode(inner)
  return inner.includes(BACKSLASH) ? (JSON.parse(`"${text}"`) as string) : text
}

/** The end (exclusive) of the value that begins at `at`. @throws Error when the text ends before it does. */
export function skipValue(bytes: Uint8Array, at: number): number {
  const first = bytes[at]
  if (first === QUOTE) return skipString(bytes, at)
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return skipLiteral(bytes, at)
  let depth = 0
  for (let i = at; i < bytes.length; i++) {
    const byte = bytes[i]
    if (byte === QUOTE) i = skipString(bytes, i) - 1
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++
    else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && --depth === 0) return i + 1
  }
  throw new Error('JSON that does not end')
}

function skipString(bytes: Uint8Array, at: number): number {
  for (let end = bytes.indexOf(QUOTE, at + 1); end !== -1; end = bytes.indexOf(QUOTE, end + 1)) {
    let slashes = 0
    while (bytes[end - 1 - slashes] === BACKSLASH) slashes++
    if (slashes % 2 === 0) return end + 1
  }
  throw new Error('a string that does not end')
}

function skipLiteral(bytes: Uint8Array, at: number): number {
  let i = at
  for (; i < bytes.length; i++) {
    const byte = bytes[i] as number
    if (byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET || byte <= 0x20) break
  }
  if (i === at) throw new Error(`no value at ${at}`)
  return i
}

function skipSpace(bytes: Uint8Array, at: number): number {
  let i = at
  while (i < bytes.length && (bytes[i] as number) <= 0x20) i++
  return i
}

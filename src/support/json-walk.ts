/**
 * Steps over JSON text: finds where a string or a value ends. It neither checks the grammar nor builds a tree. For text
 * that is not JSON the result is wrong, but no step goes backwards or beyond the end.
 *
 * This file uses no Node modules, because the client also runs in browsers.
 */
export const QUOTE = 0x22
export const BACKSLASH = 0x5c
export const OPEN_BRACE = 0x7b
export const CLOSE_BRACE = 0x7d
export const OPEN_BRACKET = 0x5b
export const CLOSE_BRACKET = 0x5d
export const COMMA = 0x2c

/** Returns the index of the first byte at or after `at` that is not white space; the length at the end. */
export function skipSpace(json: Uint8Array, at: number): number {
  const end = json.length
  let i = at
  while (i < end && json[i]! <= 0x20) i++
  return i
}

/** @param at the opening quote. @returns the index after the closing one. */
export function endOfString(json: Uint8Array, at: number): number {
  const end = json.length
  let i = at + 1
  while (i < end) {
    const byte = json[i]!
    if (byte === QUOTE) return i + 1
    i += byte === BACKSLASH ? 2 : 1
  }
  return end
}

/** @param at the first byte of a value of any kind. @returns the index after its last byte. */
export function endOfValue(json: Uint8Array, at: number): number {
  const end = json.length
  const first = json[at]
  if (first === QUOTE) return endOfString(json, at)
  let i = at
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) {
    while (i < end) {
      const byte = json[i]!
      if (byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET || byte <= 0x20) return i
      i++
    }
    return end
  }
  let depth = 0
  while (i < end) {
    const byte = json[i]!
    if (byte === QUOTE) {
      // `endOfString` is inlined here, because nearly every byte of an object is in a string and the call shows up in
      // profiles.
      i++
      while (i < end) {
        const inner = json[i]!
        if (inner === QUOTE) break
        i += inner === BACKSLASH ? 2 : 1
      }
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth++
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth--
      if (depth === 0) return i + 1
    }
    i++
  }
  return end
}

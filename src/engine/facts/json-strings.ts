/** Decodes string literals in valid JSON text, and compares them with a given text. */
const BACKSLASH = 0x5c

/**
 * Returns the text of a string literal.
 * @param start the index of its opening quote.
 * @param end the index after its closing quote.
 */
export function decodeString(json: Buffer, start: number, end: number): string {
  for (let i = start + 1; i < end - 1; i++) {
    if (json[i] === BACKSLASH) return JSON.parse(json.toString('utf8', start, end)) as string
  }
  return json.toString('utf8', start + 1, end - 1)
}

/**
 * Whether the string literal stands for `text`, taking escapes into account (`"metadat\u0061"` is `metadata`).
 *
 * @param textBytes `text` in UTF-8, so that in the usual case only bytes are compared and no string is created.
 */
export function stringEquals(json: Buffer, start: number, end: number, text: string, textBytes: Buffer): boolean {
  const length = end - start - 2
  for (let i = 0; i < length; i++) {
    const byte = json[start + 1 + i]!
    // Everything before this byte is equal, so the escape may stand for the text's next character.
    if (byte === BACKSLASH) return decodeString(json, start, end) === text
    if (byte !== textBytes[i]) return false
  }
  return length === textBytes.length
}

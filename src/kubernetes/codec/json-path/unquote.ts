/** Reads Go's quoted strings, and single-quoted ones of any length. Source: `strconv.UnquoteChar`. */

const ESCAPES: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  '\\': '\\',
}
const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|([^]))/y

/** Returns null when an escape is not one of Go's. @param literal with its quotes. */
export function unquote(literal: string): string | null {
  const quote = literal[0]!
  const text = literal.slice(1, -1)
  if (!text.includes('\\')) return text
  const bytes: Buffer[] = []
  let at = 0
  while (at < text.length) {
    if (text[at] === quote) return null
    const end = text.indexOf('\\', at)
    if (end !== at) {
      bytes.push(Buffer.from(text.slice(at, end === -1 ? text.length : end)))
      at = end === -1 ? text.length : end
      continue
    }
    ESCAPE.lastIndex = at
    const escape = ESCAPE.exec(text)
    if (escape === null) return null
    const [whole, hex, short, long, octal, letter] = escape
    const byte = hex !== undefined ? parseInt(hex, 16) : octal !== undefined ? parseInt(octal, 8) : null
    const codePoint = short ?? long
    if (byte !== null) {
      if (byte > 0xff) return null
      bytes.push(Buffer.from([byte]))
    } else if (codePoint !== undefined) {
      const value = parseInt(codePoint, 16)
      if (value > 0x10ffff) return null
      bytes.push(Buffer.from(String.fromCodePoint(value)))
    } else {
      const meaning = letter === quote ? quote : Object.hasOwn(ESCAPES, letter!) ? ESCAPES[letter!]! : null
      if (meaning === null) return null
      bytes.push(Buffer.from(meaning))
    }
    at += whole.length
  }
  return Buffer.concat(bytes).toString('utf8')
}

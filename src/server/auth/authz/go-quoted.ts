/**
 * Quotes strings in messages as Go's %q does, because people search for the API server's exact words. Source:
 * `strconv.Quote`.
 */

const SHORT: Readonly<Record<string, string>> = {
  '\u0007': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
  '"': '\\"',
  '\\': '\\\\',
}

export function goQuoted(text: string): string {
  return `"${text.replaceAll(/["\\]|(?! )[\p{C}\p{Z}]/gu, escaped)}"`
}

/** `["get" "list"]` */
export function goQuotedList(texts: readonly string[]): string {
  return `[${texts.map(goQuoted).join(' ')}]`
}

function escaped(character: string): string {
  const short = SHORT[character]
  if (short !== undefined) return short
  const point = character.codePointAt(0)!
  if (point < 0x80) return `\\x${point.toString(16).padStart(2, '0')}`
  if (point < 0x10000) return `\\u${point.toString(16).padStart(4, '0')}`
  return `\\U${point.toString(16).padStart(8, '0')}`
}

/**
 * JSON in which every number keeps its spelling: JSON.parse would change 9007199254740993 and 1.0. A number becomes a
 * string that begins with a character that no response contains.
 */
export type LosslessJson = null | boolean | string | readonly LosslessJson[] | { readonly [name: string]: LosslessJson }

/** A character from Unicode's private use area. */
const MARK = '\uF8FF'
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

/** @throws SyntaxError */
export function parseLossless(text: string): LosslessJson {
  return JSON.parse(
    text.replace(STRING_OR_NUMBER, (token) => (token[0] === '"' ? token : `"${MARK}${token}"`)),
  ) as LosslessJson
}

/** The marked form of a number. */
export function markNumber(spelling: string): string {
  return `${MARK}${spelling}`
}

export function isObject(value: LosslessJson | undefined): value is { readonly [name: string]: LosslessJson } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isArray(value: LosslessJson | undefined): value is readonly LosslessJson[] {
  return Array.isArray(value)
}

/** Prints JSON with each number as it was spelled. */
export function printLossless(value: unknown): string {
  return JSON.stringify(value).replaceAll(new RegExp(`"${MARK}([^"]*)"`, 'g'), '$1')
}

/** The JSON text, shortened for people. */
export function show(value: LosslessJson | undefined, length = 240): string {
  if (value === undefined) return '(absent)'
  const text = printLossless(value)
  return text.length > length ? `${text.slice(0, length)}…` : text
}

/**
 * Reads query parameters as the API server does: the first of a repeated parameter wins, unknown ones are ignored,
 * and a flag is true unless its value is `0` or `false`.
 */
import { BadRequestError } from '../model/status.js'

export type Query = URLSearchParams | Readonly<Record<string, string | readonly string[] | undefined>>

/**
 * Drops a parameter that cannot be decoded or contains a semicolon, as Go does: `labelSelector=%` is no selector. Our
 * own `prefix` is kept and rejected later, because without it the request would cover everything; so is one that is not
 * UTF-8, because U+FFFD would select other keys.
 *
 * @param text the text after the question mark.
 */
export function parseQuery(text: string): URLSearchParams {
  if (!UNREADABLE.test(text) && !NOT_ASCII.test(text)) return paramsOf(text)
  const readable = text
    .split('&')
    .map((pair) => (!isText(pair) && isPrefix(pair) ? 'prefix=%00' : pair))
    .filter((pair) => !UNREADABLE.test(pair))
  return paramsOf(readable.join('&'))
}

/**
 * Keeps a second question mark as part of the first name, though URLSearchParams drops it: `??limit=1` has no limit.
 */
function paramsOf(text: string): URLSearchParams {
  return new URLSearchParams(text.startsWith('?') ? `&${text}` : text)
}

/** Whether the parameter is `prefix`, however its name is encoded. */
function isPrefix(pair: string): boolean {
  return paramsOf(pair.split('=', 1)[0] ?? '').has('prefix')
}

function isText(pair: string): boolean {
  try {
    decodeURIComponent(pair)
    return !pair.includes(';')
  } catch {
    return false
  }
}

const NOT_ASCII = /%[89A-F]/i
const UNREADABLE = /%(?![\dA-Fa-f]{2})|;/

/** Returns the first value; undefined when the parameter is absent, '' when it is empty. */
export function parameter(query: Query, name: string): string | undefined {
  if (query instanceof URLSearchParams) return query.get(name) ?? undefined
  if (!Object.hasOwn(query, name)) return undefined
  const value = query[name]
  return typeof value === 'string' || value === undefined ? value : value[0]
}

/** Returns undefined when the parameter is absent. As in Kubernetes, an empty one is true. */
export function flagParameter(query: Query, name: string): boolean | undefined {
  const text = parameter(query, name)
  return text === undefined ? undefined : text !== '0' && text.toLowerCase() !== 'false'
}

/** Returns a decimal integer that JavaScript represents exactly. @throws BadRequestError in Go's words */
export function integerParameter(query: Query, name: string): number | undefined {
  const text = parameter(query, name)
  if (text === undefined) return undefined
  const shown = JSON.stringify(text.slice(0, 64))
  if (!/^[+-]?\d+$/.test(text)) throw new BadRequestError(`${name}: strconv.ParseInt: parsing ${shown}: invalid syntax`)
  const value = Number(text)
  if (!Number.isSafeInteger(value)) {
    throw new BadRequestError(`${name}: strconv.ParseInt: parsing ${shown}: value out of range`)
  }
  return value
}

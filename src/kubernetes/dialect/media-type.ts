/**
 * Parses the headers of content negotiation: Accept, Accept-Encoding, Content-Type. The parser takes one pass over the
 * text, quoted strings included, without a regular expression over the whole text. The length is limited, because
 * clients write these headers.
 */
import { BadRequestError, UnsupportedMediaTypeError } from '../model/status.js'

export interface AcceptClause {
  /** Lower case; `*` means any. */
  readonly type: string
  readonly subtype: string
  /** Names in lower case, without q. The first of a repeated name wins. */
  readonly parameters: ReadonlyMap<string, string>
  /** A number in [0, 1]; 1 when absent or unreadable, as in the API server. */
  readonly quality: number
}

/** client-go sends less than 300 characters, and a browser less than 200. A longer header is likely an attack. */
const MAX_HEADER_LENGTH = 8_192

/**
 * Returns the clauses, best first: by q, then a full type before a wildcard subtype before a full wildcard, then as
 * written. Clauses with q=0 come last and are refusals.
 *
 * @throws BadRequestError when the header is too long. Clauses that are not media ranges are skipped.
 */
export function parseAccept(header: string): readonly AcceptClause[] {
  checkLength('Accept', header)
  const clauses: AcceptClause[] = []
  for (const text of split(header, ',')) {
    const range = parseMediaType(text)
    if (range === null) continue
    const quality = Number(range.parameters.get('q') ?? '1')
    const parameters = new Map(range.parameters)
    parameters.delete('q')
    clauses.push({ ...range, parameters, quality: quality >= 0 && quality <= 1 ? quality : 1 })
  }
  return clauses.sort((a, b) => b.quality - a.quality || breadth(a) - breadth(b))
}

function breadth(clause: AcceptClause): number {
  return clause.type === '*' ? 2 : clause.subtype === '*' ? 1 : 0
}

export interface MediaType {
  readonly type: string
  readonly subtype: string
  readonly parameters: ReadonlyMap<string, string>
}

/** Returns null when the text is not `type/subtype` with parameters. */
function parseMediaType(text: string): MediaType | null {
  const [range = '', ...parts] = split(text, ';')
  const [type = '', subtype = '', ...more] = range.trim().toLowerCase().split('/')
  if (!isToken(type) || !isToken(subtype) || more.length > 0) return null
  const parameters = new Map<string, string>()
  for (const part of parts) {
    const equals = part.indexOf('=')
    if (equals === -1) continue
    const name = part.slice(0, equals).trim().toLowerCase()
    if (!parameters.has(name)) parameters.set(name, unquote(part.slice(equals + 1).trim()))
  }
  return { type, subtype, parameters }
}

/**
 * Returns the media type of a body, from those that a handler reads.
 *
 * @param contentType the header; absent or empty means the first of `readable`, as in the API server.
 * @throws UnsupportedMediaTypeError when the type is not in `readable`.
 */
export function bodyMediaType<T extends string>(contentType: string | undefined, readable: readonly [T, ...T[]]): T {
  if (contentType === undefined || contentType.trim() === '') return readable[0]
  const parsed = contentType.length > MAX_HEADER_LENGTH ? null : parseMediaType(contentType)
  const found = parsed === null ? undefined : readable.find((text) => text === `${parsed.type}/${parsed.subtype}`)
  if (found !== undefined) return found
  throw new UnsupportedMediaTypeError(
    `the body of the request was in an unknown format - accepted media types include: ${readable.join(', ')}`,
  )
}

/** Whether a response may be gzipped: gzip (or `*`) is listed without q=0. An absent header does not allow it. */
export function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined || acceptEncoding.length > MAX_HEADER_LENGTH) return false
  let any = false
  for (const text of split(acceptEncoding, ',')) {
    const [coding = '', ...parts] = text.split(';')
    const quality = parts.map((part) => part.trim().toLowerCase()).find((part) => part.startsWith('q='))
    const wanted = quality === undefined || Number(quality.slice(2)) > 0
    const name = coding.trim().toLowerCase()
    if (name === 'gzip' || name === 'x-gzip') return wanted
    if (name === '*') any = wanted
  }
  return any
}

function checkLength(name: string, header: string): void {
  if (header.length > MAX_HEADER_LENGTH) {
    throw new BadRequestError(`${name} is ${header.length} characters long, at most ${MAX_HEADER_LENGTH} are allowed`)
  }
}

/** Splits at separators outside quoted strings. */
function split(text: string, separator: ',' | ';'): string[] {
  const parts: string[] = []
  let start = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const char = text[i]
    if (char === '"') quoted = !quoted
    else if (char === '\\' && quoted) i++
    else if (char === separator && !quoted) {
      parts.push(text.slice(start, i))
      start = i + 1
    }
  }
  parts.push(text.slice(start))
  return parts
}

function unquote(text: string): string {
  if (!text.startsWith('"') || !text.endsWith('"') || text.length < 2) return text
  return text.slice(1, -1).replaceAll(/\\(.)/g, '$1')
}

/** Whether the text is a token of RFC 9110. */
function isToken(text: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9a-z@]+$/.test(text)
}

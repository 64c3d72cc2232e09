/**
 * Chooses which headers of a request and of its response are forwarded; the others are meant for the next hop only (RFC
 * 9110, 7.6.1).
 *
 * Identities that a caller claims (`X-Remote-*`) are never forwarded, because an API server that trusts our certificate
 * would believe them. The API server gets the identity that was authenticated here.
 */
import { BEARER_PROTOCOL_PREFIX } from '../../auth/authn/bearer-token.js'
import { ForbiddenError } from '../../../kubernetes/model/status.js'
import type { User } from '../../auth/user.js'
import type { BodyKind } from '../exchange/request-body.js'

/** Name, value, name, value… as in Node's `rawHeaders`, which keeps repeated headers separate. */
export type RawHeaders = readonly string[]

const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  // HTTP/2's way to offer HTTP/1.1 an upgrade.
  'http2-settings',
])
/** Headers of a request that are never copied: Node answers `Expect`, and this server sets the others. */
const REPLACED: ReadonlySet<string> = new Set(['host', 'content-length', 'expect'])
const PROTOCOLS = 'sec-websocket-protocol'
const REMOTE = /^x-remote-(user|group|uid|extra-.*)$/

export interface PassedRequest {
  readonly rawHeaders: RawHeaders
  /** The client's address, added to X-Forwarded-For. */
  readonly address: string
  /** The host of the target server. */
  readonly host: string
  /** The user for the X-Remote-* headers, which replace any credential; null for none. */
  readonly asUser: User | null
  /**
   * Whether the caller's own token is forwarded. A token that did not determine the caller's identity is never
   * forwarded, because the other server would see a different caller from the one counted and logged here.
   */
  readonly passesToken: boolean
  /** The protocol to upgrade to; null for none. */
  readonly upgrade: string | null
  /** The headers that mark the end of the body; see `framingHeaders`. */
  readonly framing: RawHeaders
  /** Matches the lower-case names of further headers to drop. */
  readonly isStripped: (key: string) => boolean
}

/**
 * Whether a header is forwarded even if Connection lists it. Without such a header, the other server would see another
 * caller. For example, a gateway that adds Impersonate-User and forwards its client's Connection header would act with
 * its own permissions.
 */
function isEndToEnd(key: string): boolean {
  return key === 'authorization' || key === PROTOCOLS || key.startsWith('impersonate-')
}

/** Whether a header claims an identity. Servers behind a CGI-like gateway read `_` as `-`. */
function isName(key: string): boolean {
  return REMOTE.test(key.replaceAll('_', '-'))
}

/** @param patterns header names in any case; a `*` at the end matches any suffix. */
export function headerMatcher(patterns: readonly string[]): (key: string) => boolean {
  const lower = patterns.map((pattern) => pattern.toLowerCase().replaceAll('_', '-'))
  const names = new Set(lower)
  const prefixes = lower.filter((pattern) => pattern.endsWith('*')).map((pattern) => pattern.slice(0, -1))
  return (key) => {
    const name = key.replaceAll('_', '-')
    return names.has(name) || prefixes.some((prefix) => name.startsWith(prefix))
  }
}

/**
 * Returns the headers that mark the end of the body to be sent, whatever the method. They depend only on how the body
 * arrives, never on which headers are forwarded: without them Node would send a DELETE's body as it is, and the other
 * server would parse it as another request, on a connection that may carry our certificate.
 */
export function framingHeaders(body: BodyKind, length: string | undefined): string[] {
  if (body === 'chunked') return ['Transfer-Encoding', 'chunked']
  return length === undefined ? [] : ['Content-Length', body === 'none' ? '0' : length]
}

/**
 * Returns the headers of the request to the other server, for `http.request`.
 * @throws ForbiddenError for a user whose name or groups no header can carry.
 */
export function requestHeaders({
  rawHeaders,
  address,
  host,
  asUser,
  passesToken,
  upgrade,
  framing,
  isStripped,
}: PassedRequest): string[] {
  const listed = listedInConnection(rawHeaders)
  const passed: string[] = ['Host', host]
  const forwarded: string[] = []
  let acceptsTrailers = false
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const [name, value] = [rawHeaders[i]!, rawHeaders[i + 1]!]
    const key = name.toLowerCase()
    if (key.startsWith(':') || REPLACED.has(key) || isName(key) || isStripped(key)) continue
    if (key === 'te' && /\btrailers\b/i.test(value)) acceptsTrailers = true
    if (HOP_BY_HOP.has(key) || (listed.has(key) && !isEndToEnd(key))) continue
    if (key === 'x-forwarded-for') forwarded.push(value)
    else if (passesToken) passed.push(name, value)
    else if (key === PROTOCOLS) passed.push(...withoutToken(name, value))
    else if (key !== 'authorization') passed.push(name, value)
  }
  if (address !== '') passed.push('X-Forwarded-For', [...forwarded, address].join(', '))
  if (upgrade !== null) passed.push('Connection', 'Upgrade', 'Upgrade', upgrade)
  else if (acceptsTrailers) passed.push('TE', 'trailers')
  passed.push(...framing)
  if (asUser !== null) passed.push(...remoteHeaders(asUser))
  return passed
}

/**
 * Returns the trailers of the request to forward. No forwarded trailer may identify the caller, because the identity
 * comes from the headers, and the next server may merge trailers into them.
 */
export function requestTrailers(rawTrailers: RawHeaders, isStripped: (key: string) => boolean): [string, string][] {
  const passed: [string, string][] = []
  for (let i = 0; i + 1 < rawTrailers.length; i += 2) {
    const key = rawTrailers[i]!.toLowerCase()
    const isOfHeaders = HOP_BY_HOP.has(key) || REPLACED.has(key) || key === 'x-forwarded-for'
    const plain = key.replaceAll('_', '-')
    if (isOfHeaders || isName(key) || isEndToEnd(plain) || isStripped(key)) continue
    passed.push([rawTrailers[i]!, rawTrailers[i + 1]!])
  }
  return passed
}

/** Returns the header without the subprotocols that hold a token; empty if there are no others. */
function withoutToken(name: string, value: string): string[] {
  const protocols = value.split(',').map((protocol) => protocol.trim())
  const others = protocols.filter((protocol) => protocol !== '' && !protocol.startsWith(BEARER_PROTOCOL_PREFIX))
  return others.length === 0 ? [] : [name, others.join(', ')]
}

/** Returns the headers of the response to forward, in their original order. */
export function responseHeaders(rawHeaders: RawHeaders): string[] {
  const listed = listedInConnection(rawHeaders)
  const passed: string[] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const key = rawHeaders[i]!.toLowerCase()
    // Keep the Trailer header, because trailers can be forwarded only if they are announced.
    if (key !== 'trailer' && (HOP_BY_HOP.has(key) || listed.has(key))) continue
    passed.push(rawHeaders[i]!, rawHeaders[i + 1]!)
  }
  return passed
}

/**
 * Returns the trailers of the response to forward: none that would affect its framing or describe the connection.
 * Repeated ones become one value, because HTTP/2 refuses some names twice, and does so where nothing can catch it.
 */
export function responseTrailers(rawTrailers: RawHeaders): Record<string, string> {
  const passed: string[] = []
  for (let i = 0; i + 1 < rawTrailers.length; i += 2) {
    const key = rawTrailers[i]!.toLowerCase()
    if (!HOP_BY_HOP.has(key) && key !== 'content-length') passed.push(rawTrailers[i]!, rawTrailers[i + 1]!)
  }
  const values = Object.entries(byName(passed))
  return Object.fromEntries(values.map(([key, value]) => [key, typeof value === 'string' ? value : value.join(', ')]))
}

/** Returns headers by their names in lower case. A repeated header has all of its values. */
export function byName(headers: RawHeaders): Record<string, string | string[]> {
  const values = Object.create(null) as Record<string, string | string[]>
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const key = headers[i]!.toLowerCase()
    const before = values[key]
    if (before === undefined) values[key] = headers[i + 1]!
    else values[key] = [...(Array.isArray(before) ? before : [before]), headers[i + 1]!]
  }
  return values
}

function listedInConnection(rawHeaders: RawHeaders): ReadonlySet<string> {
  const listed = new Set<string>()
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.toLowerCase() !== 'connection') continue
    for (const name of rawHeaders[i + 1]!.split(',')) listed.add(name.trim().toLowerCase())
  }
  return listed
}

/**
 * Source: Kubernetes' request header authentication. The keys of extras are percent-encoded, because they become header
 * names.
 */
function remoteHeaders({ name, uid, groups, extra }: User): string[] {
  const headers = ['X-Remote-User', headerText(name)]
  if (uid !== '') headers.push('X-Remote-Uid', headerText(uid))
  for (const group of groups) headers.push('X-Remote-Group', headerText(group))
  for (const [key, values] of Object.entries(extra)) {
    const name = `X-Remote-Extra-${encodeURIComponent(Buffer.from(key).toString())}`
    for (const value of values) headers.push(name, headerText(value))
  }
  return headers
}

/**
 * Encodes a header's value in UTF-8, as Go does.
 * @throws ForbiddenError for control characters, and for spaces at an end, which the receiver would remove: the other
 * server would see another user.
 */
function headerText(text: string): string {
  if (/^ | $|\p{Cc}/u.test(text)) {
    const shown = JSON.stringify(text.slice(0, 64))
    throw new ForbiddenError(`the other server cannot learn who is calling: no header can carry ${shown}`)
  }
  return Buffer.from(text, 'utf8').toString('latin1')
}

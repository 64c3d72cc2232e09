/**
 * Which headers of a request and an answer go through a proxy, and which are between two neighbours only (RFC 9110, 7.6.1).
 *
 * Names that a caller gives itself (`X-Remote-*`) never go through: an API server that trusts our certificate would believe
 * them. What it is told of a caller is what was found out here.
 */
import type { User } from '../../auth/user.js'

/** Name, value, name, value… as Node has them raw: repeated ones stay apart. */
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
const REMOTE = /^x-remote-(user|group|uid|extra-.*)$/

export interface PassedRequest {
  readonly rawHeaders: RawHeaders
  /** The client's address, added to X-Forwarded-For. */
  readonly address: string
  /** The host of the server that it goes to. */
  readonly host: string
  /**
   * The user that X-Remote-* headers name in place of any credential; null passes the caller's own Authorization on.
   */
  readonly asUser: User | null
  /** The protocol to upgrade to; null: none. */
  readonly upgrade: string | null
  /** The body has no length of its own. */
  readonly isChunked: boolean
  /** Matches the lower-case names of further headers that are not passed on. */
  readonly isStripped: (key: string) => boolean
}

/**
 * Never between two neighbours, whatever Connection says: without them the other server would see somebody else asking. A
 * gateway that adds Impersonate-User and forwards its client's Connection would act with its own rights.
 */
function isEndToEnd(key: string): boolean {
  return key === 'authorization' || key.startsWith('impersonate-')
}

/** Servers behind a CGI-like gateway read `_` as `-`. */
function isName(key: string): boolean {
  return REMOTE.test(key.replaceAll('_', '-'))
}

/** @param patterns names, with `*` at the end for any end; case does not matter. */
export function headerMatcher(patterns: readonly string[]): (key: string) => boolean {
  const lower = patterns.map((pattern) => pattern.toLowerCase().replaceAll('_', '-'))
  const names = new Set(lower)
  const prefixes = lower.filter((pattern) => pattern.endsWith('*')).map((pattern) => pattern.slice(0, -1))
  return (key) => {
    const name = key.replaceAll('_', '-')
    return names.has(name) || prefixes.some((prefix) => name.startsWith(prefix))
  }
}

/** For `http.request`. */
export function requestHeaders({
  rawHeaders,
  address,
  host,
  asUser,
  upgrade,
  isChunked,
  isStripped,
}: PassedRequest): string[] {
  const listed = listedInConnection(rawHeaders)
  const passed: string[] = ['Host', host]
  const forwarded: string[] = []
  let acceptsTrailers = false
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const [name, value] = [rawHeaders[i]!, rawHeaders[i + 1]!]
    const key = name.toLowerCase()
    if (key.startsWith(':') || key === 'host' || isName(key) || isStripped(key)) continue
    if (key === 'te' && /\btrailers\b/i.test(value)) acceptsTrailers = true
    if (HOP_BY_HOP.has(key) || (listed.has(key) && !isEndToEnd(key))) continue
    // Node answers that itself.
    if (key === 'expect') continue
    if (key === 'x-forwarded-for') forwarded.push(value)
    else if (key === 'authorization' && asUser !== null) continue
    else passed.push(name, value)
  }
  if (address !== '') passed.push('X-Forwarded-For', [...forwarded, address].join(', '))
  if (upgrade !== null) passed.push('Connection', 'Upgrade', 'Upgrade', upgrade)
  else if (acceptsTrailers) passed.push('TE', 'trailers')
  if (isChunked) passed.push('Transfer-Encoding', 'chunked')
  if (asUser !== null) passed.push(...remoteHeaders(asUser))
  return passed
}

/** The headers of an answer, in the order they came. */
export function responseHeaders(rawHeaders: RawHeaders): string[] {
  const listed = listedInConnection(rawHeaders)
  const passed: string[] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const key = rawHeaders[i]!.toLowerCase()
    // A trailer has to be announced to be sent on.
    if (key !== 'trailer' && (HOP_BY_HOP.has(key) || listed.has(key))) continue
    passed.push(rawHeaders[i]!, rawHeaders[i + 1]!)
  }
  return passed
}

function listedInConnection(rawHeaders: RawHeaders): ReadonlySet<string> {
  const listed = new Set<string>()
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.toLowerCase() !== 'connection') continue
    for (const name of rawHeaders[i + 1]!.split(',')) listed.add(name.trim().toLowerCase())
  }
  return listed
}

/** Source: Kubernetes' request header authentication; keys of extras are percent-encoded, for they become header names. */
function remoteHeaders({ name, uid, groups, extra }: User): string[] {
  const headers = ['X-Remote-User', headerText(name)]
  if (uid !== '') headers.push('X-Remote-Uid', headerText(uid))
  for (const group of groups) headers.push('X-Remote-Group', headerText(group))
  for (const [key, values] of Object.entries(extra)) {
    for (const value of values) headers.push(`X-Remote-Extra-${encodeURIComponent(key)}`, headerText(value))
  }
  return headers
}

/** A header is bytes: UTF-8 as Go writes it. @throws TypeError by Node for what no header may hold. */
function headerText(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

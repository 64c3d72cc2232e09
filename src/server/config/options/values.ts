/** Parses values that have their own grammar. Each function throws an OptionValueError unless it says otherwise. */
import { isIP } from 'node:net'

import { parseStripRule, problemOfStripped, type StripRule } from '../../../kubernetes/dialect/stripped-fields.js'
import { OptionValueError, quote } from '../option.js'

export interface WatchCacheSize {
  /** `pods`, `deployments.apps`. */
  readonly resource: string
  /** 0 means that the resource has no cache. */
  readonly batches: number
}

export function watchCacheSize(text: string): WatchCacheSize {
  const match = /^([a-z0-9][-a-z0-9.]*)#(\d{1,7})$/.exec(text)
  if (match === null) throw new OptionValueError(`${quote(text)} is not of the form resource#size`)
  const batches = Number(match[2])
  if (batches > 1_048_576) throw new OptionValueError(`${quote(text)} is above 1048576`)
  return { resource: match[1] ?? '', batches }
}

export function stripRule(text: string): StripRule {
  const rule = parseStripRule(text)
  if (rule === null) throw new OptionValueError(`${quote(text)} is not like "pods=metadata.managedFields"`)
  const problem = problemOfStripped(rule)
  if (problem !== null) throw new OptionValueError(problem)
  return rule
}

export type GapPolicy = 'expire' | 'coalesce'

export interface ResourceGapPolicy {
  readonly resource: string
  readonly policy: GapPolicy
}

export function resourceGapPolicy(text: string): ResourceGapPolicy {
  const [, resource, policy] = /^([a-z0-9][-a-z0-9.]*)=(expire|coalesce)$/.exec(text) ?? []
  if (resource === undefined)
    throw new OptionValueError(`${quote(text)} is not of the form resource=expire or =coalesce`)
  return { resource, policy: policy as GapPolicy }
}

export interface PublicResource {
  /** `flags.distributary.io`, `pods`. */
  readonly resource: string
  readonly maxAgeSeconds: number
  readonly staleSeconds: number
}

/**
 * A client that lists from a cache must still be able to start a watch from that list. The server keeps 75 s of
 * history.
 */
const MAX_PUBLIC_SECONDS = 60

export function publicResource(text: string): PublicResource {
  const [, resource, maxAge, stale = '0'] = /^([a-z0-9][-a-z0-9.]*)=(\d{1,4})s(?:\/(\d{1,4})s)?$/.exec(text) ?? []
  if (resource === undefined) throw new OptionValueError(`${quote(text)} is not like "flags.distributary.io=5s/30s"`)
  const [maxAgeSeconds, staleSeconds] = [Number(maxAge), Number(stale)]
  if (maxAgeSeconds + staleSeconds > MAX_PUBLIC_SECONDS) {
    throw new OptionValueError(
      `${quote(text)} is more than ${MAX_PUBLIC_SECONDS}s in total: clients must be able to start a watch from a cached list`,
    )
  }
  return { resource, maxAgeSeconds, staleSeconds }
}

export interface EtcdServersOverride {
  /** '' for the core group. */
  readonly group: string
  readonly plural: string
  readonly servers: readonly string[]
}

export function etcdServersOverride(text: string): EtcdServersOverride {
  const [, group, plural, servers] = /^([^/#]*)\/([^/#]+)#([^#]+)$/.exec(text) ?? []
  if (group === undefined || plural === undefined || servers === undefined) {
    throw new OptionValueError(`${quote(text)} is not like "/events#https://10.0.0.8:2379;https://10.0.0.9:2379"`)
  }
  return { group, plural, servers: servers.split(';').map(etcdServer) }
}

/** Parses a URL, `host:port`, which is plain HTTP as for etcdctl, or the `unix:///path` of a socket. */
export function etcdServer(text: string): string {
  if (/^unix:\/\/\/./.test(text)) return text
  if (text.startsWith('unix:')) throw new OptionValueError(`${quote(text)} is not like "unix:///run/kine.sock"`)
  const hasScheme = !/^([^/:@]+|\[[^\]/@]+\]):\d{1,5}$/.test(text)
  return url(hasScheme ? text : `http://${text}`, ['http:', 'https:'])
}

export interface ApiServiceAddress {
  readonly group: string
  readonly version: string
  readonly url: string
}

export function apiServiceAddress(text: string): ApiServiceAddress {
  const match = /^([a-z0-9][-a-z0-9]*(?:\.[a-z0-9][-a-z0-9]*)+)\/([a-z0-9][-a-z0-9]*)=(https:.*)$/.exec(text)
  const [, group, version, address] = match ?? []
  if (group === undefined || version === undefined || address === undefined || !isUrl(address.replace(/\/$/, ''))) {
    throw new OptionValueError(`${quote(text)} is not like "metrics.k8s.io/v1beta1=https://10.0.0.9:443"`)
  }
  return { group, version, url: url(address, ['https:']) }
}

export function problemOfUrl(text: string, protocols: readonly string[]): string | null {
  try {
    url(text, protocols)
    return null
  } catch {
    return `is not a URL such as ${protocols[0]}//127.0.0.1:8001, without user and password`
  }
}

export function url(text: string, protocols: readonly string[]): string {
  const parsed = URL.canParse(text) ? new URL(text) : null
  if (parsed === null || !protocols.includes(parsed.protocol) || parsed.hostname === '') {
    throw new OptionValueError(`${quote(text)} is not a URL such as ${protocols[0]}//127.0.0.1:2379`)
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw new OptionValueError(`the URL of ${quote(parsed.host)} contains a user or password: use the options for them`)
  }
  return text.replace(/\/$/, '')
}

export interface SocketAddress {
  /** An IP address without brackets. */
  readonly host: string
  /** 0 means any free port. */
  readonly port: number
}

/** Parses `127.0.0.1:9090`, `[::1]:9090`, or `:9090`, which is every address of this machine, as in Go. */
export function socketAddress(text: string): SocketAddress {
  const match = /^(?:\[([^\]]+)\]|([^:]+)|):(\d{1,5})$/.exec(text)
  const [, bracketed, plain, digits] = match ?? []
  const host = bracketed ?? plain ?? '::'
  if (match === null || isIP(host) !== (plain === undefined ? 6 : 4) || Number(digits) > 65_535) {
    throw new OptionValueError(`${quote(text)} is not an IP address and a port such as 127.0.0.1:9090 or [::1]:9090`)
  }
  return { host, port: Number(digits) }
}

/** Whether the text is a URL to which paths can be appended. */
export function isUrl(text: string): boolean {
  return /^https?:\/\/[^/?#@]+(\/[^?#@]*[^/?#@])?$/.test(text) && URL.canParse(text)
}

/** Whether the text is the https URL of an issuer; the API server also refuses a user or password in it. */
export function isIssuerUrl(text: string): boolean {
  return /^https:\/\/[^\s?#@/\\]+(\/[^\s?#\\]*)?$/.test(text)
}

export function hostName(text: string): string {
  const name = text.toLowerCase()
  const isName = /^\.?(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?$/.test(name)
  if (name === '*' || isName) return name
  throw new OptionValueError(`${quote(text)} is not a host name without port, ".example.com" or "*"`)
}

export function headerPattern(text: string): string {
  if (!/^[A-Za-z0-9_-]+\*?$/.test(text))
    throw new OptionValueError(`${quote(text)} is not a header name, with or without "*" at its end`)
  return text
}

export function origin(text: string): string {
  if (!URL.canParse(text) || new URL(text).origin !== text) {
    throw new OptionValueError(`${quote(text)} is not an origin such as https://app.example.org`)
  }
  return text
}

export function headerName(text: string): string {
  if (!/^[A-Za-z0-9-]+$/.test(text)) throw new OptionValueError(`${quote(text)} is not a header name`)
  return text
}

export function addressRange(text: string): string {
  const [address = '', bits, ...rest] = text.split('/')
  const family = isIP(address)
  const mostBits = family === 4 ? 32 : 128
  if (
    family === 0 ||
    rest.length > 0 ||
    (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= mostBits))
  ) {
    throw new OptionValueError(`${quote(text)} is not an address or a range such as 10.0.0.0/8`)
  }
  return text
}

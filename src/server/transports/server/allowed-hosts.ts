/**
 * Checks the Host of every request, because a page can make its own name resolve to our address (DNS rebinding). The
 * browser then treats this server as the page's own origin, sends any request that the page makes, and lets the page
 * read the responses. An IP address and a loopback name cannot be rebound; any other name must be allowed by the
 * operator.
 *
 * If clients are authenticated, a page has no credentials that work here, so any name is allowed by default.
 *
 * A client of an HTTP proxy sends its whole URL as the request target, and some proxies pass it on. The authority in it
 * is the host that is checked, here and against the origin of pages. It never decides where a request is forwarded.
 */
import { isIP } from 'node:net'
import type { IncomingMessage } from 'node:http'
import { headerValues } from '../../auth/authn/authenticator.js'
import { BadRequestError, ForbiddenError, type StatusError } from '../../../kubernetes/model/status.js'

/**
 * Turns an absolute request target into a path. A target that contradicts the Host stays as it is, and is refused.
 * Source: RFC 9112, 3.2.2.
 */
export function readTarget(request: IncomingMessage): void {
  const { url = '', headers, rawHeaders } = request
  if (url.startsWith('/') || request.httpVersionMajor !== 1) return
  const [, scheme = '', authority = '', path = ''] = /^(https?):\/\/([^/?]+)(.*)$/i.exec(url) ?? []
  if (authority === '' || authority.includes('@')) return
  if (headers.host === undefined) {
    headers.host = authority
    rawHeaders.push('Host', authority)
  } else if (withoutDefaultPort(headers.host, scheme) !== withoutDefaultPort(authority, scheme)) return
  request.url = path.startsWith('/') ? path : `/${path}`
}

function withoutDefaultPort(authority: string, scheme: string): string {
  return authority.toLowerCase().replace(scheme.toLowerCase() === 'http' ? /:(80)?$/ : /:(443)?$/, '')
}

/**
 * @param allowed names without port; `.example.com` allows every name under it, `*` every name; null allows any name.
 * @returns why the request is rejected; null if it is not.
 */
export function whyHostRefused(
  { url, headers, rawHeaders }: Pick<IncomingMessage, 'url' | 'headers' | 'rawHeaders'>,
  allowed: readonly string[] | null,
): StatusError | null {
  if (/^[a-z][-+.a-z\d]*:/i.test(url ?? ''))
    return new BadRequestError(
      'the request target must be a path, or an http or https URL with the host of the request',
    )
  const lines = headerValues({ rawHeaders }, 'host')
  const hosts = new Set(lines)
  const authority = headers[':authority']
  if (typeof authority === 'string') hosts.add(authority)
  // Two servers that choose differently between two hosts would see different requests.
  if (lines.length > 1 || hosts.size > 1) return new BadRequestError('the request names more than one host')
  const [host = ''] = hosts
  // A request without a host is not from a browser, because browsers always send one.
  if (allowed === null || host === '' || isAllowed(nameOf(host), allowed)) return null
  const shown = JSON.stringify(host.slice(0, 256))
  return new ForbiddenError(`host ${shown} is not allowed: add it to --allowed-hosts`)
}

function isAllowed(name: string, allowed: readonly string[]): boolean {
  if (isIP(name) !== 0 || name === 'localhost' || name.endsWith('.localhost')) return true
  return allowed.some((one) => one === '*' || one === name || (one.startsWith('.') && name.endsWith(one)))
}

/** Returns the host without its port, brackets and final dot, in lower case. */
function nameOf(host: string): string {
  const [, name = host] = /^\[([^\]]*)\](?::\d*)?$/.exec(host) ?? /^([^:]*)(?::\d*)?$/.exec(host) ?? []
  return name.toLowerCase().replace(/\.$/, '')
}

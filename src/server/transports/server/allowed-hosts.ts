/**
 * Checks the Host of every request, because a page can make its own name resolve to our address (DNS rebinding). The
 * browser then treats this server as the page's own origin, sends any request that the page makes, and lets the page
 * read the responses. An IP address and a loopback name cannot be rebound; any other name must be allowed by the
 * operator.
 *
 * If clients are authenticated, a page has no credentials that work here, so any name is allowed by default.
 */
import { isIP } from 'node:net'
import type { IncomingMessage } from 'node:http'
import { BadRequestError, ForbiddenError, type StatusError } from '../../../engine/model/status.js'

/**
 * @param allowed names without port; `.example.com` allows every name under it, `*` every name; null allows any name.
 * @returns why the request is rejected; null if it is not.
 */
export function whyHostRefused(
  { headers, rawHeaders }: Pick<IncomingMessage, 'headers' | 'rawHeaders'>,
  allowed: readonly string[] | null,
): StatusError | null {
  const hosts = new Set<string>()
  let lines = 0
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.toLowerCase() !== 'host') continue
    lines++
    hosts.add(rawHeaders[i + 1]!)
  }
  const authority = headers[':authority']
  if (typeof authority === 'string') hosts.add(authority)
  // Two servers that choose differently between two hosts would see different requests.
  if (lines > 1 || hosts.size > 1) return new BadRequestError('the request names more than one host')
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

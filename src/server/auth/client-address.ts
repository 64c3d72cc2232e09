/** Finds the client's address: the peer's address, unless the peer is a trusted proxy. */
import { BlockList, isIP } from 'node:net'

export interface TrustedProxies {
  has(address: string): boolean
}

/** @param ranges addresses and CIDR ranges, already checked by the config. */
export function trustedProxies(ranges: readonly string[]): TrustedProxies {
  const list = new BlockList()
  for (const range of ranges) {
    const [address = '', bits] = range.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    list.addSubnet(address, bits === undefined ? (family === 'ipv6' ? 128 : 32) : Number(bits), family)
  }
  return { has: (address) => isIP(address) !== 0 && list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4') }
}

/**
 * Returns the address of the nearest proxy that is not trusted, or of the client. The header is read from right to
 * left: an untrusted peer wrote everything to the left of its own address, and it can write anything.
 *
 * @param forwardedFor every X-Forwarded-For value, in order.
 */
export function clientAddress(peer: string, forwardedFor: readonly string[], proxies: TrustedProxies): string {
  const hops = forwardedFor.flatMap((value) => value.split(',').map((hop) => hop.trim()))
  let current = plain(peer)
  while (proxies.has(current)) {
    const next = plain(withoutPort(hops.pop() ?? ''))
    if (isIP(next) === 0) break
    current = next
  }
  return current
}

/** Returns a hop's address without a port, which some proxies add (Azure), and without the brackets of IPv6. */
function withoutPort(hop: string): string {
  const [, address = hop] = /^\[([^\]]+)\](?::\d+)?$/.exec(hop) ?? /^([\d.]+):\d+$/.exec(hop) ?? []
  return address
}

/** Turns ::ffff:10.0.0.1, the form on a socket for both address families, into 10.0.0.1. */
function plain(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  return mapped?.[1] ?? address
}

/**
 * Returns the part of an address that a client cannot change at will: an IPv4 address itself, and the first half of an
 * IPv6 address, because a client has all the addresses of its network.
 */
export function networkOf(address: string): string {
  const simple = plain(address)
  if (isIP(simple) !== 6) return simple
  const [left = '', right] = simple.split('%')[0]!.split('::')
  const before = left.split(':').filter(Boolean)
  const after = right?.split(':').filter(Boolean) ?? []
  const zeros = right === undefined ? 0 : Math.max(0, 8 - before.length - after.length)
  const groups = [...before, ...Array<string>(zeros).fill('0'), ...after]
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}

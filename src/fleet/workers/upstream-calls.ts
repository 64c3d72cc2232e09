/** The calls of a worker to the primary's upstream, and their responses. */
import type { SourceProblems, Upstream } from '../../engine/upstream/upstream.js'
import type { Handlers, Link } from './link.js'
import type { UpstreamMethods } from './messages.js'

/** The primary's side: it answers the calls. */
export function upstreamHandlers(upstream: Upstream): Handlers<UpstreamMethods> {
  return {
    readPage: async (signal, options) => ({ value: await upstream.read({ ...options, signal }) }),
    readStored: async (signal, key, at) => ({ value: await upstream.readKey(key, { ...at, signal }) }),
    storedRevision: async (signal) => ({ value: await upstream.currentRevision(signal) }),
    upstreamStatus: async (signal) => ({ value: await upstream.status(signal) }),
    write: async (_signal, compares, operations) => ({ value: await upstream.write(compares, operations) }),
    grantLease: async (_signal, ttlSeconds) => ({ value: await upstream.grantLease(ttlSeconds) }),
    dropLease: async (_signal, leaseId) => ({ value: await upstream.dropLease(leaseId) }),
  }
}

/**
 * The upstream of a worker, without watches, because only the primary has those.
 * @param request sends a request to the primary.
 * @param problems returns what is wrong with the primary's sources.
 */
export function primaryUpstream(
  request: Link<never, never, UpstreamMethods>['request'],
  problems: () => SourceProblems,
): Upstream {
  const valueOf: Calls = async (...call) => (await request(...call)).value
  return {
    get refusedReads() {
      return problems().refusedReads
    },
    get bypassedRoles() {
      return problems().bypassedRoles
    },
    get outdatedDiscovery() {
      return problems().outdatedDiscovery
    },
    read: ({ signal, ...options }) => valueOf('readPage', [options], signal),
    readKey: (key, { signal, ...at } = {}) => valueOf('readStored', [key, at], signal),
    currentRevision: (signal) => valueOf('storedRevision', [], signal),
    status: (signal) => valueOf('upstreamStatus', [], signal),
    write: (compares, operations) => valueOf('write', [compares, operations]),
    grantLease: (ttlSeconds) => valueOf('grantLease', [ttlSeconds]),
    dropLease: (leaseId) => valueOf('dropLease', [leaseId]),
    watch: () => {
      throw new Error('a worker is fed by its primary: it watches nothing')
    },
    close: async () => {},
  }
}

type Calls = <Name extends keyof UpstreamMethods>(
  method: Name,
  args: Parameters<UpstreamMethods[Name]>,
  signal?: AbortSignal,
) => Promise<ReturnType<UpstreamMethods[Name]>>

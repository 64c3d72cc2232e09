/** Replaces the watches of `upstream`, and nothing else: for tests that corrupt, delay or count them. */
import type { Upstream } from '../../src/engine/upstream/upstream.js'

export function withWatch(upstream: Upstream, watch: Upstream['watch']): Upstream {
  return {
    read: (options) => upstream.read(options),
    readKey: (key, options) => upstream.readKey(key, options),
    currentRevision: (signal) => upstream.currentRevision(signal),
    status: (signal) => upstream.status(signal),
    write: (compares, operations) => upstream.write(compares, operations),
    grantLease: (ttlSeconds) => upstream.grantLease(ttlSeconds),
    dropLease: (leaseId) => upstream.dropLease(leaseId),
    close: () => upstream.close(),
    watch,
  }
}

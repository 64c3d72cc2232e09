/**
 * Tests the leases of objects with a time to live: none remains when its object is deleted, overwritten or rejected.
 */
import t from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { createEmbeddedUpstream } from '../../../support/faulty-store.js'
import { UpstreamError } from '../../../../src/engine/upstream/upstream.js'
import { isOwnLease, newLeaseId } from '../../../../src/engine/upstream/lease-id.js'
import { configMap } from '../client.js'
import { writerOver } from '../writer-over.js'

/** A writer over a store that remembers every lease that it granted. */
function stage() {
  const upstream = createEmbeddedUpstream()
  const granted: string[] = []
  const grantLease = upstream.grantLease.bind(upstream)
  upstream.grantLease = async (ttlSeconds) => {
    const leaseId = await grantLease(ttlSeconds)
    granted.push(leaseId)
    return leaseId
  }
  const probe = keyFromText('/probe')
  /** The leases that still run; a put accepts no other. */
  const running = async (): Promise<string[]> => {
    const found: string[] = []
    for (const leaseId of granted) {
      const value = Buffer.from('x')
      const isThere = await upstream.write([], [{ type: 'put', key: probe, value, leaseId }]).then(
        () => true,
        () => false,
      )
      if (isThere) found.push(leaseId)
      await upstream.write([], [{ type: 'delete', key: probe }])
    }
    return found
  }
  return { upstream, granted, running, ...writerOver(upstream) }
}

void t.test('a lease ends with its object', async (t) => {
  const h = stage()
  const body = configMap('a')
  t.equal((await h.ask({ verb: 'create', query: 'ttl=1h', body })).code, 201)
  t.equal((await h.running()).length, 1)
  for (let i = 0; i < 5; i++) {
    const ask = { verb: 'update', name: 'a', query: `ttl=${i + 1}h`, body: configMap('a', { i: String(i) }) } as const
    t.equal((await h.ask(ask)).code, 200)
  }
  t.equal(h.granted.length, 6)
  t.same(await h.running(), [h.granted.at(-1)], 'one that is written over is ended')
  t.equal((await h.ask({ verb: 'update', name: 'a', query: 'ttl=0', body })).code, 200)
  t.same(await h.running(), [], 'and one that is taken off')
  t.equal((await h.ask({ verb: 'update', name: 'a', query: 'ttl=1h', body })).code, 200)
  t.equal((await h.ask({ verb: 'delete', name: 'a' })).code, 200)
  t.same(await h.running(), [], 'and one whose object is deleted')
})

void t.test('a lease of a write that finally fails is not left behind', async (t) => {
  const h = stage()
  t.equal((await h.ask({ verb: 'create', body: configMap('first') })).code, 201)
  const write = h.upstream.write.bind(h.upstream)
  h.upstream.write = () => Promise.reject(new Error('no'))
  await t.rejects(h.ask({ verb: 'create', query: 'ttl=1h', body: configMap('a') }))
  h.upstream.write = write
  t.equal(h.granted.length, 1)
  t.same(await h.running(), [])
})

void t.test('a write whose object vanishes before its transaction gets a new lease', async (t) => {
  const h = stage()
  const plural = 'endpoints'
  const put = { verb: 'update', plural, name: 'a', query: 'ttl=1h', body: { metadata: { name: 'a' } } } as const
  t.equal((await h.ask(put)).code, 201)
  const write = h.upstream.write.bind(h.upstream)
  h.upstream.write = async (compares, operations) => {
    h.upstream.write = write
    await write([], [{ type: 'delete', key: compares[0]!.key }])
    return await write(compares, operations)
  }
  t.equal((await h.ask(put)).code, 201)
  t.same(await h.running(), [h.granted[0], h.granted.at(-1)], 'its own runs, and that of the object someone deleted')
})

void t.test('a lease that ends before its transaction is replaced', async (t) => {
  const h = stage()
  // Its namespace would be written first.
  t.equal((await h.ask({ verb: 'create', body: configMap('other') })).code, 201)
  const write = h.upstream.write.bind(h.upstream)
  h.upstream.write = async (compares, operations) => {
    h.upstream.write = write
    await h.upstream.dropLease(h.granted[0]!)
    return await write(compares, operations)
  }
  t.equal((await h.ask({ verb: 'create', query: 'ttl=1h', body: configMap('a') })).code, 201)
  t.equal(h.granted.length, 2)
  t.same(await h.running(), [h.granted[1]])
})

void t.test('the lease of a write that may still happen is left alone', async (t) => {
  const h = stage()
  t.equal((await h.ask({ verb: 'create', query: 'ttl=1h', body: configMap('a') })).code, 201)
  const write = h.upstream.write.bind(h.upstream)
  let late = async (): Promise<unknown> => t.fail('nothing is written')
  h.upstream.write = (...given) => {
    late = async () => await write(...given)
    return Promise.reject(new UpstreamError('unavailable', 'etcdserver: request timed out'))
  }
  const body = configMap('a', { is: 'late' })
  t.equal((await h.ask({ verb: 'update', name: 'a', query: 'ttl=1h', body })).code, 504)
  h.upstream.write = write
  t.match(await late(), { kind: 'written' })
  t.match(await h.ask({ verb: 'patch', name: 'a', contentType: 'application/merge-patch+json', body: {} }), {
    code: 200,
    body: { data: { is: 'late' } },
  })
})

void t.test('a lease that belongs to another client is left alone', async (t) => {
  const h = stage()
  const key = keyFromText('/registry/configmaps/default/a')
  const value = Buffer.from(JSON.stringify({ kind: 'ConfigMap', apiVersion: 'v1', ...configMap('a') }))
  const dropped: string[] = []
  h.upstream.dropLease = async (leaseId) => void dropped.push(leaseId)
  const leaseId = await h.upstream.grantLease(60)
  await h.upstream.write([], [{ type: 'put', key, value, leaseId }])
  t.equal((await h.ask({ verb: 'update', name: 'a', query: 'ttl=0', body: configMap('a') })).code, 200)
  t.same(dropped, [leaseId], 'the lease of the object is revoked')
  t.ok(isOwnLease(newLeaseId()))
  t.ok(BigInt(newLeaseId()) < 2n ** 63n)
  for (const foreign of ['0', '1', '7587862094709768000', '9223372036854775807']) t.notOk(isOwnLease(foreign), foreign)
})

void t.test('a lease lasts at most a year', async (t) => {
  const h = stage()
  for (const ttl of ['367d', '31622401', '9000000000']) {
    const answer = await h.ask({ verb: 'create', query: `ttl=${ttl}`, body: configMap('a') })
    t.match(answer.body, { code: 422, message: /one second to 366 days/ }, ttl)
  }
  t.equal((await h.ask({ verb: 'create', query: 'ttl=366d', body: configMap('a') })).code, 201)
})

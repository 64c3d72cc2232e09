/**
 * kine (k3s without etcd) refuses a transaction that compares more than one key, with the error below. Its messages and
 * what it accepts are those of kine 0.17, pkg/server.
 */
import t from 'tap'
import { createEmbeddedUpstream } from '../../../support/faulty-store.js'
import { UpstreamError, type Upstream, type UpstreamWriter } from '../../../../src/engine/upstream/upstream.js'
import { writerOver } from '../writer-over.js'

void t.test('objects are created where a transaction may compare only one key', async (t) => {
  const embedded = createEmbeddedUpstream()
  const compared: number[] = []
  const write: UpstreamWriter['write'] = async (compares, operations) => {
    compared.push(compares.length)
    if (compares.length === 1) return await embedded.write(compares, operations)
    throw new UpstreamError('unsupported', 'etcd http://kine: etcdserver: unsupported operations in txn request')
  }
  const upstream = new Proxy<Upstream>(embedded, {
    get: (target, name) => {
      if (name === 'write') return write
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
  const writer = writerOver(upstream)
  const create = async (name: string, namespace = 'default') =>
    await writer.ask({ verb: 'create', body: { metadata: { name, namespace }, data: { a: 'b' } } })
  t.match(await create('one'), { code: 201 })
  t.match(compared, [1, 2, 1], 'the namespace, a refusal, the object')
  t.match(await create('two'), { code: 201 })
  t.match(compared, [1, 2, 1, 1], 'two keys are not tried again')
  t.match(await create('two'), { code: 409 })
  t.match(await writer.ask({ verb: 'update', name: 'two', body: { metadata: { name: 'two' }, data: {} } }), {
    code: 200,
  })
  t.match(await writer.ask({ verb: 'delete', name: 'two' }), { code: 200 })
  t.match(await create('two'), { code: 201 })
})

void t.test('another refusal of a create stays an error', async (t) => {
  const embedded = createEmbeddedUpstream()
  const write: UpstreamWriter['write'] = () =>
    Promise.reject(new UpstreamError('permission-denied', 'permission denied'))
  const writer = writerOver(Object.assign(embedded, { write }))
  t.ok((await writer.ask({ verb: 'create', body: { metadata: { name: 'a' } } })).code >= 500)
})

/** The index behind the Node mode keeps what is in the cache, and nothing of earlier states. */
import t from 'tap'
import { nodeRelations } from '../../../src/server/served/node-relations.js'
import { ServiceUnavailableError } from '../../../src/kubernetes/model/status.js'
import type { LiveResource } from '../../../src/kubernetes/dialect/served-live-resource.js'
import { createCache } from '../../engine/broadcast/harness.js'
import { batch, del, put, rev } from '../../support/objects.js'

void t.test('after a relist, the index stays empty until a node asks again', async (t) => {
  const { cache } = createCache()
  const load = (revision: number, reason: 'initial' | 'gap'): void => {
    cache.replace(rev(revision), reason).commit()
    cache.synced()
  }
  load(10, 'initial')
  let reads = 0
  const relations = nodeRelations({
    find: (_group, _version, plural) =>
      plural === 'pods' ? ({ cache, served: {} } as unknown as LiveResource) : undefined,
    jsonOf: (_live, { bytes }) => {
      reads++
      return bytes
    },
  })
  const ask = (): Promise<boolean> | boolean => relations.isRelated('n1', 'configmaps', 'a', 'none')
  t.notOk(await ask())
  cache.apply([batch(11, put('x', 'a', 11, { nodeName: 'n1' }))])
  t.equal(reads, 1, 'an index in use follows the cache')
  load(20, 'gap')
  for (let i = 21; i < 41; i += 2) {
    cache.apply([batch(i, put('y', 'a', i, { nodeName: 'n1' }))])
    cache.apply([batch(i + 1, del('y', 'a'))])
  }
  t.equal(reads, 1, 'and one that nobody needs does not')
  cache.apply([batch(50, put('z', 'a', 50, { nodeName: 'n1' }))])
  t.notOk(await ask())
  t.ok(reads > 1, 'what is there is read when a node asks')
})

void t.test('pods that may not be read are unknown, so the authorizer has no opinion', async (t) => {
  const { cache } = createCache()
  cache.refused('the role was removed', true)
  const relations = nodeRelations({
    find: (_group, _version, plural) =>
      plural === 'pods' ? ({ cache, served: {} } as unknown as LiveResource) : undefined,
    jsonOf: (_live, { bytes }) => bytes,
  })
  for (const kind of ['configmaps', 'secrets', 'pods'] as const) {
    await t.rejects(async () => await relations.isRelated('n1', kind, 'a', 'x'), ServiceUnavailableError, kind)
  }
})

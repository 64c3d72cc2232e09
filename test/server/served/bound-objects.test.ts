/** How long a pod in the cache proves that a token is valid, while the source cannot be asked. */
import t from 'tap'
import { WatchCache } from '../../../src/engine/cache/watch-cache.js'
import { CACHE_METRICS } from '../../../src/engine/model/stage-metrics.js'
import { UpstreamError } from '../../../src/engine/upstream/upstream.js'
import type { LiveResource } from '../../../src/kubernetes/dialect/served-live-resource.js'
import type { BoundObject, Standing } from '../../../src/server/auth/authn/service-account.js'
import { followBoundObjects } from '../../../src/server/served/bound-objects.js'
import { silentLogger } from '../../../src/support/log.js'
import { batch, del, ingestPod, PODS, podKeyValue, rev } from '../../support/objects.js'
import { silent } from '../../support/silent-metrics.js'
import { VirtualClock } from '../../support/virtual-clock.js'

/** The pod of a token, in a cache whose source answers nothing. */
function setUp(isSourceJudge: boolean) {
  const clock = new VirtualClock()
  const away = async (): Promise<never> => {
    throw new UpstreamError('unavailable', 'away')
  }
  const cache = new WatchCache({
    name: 'pods',
    prefix: PODS.etcdPrefix,
    ingest: ingestPod,
    freshness: () => ({
      trustsProgress: false,
      currentRevision: away,
      requestProgress: () => {},
      readState: away,
      readKey: away,
    }),
    ring: { maxItems: 100, maxBytes: 1e9, maxAgeMs: 1e9 },
    clock,
    logger: silentLogger,
    metrics: silent(CACHE_METRICS),
  })
  const state = cache.replace(rev(10), 'initial')
  state.add([podKeyValue('default', 'p', 5, { uid: 'uid-of-p' })])
  state.commit()
  cache.synced()
  cache.confirmed(0, 1_800)
  const live = { cache, served: { resource: PODS } } as unknown as LiveResource
  const objects = followBoundObjects({ find: () => live, isSourceJudge, clock })
  const bound: BoundObject = { plural: 'pods', namespace: 'default', name: 'p', uid: 'uid-of-p' }
  const standing = async (other: Partial<BoundObject> = {}): Promise<Standing> =>
    await objects.standing({ ...bound, ...other })
  return { cache, clock, objects, standing }
}

void t.test('while the API server is away, a token counts for five minutes, and no longer', async (t) => {
  const { cache, clock, standing } = setUp(true)
  t.equal(await standing(), 'present')
  cache.disconnected('away')
  clock.advance(300_000)
  t.equal(await standing(), 'present')
  clock.advance(1)
  t.equal(await standing(), 'unknown', 'nobody can judge it any more')
  cache.synced()
  cache.confirmed(0, 1_800)
  t.equal(await standing(), 'present', 'once it is back')
})

void t.test('meanwhile, nothing is known of pods that the cache does not hold', async (t) => {
  const { cache, standing } = setUp(true)
  cache.disconnected('away')
  t.equal(await standing({ name: 'another' }), 'unknown')
  t.equal(await standing({ uid: 'of-an-earlier-pod' }), 'unknown')
})

void t.test('elsewhere, an old cache proves nothing after ten seconds', async (t) => {
  const silentSource = setUp(true)
  silentSource.clock.advance(10_001)
  t.equal(await silentSource.standing(), 'unknown', 'an API server that is connected, but silent')
  const { cache, clock, standing } = setUp(false)
  cache.disconnected('away')
  clock.advance(10_000)
  t.equal(await standing(), 'present')
  clock.advance(1)
  t.equal(await standing(), 'unknown', 'etcd is away, but the API server can judge')
})

void t.test('a pod that is deleted ends what depends on its token', async (t) => {
  const { cache, objects, standing } = setUp(true)
  const gone: (string | null)[] = []
  objects.onGone((uid) => gone.push(uid))
  await standing()
  cache.apply([batch(11, del('default', 'p'))])
  t.same(gone, ['uid-of-p'])
  t.not(await standing(), 'present')
})

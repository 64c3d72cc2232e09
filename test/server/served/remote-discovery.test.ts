/** Tests which version of a kind is the one that is read, when another server does not describe all of them. */
import t from 'tap'
import { RemoteDiscovery } from '../../../src/server/served/remote-discovery.js'
import type { ServedResource } from '../../../src/kubernetes/dialect/resource-registry.js'
import { silentLogger } from '../../../src/support/log.js'
import { systemRandom } from '../../../src/support/random.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const verbs = ['get', 'list', 'watch']
const responseKind = { group: 'x.example.com', kind: 'Thing' }
const things = [{ resource: 'things', singularResource: 'thing', scope: 'Namespaced', verbs, responseKind }]

/** A discovery document in which the stale versions of one group name no resources. */
function documentOf(...stale: readonly string[]): object {
  const versions = ['v2', 'v1'].map((version) =>
    stale.includes(version)
      ? { version, freshness: 'Stale', resources: [] }
      : { version, freshness: 'Current', resources: things },
  )
  return { kind: 'APIGroupDiscoveryList', items: [{ metadata: { name: 'x.example.com' }, versions }] }
}

void t.test(
  'a version that is not described this time stays as it was, and so does what is read for the others',
  async (t) => {
    let document = documentOf()
    const clock = new VirtualClock()
    const server = {
      taggedDocument: ({ path }: { path: string }) =>
        Promise.resolve({
          document: path === '/api' ? { kind: 'APIGroupDiscoveryList', items: [] } : document,
          etag: null,
          strips: '',
        }),
      product: () => Promise.resolve({ isDistributary: false }),
    }
    const sets: (readonly ServedResource[])[] = []
    const discovery = new RemoteDiscovery({
      server: server as never,
      registry: { set: (_: string, served: readonly ServedResource[]) => sets.push(served) } as never,
      etcdPrefix: '/registry',
      named: [],
      clock,
      random: systemRandom,
      logger: silentLogger,
    })
    t.teardown(() => discovery.stop())
    discovery.start()
    for (const stale of [[], ['v2'], [], ['v1'], ['v2', 'v1'], []]) {
      document = documentOf(...stale)
      const before = sets.length
      await until(() => {
        clock.advance(1_000)
        return sets.length === before + 2
      }, 'the document has been read')
      const [stay = [], served = []] = sets.slice(-2)
      const described = Object.fromEntries(
        served.map(({ resource, isUncached = false }) => [resource.version, isUncached ? 'on request' : 'read']),
      )
      t.same(described, { v2: 'read', v1: 'on request' }, `without ${stale.join()}`)
      if (before > 0) t.equal(stay.length, 2, 'no feed ends')
    }
  },
)

void t.test('discovery that fails again and again is reported, until it works', async (t) => {
  let failure: Error | null = null
  const clock = new VirtualClock()
  const server = {
    taggedDocument: ({ path }: { path: string }) =>
      failure === null
        ? Promise.resolve({
            document: path === '/api' ? { kind: 'APIGroupDiscoveryList', items: [] } : documentOf(),
            etag: null,
            strips: '',
          })
        : Promise.reject(failure),
    product: () => Promise.resolve({ isDistributary: false }),
  }
  const discovery = new RemoteDiscovery({
    server: server as never,
    registry: { set: () => {} } as never,
    etcdPrefix: '/registry',
    named: [],
    clock,
    random: systemRandom,
    logger: silentLogger,
  })
  t.teardown(() => discovery.stop())
  discovery.start()
  const polledUntil = (condition: () => boolean, what: string) =>
    until(() => {
      clock.advance(1_000)
      return condition()
    }, what)
  await polledUntil(() => discovery.problem === null, 'the first answer')
  t.equal(discovery.outdatedDiscovery, null)
  failure = new Error('forbidden')
  await polledUntil(() => discovery.outdatedDiscovery !== null, 'the failures are reported')
  t.match(discovery.outdatedDiscovery, /forbidden/)
  t.equal(discovery.problem, null, 'what is known stays served')
  failure = null
  await polledUntil(() => discovery.outdatedDiscovery === null, 'it works again')
})

import t, { type Test } from 'tap'
import { type Batch, type Key, keyFromText } from '../../src/engine/model/event.js'
import { seededRandom } from '../../src/support/random.js'
import { createEmbeddedUpstream } from '../support/faulty-store.js'
import { startSampleCluster } from '../../src/sample/sample-cluster.js'
import { VirtualClock } from '../support/virtual-clock.js'

function setUp(t: Test, options: { seed?: number; writes?: boolean } = {}) {
  const clock = new VirtualClock()
  const upstream = createEmbeddedUpstream({ clock, random: seededRandom(1), historyRevisions: 1_000 })
  const cluster = startSampleCluster(upstream, {
    clock,
    random: seededRandom(options.seed ?? 1),
    writes: options.writes ?? true,
  })
  t.teardown(async () => {
    cluster.stop()
    await upstream.close()
  })
  return { clock, upstream, cluster }
}

type Store = Pick<ReturnType<typeof createEmbeddedUpstream>, 'peek'>

interface Sample {
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly uid: string
    readonly creationTimestamp: string
    readonly deletionTimestamp?: string
    readonly deletionGracePeriodSeconds?: number
    readonly labels?: Readonly<Record<string, string>>
    readonly ownerReferences?: readonly { readonly kind: string; readonly name: string; readonly uid: string }[]
  }
  readonly spec?: { readonly nodeName?: string }
  readonly status?: {
    readonly phase?: string
    readonly podIP?: string
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
    readonly [name: string]: unknown
  }
}

function list(store: Store, path: string): Sample[] {
  return store.peek(keyFromText(`/registry/${path}`)).map(({ value }) => JSON.parse(value.toString()) as Sample)
}

const isLeaving = ({ metadata }: Sample): boolean => metadata.deletionTimestamp !== undefined
const isReady = ({ status }: Sample): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true

/** Returns what is wrong with the stored cluster. It must be empty at every revision. */
function problems(store: Store): string[] {
  const found: string[] = []
  const check = (isTrue: boolean, problem: string): void => {
    if (!isTrue) found.push(problem)
  }
  const all = store.peek(keyFromText('/registry/'))
  const objects = all.map(({ key, value }) => ({ key, object: JSON.parse(value.toString()) as Sample }))
  const byUid = new Map(objects.map(({ object }) => [object.metadata.uid, object]))
  const namespaces = new Set(list(store, 'namespaces/').map(({ metadata }) => metadata.name))
  const nodes = new Set(list(store, 'minions/').map(({ metadata }) => metadata.name))
  const pods = list(store, 'pods/')
  check(byUid.size === objects.length, 'two objects have one uid')
  for (const { key, object } of objects) {
    const { name, namespace, creationTimestamp, ownerReferences = [] } = object.metadata
    check(key.endsWith(`/${namespace === undefined ? '' : `${namespace}/`}${name}`), `${key} holds ${name}`)
    check(namespace === undefined || namespaces.has(namespace), `${key} is in no namespace`)
    check(!Number.isNaN(Date.parse(creationTimestamp)), `${key} has no time`)
    for (const { uid, kind, name: ownerName } of ownerReferences) {
      const owner = byUid.get(uid)
      check(owner?.kind === kind && owner.metadata.name === ownerName, `${key} is owned by nobody`)
    }
  }
  for (const { metadata, spec, status } of pods) {
    const { deletionTimestamp, deletionGracePeriodSeconds } = metadata
    const hasGrace = deletionGracePeriodSeconds !== undefined
    check((deletionTimestamp !== undefined) === hasGrace, `pod ${metadata.name}: time and grace period of its deletion`)
    check(metadata.ownerReferences?.length === 1, `pod ${metadata.name} has no owner`)
    check(nodes.has(spec!.nodeName!), `pod ${metadata.name} is on no node`)
    check((status!.phase === 'Running') === (status!.podIP !== undefined), `pod ${metadata.name}: phase and address`)
  }
  const addresses = pods.flatMap(({ status }) => status!.podIP ?? [])
  check(new Set(addresses).size === addresses.length, 'two pods have one address')
  for (const path of ['deployments/', 'replicasets/', 'statefulsets/', 'daemonsets/']) {
    for (const { metadata, status } of list(store, path)) {
      const mine = pods.filter(
        (pod) =>
          pod.metadata.namespace === metadata.namespace && pod.metadata.labels!['app'] === metadata.labels!['app'],
      )
      const present = mine.filter((pod) => !isLeaving(pod))
      const [all, ready] = [
        status!['replicas'] ?? status!['currentNumberScheduled'],
        status!['readyReplicas'] ?? status!['numberReady'],
      ]
      check(all === present.length, `${path}${metadata.name} counts ${String(all)} pods of ${present.length}`)
      check(ready === present.filter(isReady).length, `${path}${metadata.name} counts ${String(ready)} ready pods`)
    }
  }
  return found
}

void t.test('a first run shows a consistent cluster of a believable size and age', async (t) => {
  const { upstream, clock } = setUp(t, { writes: false })
  t.same(problems(upstream), [])
  const pods = list(upstream, 'pods/')
  t.ok(pods.length >= 40 && pods.length <= 60, `${pods.length} pods`)
  t.ok(pods.every(isReady), 'every pod runs')
  t.same([list(upstream, 'namespaces/').length, list(upstream, 'minions/').length], [6, 5])
  for (const path of ['services/specs/', 'leases/', 'configmaps/', 'secrets/', 'delivery.example.com/canaries/']) {
    t.ok(list(upstream, path).length > 0, path)
  }
  const days = pods.map(({ metadata }) => (clock.now() - Date.parse(metadata.creationTimestamp)) / 86_400_000)
  t.ok(Math.min(...days) > 0 && Math.max(...days) < 60, 'times are relative to the start of the server')
  const flags = upstream.peek(keyFromText('/config/flags/')).map(({ value }) => value)
  t.ok(flags.some((value) => value.toString() === 'on'), 'text') // prettier-ignore
  t.ok(flags.some((value) => value.toString().startsWith('{')), 'JSON') // prettier-ignore
  t.ok(flags.some((value) => !Buffer.from(value.toString()).equals(value)), 'and bytes that are not text') // prettier-ignore
})

void t.test('the same seed makes the same history, another seed makes another', async (t) => {
  const history = (seed: number): string => {
    const { upstream, clock } = setUp(t, { seed })
    clock.advance(20_000)
    return upstream
      .history()
      .map((batch) => JSON.stringify(batch))
      .join('\n')
  }
  const first = history(1)
  t.ok(first === history(1), 'the same seed')
  t.notOk(first === history(2), 'another seed')
})

void t.test('the first write happens within 300 ms, then a few a second until it is stopped', async (t) => {
  const { upstream, clock, cluster } = setUp(t)
  const filled = upstream.revision
  clock.advance(300)
  t.ok(upstream.revision > filled)
  clock.advance(60_000)
  const perSecond = (upstream.revision - filled) / 60
  t.ok(perSecond >= 2 && perSecond <= 6, `${perSecond} revisions a second`)
  cluster.stop()
  const stopped = upstream.revision
  clock.advance(60_000)
  t.equal(upstream.revision, stopped)
})

for (const [seed, steps, checkEvery] of [
  [1, 200, 1],
  [2, 1_500, 20],
] as const) {
  void t.test(`the writer keeps the cluster consistent at every revision, and bounded (seed ${seed})`, async (t) => {
    const { upstream, clock } = setUp(t, { seed })
    const start = upstream.revision
    const written = new Set<string>()
    let seen = start as number
    for (let step = 0; step < steps; step++) {
      clock.advance(200)
      if (upstream.revision === seen) continue
      seen = upstream.revision
      for (const change of changes(upstream.history().at(-1))) written.add(change)
      if (step % checkEvery !== 0) continue
      const wrong = problems(upstream)
      if (wrong.length > 0) return void t.same(wrong, [], `revision ${seen}`)
    }
    for (const change of [
      'pods new',
      'pods changed',
      'pods deleted',
      'deployments changed',
      'events new',
      'leases changed',
    ]) {
      t.ok(written.has(change), change)
    }
    const pods = list(upstream, 'pods/').length
    t.ok(pods >= 50 && pods <= 60, `${pods} pods after ${upstream.revision - start} revisions`)
    t.ok(list(upstream, 'events/').length <= 100, 'events are forgotten')
    t.ok(upstream.peek(keyFromText('/')).length < 400)
  })
}

void t.test('the writer continues beside other writers, and leaves their objects alone', async (t) => {
  const { upstream, clock } = setUp(t)
  const put = (key: string, value: string): void => {
    upstream.commit([{ type: 'put', key: key as Key, value: Buffer.from(value) }])
  }
  put('/registry/pods/default/nonsense', 'not JSON')
  put('/registry/pods/default/number', '5')
  put('/registry/pods/default/odd', '{"kind":"Pod","metadata":{"name":"odd","namespace":"default"}}')
  put('/registry/leases/kube-node-lease/odd', '{"kind":"Lease","metadata":{"name":"odd"}}')
  put('/registry/deployments/shop/odd', '{"kind":"Deployment","metadata":{"name":"odd","namespace":"shop"}}')
  for (const { key } of upstream.peek(keyFromText('/registry/pods/shop/'))) upstream.commit([{ type: 'delete', key }])
  const before = upstream.revision
  clock.advance(120_000)
  t.ok(upstream.revision > before + 100)
  t.equal(upstream.peek(keyFromText('/registry/pods/shop/')).length, 0, 'what is deleted stays deleted')
  for (const name of ['nonsense', 'number', 'odd']) {
    t.equal(upstream.peek(`/registry/pods/default/${name}` as Key)[0]?.version, 1, name)
  }
})

/** Returns `pods new`, `leases changed` and the like for each event of a batch. */
function changes(batch: Batch | undefined): readonly string[] {
  return (batch?.events ?? []).map((event) => {
    const key = event.type === 'put' ? event.keyValue.key : event.key
    const path = key.replace(/^\/registry\//, '').split('/')[0]!
    return `${path} ${event.type !== 'put' ? 'deleted' : event.keyValue.version === 1 ? 'new' : 'changed'}`
  })
}

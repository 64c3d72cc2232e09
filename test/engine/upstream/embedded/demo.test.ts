import t, { type Test } from 'tap'
import { type Batch, type Key, keyFromText } from '../../../../src/engine/model/event.js'
import { seededRandom } from '../../../../src/support/random.js'
import { startDemoCluster } from '../../../../src/engine/upstream/embedded/demo/demo-cluster.js'
import { type KubeObject, kindPrefix } from '../../../../src/engine/upstream/embedded/demo/kube-object.js'
import type { Workload } from '../../../../src/engine/upstream/embedded/demo/workloads.js'
import { isCounted, isReady, type Pod } from '../../../../src/engine/upstream/embedded/demo/pods.js'
import { createEmbeddedUpstream } from '../../../../src/engine/upstream/embedded/embedded-upstream.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

function setUp(t: Test, options: { seed?: number; writes?: boolean } = {}) {
  const clock = new VirtualClock()
  const upstream = createEmbeddedUpstream({ clock, random: seededRandom(1), historyRevisions: 1_000 })
  const cluster = startDemoCluster(upstream, {
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

function list<T extends KubeObject>(store: Store, kind: string): T[] {
  return store.peek(kindPrefix(kind)).map(({ value }) => JSON.parse(value.toString()) as T)
}

/**
 * Returns what is wrong with the cluster as it is stored now. There must be nothing at every revision, not only at
 * rest.
 */
function problems(store: Store): string[] {
  const found: string[] = []
  const check = (isTrue: boolean, problem: string): void => {
    if (!isTrue) found.push(problem)
  }
  const all = store.peek(keyFromText('/registry/'))
  const objects = all.map(({ key, value }) => ({ key, object: JSON.parse(value.toString()) as KubeObject }))
  const byUid = new Map(objects.map(({ object }) => [object.metadata.uid, object]))
  const namespaces = new Set(list(store, 'Namespace').map(({ metadata }) => metadata.name))
  const nodes = new Map(list(store, 'Node').map((node) => [node.metadata.name, node]))
  const pods = list<Pod>(store, 'Pod')
  check(byUid.size === objects.length, 'two objects have one uid')

  for (const { key, object } of objects) {
    const { kind, metadata } = object
    const { namespace } = metadata
    check(key === kindPrefix(kind, namespace) + metadata.name, `${key} holds ${kind} ${namespace}/${metadata.name}`)
    check(metadata['resourceVersion'] === undefined, `${key} has a resourceVersion of its own`)
    check(namespace === undefined || namespaces.has(namespace), `${key} is in no namespace`)
    check(!Number.isNaN(Date.parse(metadata.creationTimestamp)), `${key} has no time`)
    for (const { uid, kind, name } of metadata.ownerReferences ?? []) {
      const owner = byUid.get(uid)
      check(
        owner?.kind === kind && owner.metadata.name === name,
        `${key} is owned by ${kind} ${name}, who is not there`,
      )
    }
  }
  for (const { metadata, spec, status } of pods) {
    check(metadata.ownerReferences?.length === 1, `pod ${metadata.name} has no owner`)
    check(spec.nodeName === undefined || nodes.has(spec.nodeName), `pod ${metadata.name} is on no node`)
    check((status.phase === 'Running') === (status.podIP !== undefined), `pod ${metadata.name}: phase and address`)
  }
  const addresses = pods.flatMap(({ status }) => status.podIP ?? [])
  check(new Set(addresses).size === addresses.length, 'two pods have one address')

  const owned = (owner: KubeObject): Pod[] =>
    pods.filter((pod) => isCounted(pod) && pod.metadata.ownerReferences?.[0]?.uid === owner.metadata.uid)
  const sets = list<Workload>(store, 'ReplicaSet')
  for (const { status, ...set } of [...sets, ...list<Workload>(store, 'StatefulSet')]) {
    const mine = owned(set)
    check(status['replicas'] === mine.length, `${set.metadata.name} counts ${String(status['replicas'])} pods`)
    check(status['readyReplicas'] === mine.filter(isReady).length, `${set.metadata.name} counts the ready wrongly`)
  }
  for (const set of sets) {
    check(set.spec.replicas === owned(set).length || set.status['replicas'] !== 0, `${set.metadata.name} is left alone`)
  }
  for (const deployment of list<Workload>(store, 'Deployment')) {
    const mine = sets.filter((set) => set.metadata.ownerReferences?.[0]?.uid === deployment.metadata.uid)
    const counted = mine.flatMap(owned)
    const { replicas, readyReplicas } = deployment.status
    check(replicas === counted.length, `deployment ${deployment.metadata.name} counts ${String(replicas)} pods`)
    check(readyReplicas === counted.filter(isReady).length, `${deployment.metadata.name} counts the ready wrongly`)
    check(mine.length >= 1 && mine.length <= 4, `${deployment.metadata.name} has ${mine.length} replica sets`)
  }
  for (const endpoints of list<KubeObject & { subsets: { addresses?: { ip: string }[] }[] }>(store, 'Endpoints')) {
    const { name, namespace } = endpoints.metadata
    const backing = pods
      .filter((pod) => pod.metadata.namespace === namespace && pod.metadata.labels?.['app'] === name)
      .filter((pod) => isCounted(pod) && isReady(pod))
      .map(({ status }) => status.podIP)
    const ready = endpoints.subsets.flatMap(({ addresses = [] }) => addresses.map(({ ip }) => ip))
    check(ready.join() === backing.join(), `endpoints ${namespace}/${name}: ${ready.join()} for ${backing.join()}`)
  }
  return found
}

function sizes(store: Store): Record<string, number> {
  const kinds = ['Namespace', 'Node', 'Pod', 'Service', 'Lease', 'ConfigMap', 'Canary', 'CustomResourceDefinition']
  return Object.fromEntries(kinds.map((kind) => [kind, store.peek(kindPrefix(kind)).length]))
}

void t.test('a first run shows a consistent cluster of a believable size', async (t) => {
  const { upstream } = setUp(t, { writes: false })
  t.same(problems(upstream), [])
  const { Pod: pods, Namespace: namespaces, Node: nodes, ...others } = sizes(upstream)
  t.ok(pods !== undefined && pods >= 40 && pods <= 60, `${pods} pods`)
  t.same({ namespaces, nodes }, { namespaces: 6, nodes: 5 })
  for (const [kind, count] of Object.entries(others)) t.ok(count > 0, `${count} of ${kind}`)
  const isAtRest = list<Pod>(upstream, 'Pod').every(({ status }) => status.phase === 'Running')
  t.ok(isAtRest, 'every pod runs')
  const flags = upstream.peek(keyFromText('/config/flags/')).map(({ value }) => value)
  t.ok(
    flags.some((value) => value.toString() === 'on'),
    'text',
  )
  t.ok(
    flags.some((value) => value.toString().startsWith('{')),
    'JSON',
  )
  t.ok(
    flags.some((value) => !Buffer.from(value.toString()).equals(value)),
    'and bytes that are not text',
  )
})

void t.test('the same seed makes the same cluster and history, another seed makes others', async (t) => {
  const history = (seed: number): string[] => {
    const { upstream, clock } = setUp(t, { seed })
    clock.advance(20_000)
    return upstream.history().map((batch) => JSON.stringify(batch))
  }
  const [first, again, other] = [history(1), history(1), history(2)]
  t.ok(first.length > 200)
  t.ok(first.join('\n') === again.join('\n'), 'the same seed')
  t.notOk(first.join('\n') === other.join('\n'), 'another seed')
})

void t.test('the first write comes within 300 ms, then a few a second until it is stopped', async (t) => {
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
  [2, 1_000, 20],
] as const) {
  void t.test(`the writer keeps the cluster consistent at every revision, and bounded (seed ${seed})`, async (t) => {
    const { upstream, clock } = setUp(t, { seed })
    const start = upstream.revision
    const kinds = new Set<string>()
    let created = 0
    let deleted = 0
    let told = 0
    let seen = start as number
    for (let step = 0; step < steps; step++) {
      clock.advance(200)
      if (upstream.revision === seen) continue
      seen = upstream.revision
      for (const { type, path, version } of changes(upstream.history().at(-1))) {
        kinds.add(path)
        if (path === 'pods' && type === 'put' && version === 1) created++
        if (path === 'pods' && type === 'delete') deleted++
        if (path === 'events' && type === 'put') told++
      }
      if (step % checkEvery !== 0) continue
      const wrong = problems(upstream)
      if (wrong.length > 0) {
        t.same(wrong, [], `revision ${seen}`)
        return
      }
    }
    t.ok(created > 5 && deleted > 5, `rollouts made ${created} pods and deleted ${deleted}`)
    for (const path of ['pods', 'deployments', 'replicasets', 'services/endpoints', 'events', 'leases']) {
      t.ok(kinds.has(path), `${path} were written`)
    }
    const { Pod: pods = 0 } = sizes(upstream)
    t.ok(pods >= 35 && pods <= 70, `${pods} pods after ${upstream.revision - start} revisions`)
    const events = upstream.peek(kindPrefix('Event')).length
    t.ok(events <= 120 && (told > events || steps < 1_000), `${events} events are kept of ${told}`)
    t.ok(upstream.peek(keyFromText('/')).length < 400)
  })
}

void t.test('the demo reacts like a cluster to objects that are deleted, created or broken', async (t) => {
  const { upstream, clock } = setUp(t)
  const [pod] = list<Pod>(upstream, 'Pod').filter(({ metadata }) => metadata.namespace === 'shop')
  const [grafana] = list<Workload>(upstream, 'Deployment').filter(({ metadata }) => metadata.name === 'grafana')
  if (pod === undefined || grafana === undefined) throw new Error('not in the catalogue')
  const { status: _, ...bare } = grafana
  const copy = { ...bare, metadata: { name: 'mine', namespace: 'default', uid: 'u-1', creationTimestamp: '' } }
  const put = (key: string, value: string): void => {
    upstream.commit([{ type: 'put', key: key as Key, value: Buffer.from(value) }])
  }
  upstream.commit([{ type: 'delete', key: `/registry/pods/shop/${pod.metadata.name}` as Key }])
  put('/registry/deployments/default/mine', JSON.stringify({ ...copy, spec: { ...copy.spec, replicas: 3 } }))
  put('/registry/pods/default/nonsense', 'not JSON')
  put('/registry/pods/default/odd', '{"kind":"Pod","metadata":{"name":"odd","namespace":"default"}}')
  put('/registry/leases/kube-node-lease/odd', '{"kind":"Lease","metadata":{"name":"odd"}}')
  clock.advance(120_000)
  const shop = list<Workload>(upstream, 'ReplicaSet').filter(({ metadata }) => metadata.namespace === 'shop')
  t.ok(
    shop.every(({ spec, status }) => Math.abs((spec.replicas ?? 0) - Number(status['replicas'])) <= 1),
    'a deleted pod is made again',
  )
  const [mine] = list<Workload>(upstream, 'Deployment').filter(({ metadata }) => metadata.name === 'mine')
  t.ok(Number(mine?.status['readyReplicas']) >= 2, 'a new deployment gets its pods')
  t.equal(upstream.peek('/registry/pods/default/nonsense' as Key)[0]?.version, 1, 'and nonsense is left alone')
})

function changes(batch: Batch | undefined): { type: string; path: string; version: number }[] {
  return (batch?.events ?? []).map((event) => {
    const key = event.type === 'put' ? event.keyValue.key : event.key
    const path = key.replace(/^\/registry\//, '').match(/^(services\/)?[^/]+/)?.[0] ?? key
    return { type: event.type, path, version: event.type === 'put' ? event.keyValue.version : 0 }
  })
}

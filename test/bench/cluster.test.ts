/** The simulated cluster: its delivery counts must follow from its events and watches, or a row is wrong. */
import t from 'tap'
import { decodeObject } from '../../src/kubernetes/codec/protobuf/decode.js'
import { isProtobuf } from '../../src/kubernetes/codec/protobuf/envelope.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'
import { clusterOf, type ClusterPart } from '../../bench/support/cluster.js'
import { MAGIC } from '../../bench/support/objects.js'

const NODES = 60

for (const part of ['everything', 'custom resources'] satisfies ClusterPart[]) {
  void t.test(`${part}: the deliveries of a round are those of its events to the watches`, (t) => {
    const cluster = clusterOf(NODES, part)
    const rounds = cluster.changes.length / cluster.eventsOfRound
    t.ok(Number.isInteger(rounds), 'whole rounds')
    const watchersOf = new Map<number, number>()
    for (const { owed } of cluster.paths(1)) {
      if (owed === undefined) continue
      for (let node = 0; node < NODES; node++) {
        const name = owed.isEach ? owed.class + node : owed.class
        watchersOf.set(name, (watchersOf.get(name) ?? 0) + 1)
      }
    }
    const deliveries = cluster.classes.map((name) => (name === null ? 0 : watchersOf.get(name)!))
    const expected = rounds * (cluster.ownDeliveries + cluster.sharedDeliveries)
    t.equal(
      deliveries.reduce((sum, each) => sum + each, 0),
      expected,
    )
    const deleted = cluster.changes.filter(({ value }) => value === null).length
    t.equal(deleted * 3, rounds * cluster.deletions, 'each deletion is for the three watchers of its pod')
    t.end()
  })
}

void t.test('objects that a round deletes were changed earlier in that round', (t) => {
  const { changes, classes, eventsOfRound } = clusterOf(NODES, 'everything')
  for (const [at, { key, value }] of changes.entries()) {
    if (value !== null) continue
    const round = Math.floor(at / eventsOfRound) * eventsOfRound
    const before = changes.slice(round, at).findLastIndex((change) => change.key === key)
    t.ok(before >= 0 && classes[round + before] !== null, key)
  }
  t.end()
})

void t.test('Kubernetes objects are readable protobuf, and each has its mark', (t) => {
  const schema = kubernetesSchema()
  const { written, changes } = clusterOf(NODES, 'everything')
  const kinds = new Set<string>()
  for (const { key, value, mark } of [...written, ...changes]) {
    if (value === null) continue
    t.equal(value.toString('latin1', mark, mark + MAGIC.length), MAGIC, key)
    const json = isProtobuf(value) ? decodeObject(value, schema).bytes : value
    const object = JSON.parse(json.toString()) as { kind: string; metadata: { name: string } }
    t.ok(key.endsWith(`/${object.metadata.name}`), key)
    t.equal(isProtobuf(value), !key.includes('bench.distributary.io'), `${key} is stored as an API server stores it`)
    kinds.add(object.kind)
  }
  const all = ['ConfigMap', 'EndpointSlice', 'Node', 'Nodesetting', 'Pod', 'Policy', 'Secret', 'Service']
  t.same([...kinds].toSorted(), all)
  t.end()
})

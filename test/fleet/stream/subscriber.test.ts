/**
 * Tests damage to the data stored in NATS: each kind leads to another snapshot or to a wait, and never to a gap. The
 * sinks throw when revisions do not ascend, and their final contents are compared with etcd.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { encodeMessage } from '../../../src/fleet/stream/message.js'
import { namesOf } from '../../../src/fleet/stream/names.js'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import type { Replacement, ReplaceReason } from '../../../src/engine/model/feed-sink.js'
import { type Revision, toRevision } from '../../../src/engine/model/revision.js'
import { systemClock } from '../../../src/support/clock.js'
import { silentLogger } from '../../../src/support/log.js'
import { PartsInTurns } from '../../support/parts-in-turns.js'
import { until } from '../../support/until.js'
import { RecordingSink } from '../../engine/feed/recording-sink.js'
import { startFaultProxy } from '../../support/fault-proxy.js'
import { type NatsAdmin, natsAdmin } from '../../support/nats-admin.js'
import { type NatsProcess, startNats, startNatsCluster } from '../../support/nats-process.js'
import { CountedUpstream, type Replica, startReplica, stateOf, stateOfUpstream, things } from '../nats-harness.js'

const names = namesOf('test', things)

async function caughtUp(etcd: CountedUpstream, replicas: readonly Replica[]): Promise<void> {
  const last = etcd.embedded.revision
  const states = (): string => replicas.map(({ sink }) => `${sink.revision} ${sink.calls.slice(-4).join()}`).join('; ')
  const areThere = (): boolean => replicas.every(({ sink }) => sink.isSynced && sink.revision >= last)
  await until(areThere, `all at ${last}`, 30_000).catch((error: unknown) => {
    throw new Error(`${String(error)}: ${states()}`)
  })
}

interface Case {
  readonly name: string
  readonly harm: (admin: NatsAdmin, nats: NatsProcess, etcd: CountedUpstream) => unknown
  /** Whether a replica that re-reads the stream has met the damage. */
  readonly isMet?: (replica: Replica) => boolean
}

/**
 * A message that no publisher has written: well-formed, of an epoch that never existed, about an event that never
 * happened.
 */
function foreign(epoch: number, at: number): Uint8Array {
  const revision = toRevision(at)
  return encodeMessage(
    {
      kind: 'batches',
      batches: [{ revision, events: [{ type: 'delete', key: `${things.etcdPrefix}k1` as never }] }],
      epoch,
      previous: toRevision(at - 1),
      revision,
      settled: revision,
      sentAt: 0,
      isSynced: true,
      trustsProgress: true,
      clusterId: '1',
    },
    1_000_000,
  )[0]!
}

const cases: readonly Case[] = [
  {
    name: 'a byte of every snapshot is flipped',
    harm: (admin) => admin.flipBytes(names.bucket),
    isMet: ({ metrics }) => metrics.unusable > 0,
  },
  {
    name: 'the chunks of every snapshot are missing',
    harm: (admin) => admin.dropChunks(names.bucket),
    isMet: ({ metrics }) => metrics.unusable > 0,
  },
  { name: 'the object store is deleted', harm: (admin) => admin.remove(`OBJ_${names.bucket}`) },
  { name: 'the stream is purged', harm: (admin) => admin.purge(names.stream) },
  { name: 'the stream is deleted', harm: (admin) => admin.remove(names.stream) },
  { name: 'leases and the index of snapshots are deleted', harm: (admin) => admin.remove(`KV_${names.bucket}`) },
  {
    name: 'the index of snapshots cannot be read',
    harm: (admin) => admin.write(`$KV.${names.bucket}.${names.indexKey}`, Buffer.from('[{"name":')),
  },
  {
    name: 'everything is deleted',
    harm: async (admin) => {
      for (const stream of await admin.streams()) await admin.remove(stream)
    },
  },
  { name: 'the consumers are deleted', harm: (admin) => admin.removeConsumers(names.stream) },
  { name: 'NATS crashes, and is started again', harm: (_admin, nats) => process.kill(nats.pid, 'SIGKILL') },
  { name: 'NATS comes back with nothing of what it held', harm: (_admin, nats) => nats.restartEmpty() },
  {
    name: 'a message in another format',
    harm: (admin) => admin.write(names.log, Buffer.from('hello')),
    isMet: ({ metrics }) => metrics.broke > 0,
  },
  {
    name: 'a message of an epoch that never was',
    harm: (admin, _nats, etcd) => admin.write(names.log, foreign(99, etcd.embedded.revision + 1)),
  },
  {
    name: 'a message of an epoch that is over',
    harm: (admin, _nats, etcd) => admin.write(names.log, foreign(0, etcd.embedded.revision + 1)),
  },
]

void t.test('no replica has a hole, whatever is wrong with the data in NATS', { jobs: 4 }, async (t) => {
  for (const { name, harm, isMet } of cases) {
    void t.test(name, async (t) => {
      const nats = await startNats(t, { isSupervised: true })
      const etcd = new CountedUpstream()
      for (let i = 0; i < 5; i++) etcd.put(`k${i}`)
      const options = { servers: [nats.url], upstream: etcd.upstream, leaseMs: 500 }
      const first = startReplica(t, options)
      await until(() => first.isPublishing && first.sink.isSynced, 'it publishes')
      const second = startReplica(t, options)
      const edge = startReplica(t, { ...options, role: 'edge' })
      for (let i = 0; i < 40; i++) etcd.put(`k${i % 10}`)
      await caughtUp(etcd, [first, second, edge])
      const admin = await natsAdmin(t, nats)
      await harm(admin, nats, etcd)
      for (let i = 0; i < 40; i++) etcd.put(`k${i % 12}`)
      etcd.commit({ k3: null, k4: 'both at once' })
      const late = startReplica(t, { ...options, role: 'edge' })
      const replicas = [first, second, edge, late]
      await caughtUp(etcd, replicas)
      await until(() => etcd.watches === 1, 'one watch')
      etcd.put('after')
      await caughtUp(etcd, replicas)
      const expected = await stateOfUpstream(etcd.upstream)
      for (const { sink } of replicas) t.same(stateOf(sink), expected)
      if (isMet !== undefined) t.ok(replicas.some(isMet), 'it was met')
    })
  }
  void t.test('a consumer that is alive but delivers no messages is replaced', async (t) => {
    const nats = await startNats(t)
    const etcd = new CountedUpstream()
    etcd.put('a')
    const options = { servers: [nats.url], upstream: etcd.upstream }
    const publisher = startReplica(t, options)
    const edge = startReplica(t, { ...options, role: 'edge' })
    await caughtUp(etcd, [publisher, edge])
    await publisher.stop()
    // The status of a publisher that has written more than ever arrives.
    const admin = await natsAdmin(t, nats)
    const sequence = (await admin.lastSequence(names.stream)) + 3
    const status = (): Buffer =>
      Buffer.from(JSON.stringify({ epoch: 9, session: 1, sequence, at: performance.now(), ageMs: null, trouble: null }))
    const isGivenUp = (): boolean => edge.sink.calls.some((call) => call.includes(`message ${sequence} was written`))
    while (!isGivenUp()) {
      admin.connection.publish(names.status, status())
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    t.equal(edge.sink.of('replace').length, 1, 'and nothing is lost by it')
  })
  await Promise.resolve()
})

void t.test(
  'an edge that was away for longer than the stream reaches loads a snapshot, as a gap or coalesced',
  async (t) => {
    const nats = await startNats(t)
    const proxy = await startFaultProxy({ targetPort: nats.port })
    t.teardown(() => proxy.close())
    const etcd = new CountedUpstream()
    etcd.put('a')
    const limits = { replicas: 1, maxBytes: 200_000, maxAgeMs: 3_600_000 }
    const options = { servers: [nats.url], upstream: etcd.upstream, limits, snapshotBytes: 50_000 }
    const publisher = startReplica(t, options)
    const away = { ...options, servers: [`nats://127.0.0.1:${proxy.port}`], role: 'edge' } as const
    const edges = [startReplica(t, away), startReplica(t, { ...away, onGap: () => 'coalesce' as const })]
    await caughtUp(etcd, [publisher, ...edges])
    const admin = await natsAdmin(t, nats)
    proxy.stall()
    for (let i = 0; i < 500; i++) {
      etcd.put(`k${i % 20}`, Buffer.alloc(1_000, 'x'))
      if (i % 20 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    await caughtUp(etcd, [publisher])
    t.ok((await admin.firstSequence(names.stream)) > 5, 'the oldest messages were discarded')
    proxy.cut()
    proxy.release()
    await caughtUp(etcd, edges)
    const expected = await stateOfUpstream(etcd.upstream)
    for (const { sink } of edges) t.same(stateOf(sink), expected)
    t.same(
      edges.map(({ sink }) => sink.of('replace').at(-1)?.split(' ')[1]),
      ['gap', 'coalesce'],
    )
  },
)

void t.test(
  'an edge keeps its history when NATS loses the end of the stream and another publisher overwrites it',
  async (t) => {
    const nats = await startNats(t)
    const proxy = await startFaultProxy({ targetPort: nats.port })
    t.teardown(() => proxy.close())
    const directory = await mkdtemp(join(tmpdir(), 'distributary-nats-copy-'))
    t.teardown(() => rm(directory, { recursive: true, force: true }))
    const lines: string[] = []
    const logger = { ...silentLogger, info: (_fields: object, line: string) => void lines.push(line) }
    const etcd = new CountedUpstream()
    etcd.put('a')
    const options = { servers: [nats.url], upstream: etcd.upstream }
    const first = startReplica(t, options)
    const edge = startReplica(t, { ...options, servers: [`nats://127.0.0.1:${proxy.port}`], role: 'edge', logger })
    await caughtUp(etcd, [first, edge])
    await nats.saveData(join(directory, 'copy'))
    for (let i = 0; i < 20; i++) {
      etcd.put(`lost-${i}`)
      await caughtUp(etcd, [first, edge])
    }
    const held = await (await natsAdmin(t, nats)).lastSequence(names.stream)
    await proxy.refuse()
    proxy.cut()
    await first.stop()

    await nats.restoreData(join(directory, 'copy'))
    // Two publishers continue after the current last message, so that the epoch at the edge's position is another.
    const second = startReplica(t, options)
    await until(() => second.isPublishing && second.sink.isSynced, 'another publishes')
    await caughtUp(etcd, [second])
    await second.stop()
    const third = startReplica(t, options)
    await until(() => third.isPublishing && third.sink.isSynced, 'a third one publishes')
    const admin = await natsAdmin(t, nats)
    while ((await admin.lastSequence(names.stream)) <= held) {
      etcd.put('b')
      await caughtUp(etcd, [third])
    }
    await proxy.accept()
    etcd.put('after')
    await caughtUp(etcd, [third, edge])
    t.same(stateOf(edge.sink), await stateOfUpstream(etcd.upstream))
    t.equal(edge.sink.of('replace').length, 1, 'nobody has to list again')
    t.ok(lines.includes('rereading the stream'), 'what is in the stream now did not follow what was read')
    t.equal(edge.metrics.broke, 0)
  },
)

void t.test(
  'batches, snapshots and answers are sent in parts through a server with a small message size',
  async (t) => {
    const nats = await startNats(t, { maxPayloadBytes: 16_384 })
    const etcd = new CountedUpstream()
    for (let i = 0; i < 100; i++) etcd.put(`k${i}`, Buffer.alloc(1_000, String(i)))
    const options = { servers: [nats.url], upstream: etcd.upstream }
    const publisher = startReplica(t, options)
    const edge = startReplica(t, { ...options, role: 'edge', upstream: new CountedUpstream().upstream })
    await caughtUp(etcd, [publisher, edge])
    const large = Buffer.alloc(300_000, 'x')
    etcd.commit({ a: large, b: large, k1: null })
    etcd.put('after')
    await caughtUp(etcd, [publisher, edge])
    t.same(edge.sink.batches.map(({ events }) => events.length).slice(-2), [3, 1])
    t.same(stateOf(edge.sink), await stateOfUpstream(etcd.upstream))
    const { keyValues } = await edge.freshness.readState(etcd.embedded.revision)
    t.equal(keyValues.length, 102, 'a read by way of the publisher')
  },
)

/** Counts the parts in which it receives states. */
class CountingSink extends RecordingSink {
  readonly parts = new PartsInTurns()

  override replace(revision: Revision, reason: ReplaceReason): Replacement {
    const replacement = super.replace(revision, reason)
    return {
      ...replacement,
      add: (part) => {
        replacement.add(part)
        this.parts.part()
      },
    }
  }
}

void t.test('a large snapshot is loaded in parts, and others get turns in between', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  for (let i = 0; i < 200; i++) etcd.put(`k${i}`, Buffer.alloc(20_000, String(i)))
  const options = { servers: [nats.url], upstream: etcd.upstream }
  const publisher = startReplica(t, options)
  await caughtUp(etcd, [publisher])
  const sink = new CountingSink()
  const edge = startReplica(t, { ...options, role: 'edge', upstream: new CountedUpstream().upstream, sink })
  await caughtUp(etcd, [edge])
  sink.parts.done()
  t.ok(sink.parts.all > 10, `${sink.parts.all} parts`)
  t.equal(sink.parts.mostInTurn, 1)
  t.same(stateOf(edge.sink), await stateOfUpstream(etcd.upstream))
})

for (const replicas of [1, 3]) {
  void t.test(
    `all writes started by a deposed publisher are rejected, and harm no replica (${replicas})`,
    async (t) => {
      const servers = replicas === 1 ? [await startNats(t)] : await startNatsCluster(t)
      const connect = async (name: string): Promise<NatsClient> => {
        const client = await NatsClient.connect({ servers: servers.map(({ url }) => url), name }, systemClock)
        t.teardown(() => client.close())
        return client
      }
      const [one, other] = [await connect('one'), await connect('other')]
      await one.ensureStream('S', 'subject', { replicas, maxBytes: 1e6, maxAgeMs: 60_000 })
      const text = (value: string): Buffer => Buffer.from(value)
      const deposed = one.openWriter('subject')
      t.equal(await deposed.write(text('one'), 0), 1)
      const elected = other.openWriter('subject')
      t.equal(await elected.write(text('claim'), 1), 2)
      // These writes are made before the claim is known: the second expects exactly the sequence of the claim.
      const late = await Promise.allSettled([1, 2, 3].map((expected) => deposed.write(text('late'), expected)))
      t.same(
        late.map((outcome) => outcome.status === 'rejected' && (outcome.reason as { code?: string }).code),
        ['conflict', 'conflict', 'conflict'],
      )
      await t.rejects(
        deposed.write(text('later'), 2),
        { code: 'conflict' },
        'a writer that was refused once writes no more',
      )
      for (let i = 2; i < 12; i++) t.equal(await elected.write(text('goes on'), i), i + 1)
      if (replicas === 1) return
      // Make each replica lead in turn.
      for (const server of servers) {
        await server.kill()
        const message = async (): Promise<boolean> => (await other.message('S', 12).catch(() => null)) !== null
        await until(message, 'the stream has a leader', 30_000)
        await server.restart()
        await until(
          async () => (await Promise.all(servers.map((each) => each.isCurrent()))).every(Boolean),
          'all are current',
          30_000,
        )
      }
    },
  )
}

/**
 * A fleet whose replicas sign their messages, over a real nats-server, with an attacker who has full access to NATS but
 * no key.
 */
import { jetstreamManager } from '@nats-io/jetstream'
import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { Envelope, type Sealed, type SigningKeys } from '../../../../src/fleet/stream/signed-envelope.js'
import { encodeMessage, type Message } from '../../../../src/fleet/stream/message.js'
import { namesOf } from '../../../../src/fleet/stream/names.js'
import { SnapshotStore, SnapshotWriter } from '../../../../src/fleet/stream/snapshot-store.js'
import type { Bucket } from '../../../../src/fleet/broker.js'
import { NatsClient } from '../../../../src/fleet/nats/nats-client.js'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { type Revision, toRevision } from '../../../../src/engine/model/revision.js'
import { systemClock } from '../../../../src/support/clock.js'
import { silentLogger } from '../../../../src/support/log.js'
import { natsAdmin } from '../../../support/nats-admin.js'
import { type NatsProcess, startNats } from '../../../support/nats-process.js'
import { until } from '../../../support/until.js'
import { CountedUpstream, type Replica, startReplica, stateOf, stateOfUpstream, things } from '../../nats-harness.js'

/** Keys that a test can change during use, like a file that is reloaded. */
class Keys implements SigningKeys {
  value: readonly Buffer[]
  readonly #listeners = new Set<() => void>()

  constructor(...keys: readonly Buffer[]) {
    this.value = keys
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  use(...keys: readonly Buffer[]): void {
    this.value = keys
    for (const listener of this.#listeners) listener()
  }
}

const names = namesOf('test', things)
const FORGED = Buffer.from('forged')
const forgedKeyValue = (revision: Revision) => ({
  key: keyFromText('/registry/things/forged'),
  value: FORGED,
  createRevision: revision,
  modRevision: revision,
  version: 1,
  leaseId: '0',
})

async function caughtUp(etcd: CountedUpstream, replicas: readonly Replica[]): Promise<void> {
  const last = etcd.embedded.revision
  await until(() => replicas.every(({ sink }) => sink.isSynced && sink.revision >= last), `all at ${last}`)
}

async function startFleet(t: Test, nats: NatsProcess, keys = new Keys(randomBytes(32))) {
  const etcd = new CountedUpstream()
  for (let i = 0; i < 20; i++) etcd.put(`old-${i}`)
  const options = { servers: [nats.url], upstream: etcd.upstream, signingKeys: keys }
  const candidate = startReplica(t, options)
  await until(() => candidate.isPublishing && candidate.sink.isSynced, 'it publishes')
  const edge = startReplica(t, { ...options, role: 'edge' })
  await caughtUp(etcd, [candidate, edge])
  return { etcd, options, candidate, edge, replicas: [candidate, edge] }
}

/** Asserts that no replica ever received anything forged, and that each has etcd's state. */
async function judge(t: Test, etcd: CountedUpstream, replicas: readonly Replica[]): Promise<void> {
  await caughtUp(etcd, replicas)
  const expected = await stateOfUpstream(etcd.upstream)
  for (const { sink } of replicas) {
    t.same(stateOf(sink), expected)
    const told = sink.batches.flatMap(({ events }) => events)
    t.notOk(
      told.some((event) => event.type === 'put' && event.keyValue.value.equals(FORGED)),
      'nothing forged',
    )
  }
}

/** An envelope with an invented key. */
function envelopeWith(...keys: readonly Buffer[]): Envelope {
  return new Envelope({
    keys: { value: keys, onChange: () => () => {} },
    subject: names.log,
    clock: systemClock,
    logger: silentLogger,
    onRefused: () => {},
  })
}

const stranger = envelopeWith(randomBytes(32))

async function connectBucket(t: Test, nats: NatsProcess): Promise<Bucket> {
  const client = await NatsClient.connect({ servers: [nats.url], name: 'reader' }, systemClock)
  t.teardown(() => client.close())
  return client.bucket(names.bucket, { replicas: 1, blobAgeMs: 3_600_000 })
}

const disguises: Readonly<Record<string, (kind: Sealed, place: string | number, data: Buffer) => Buffer>> = {
  'without a signature': (_kind, _place, data) => data,
  'with a signature by another key': (kind, place, data) => stranger.seal(kind, place, data),
}
for (const [disguise, disguised] of Object.entries(disguises)) {
  void t.test(`a message ${disguise} that fits the chain is skipped without a relist`, async (t) => {
    const nats = await startNats(t)
    const { etcd, edge, replicas } = await startFleet(t, nats)
    const admin = await natsAdmin(t, nats)
    for (let round = 0; round < 5; round++) {
      const previous = edge.sink.revision
      const revision = toRevision(previous + 1)
      const events = [{ type: 'put', keyValue: forgedKeyValue(revision) }] as const
      const { epoch } = { epoch: 1 + round }
      const header = { epoch, previous, revision, settled: revision, sentAt: Date.now(), isSynced: true }
      const body = { kind: 'batches', batches: [{ revision, events }], clusterId: '1', trustsProgress: true } as const
      const [part] = encodeMessage({ ...header, ...body } satisfies Message, 1e6)
      const sequence = (await admin.lastSequence(names.stream)) + 1
      await admin.write(names.log, disguised('message', sequence, part!))
      await until(() => edge.metrics.refusals > round, 'it is refused and counted')
      etcd.put(`after-${round}`)
      await judge(t, etcd, replicas)
    }
    for (const { sink, metrics } of replicas) {
      t.equal(sink.of('replace').length, 1, 'nobody lost history')
      t.equal(metrics.broke, 0)
    }
  })
}

void t.test('a message signed for another place is rejected', async (t) => {
  const nats = await startNats(t)
  const { etcd, edge, replicas } = await startFleet(t, nats)
  const admin = await natsAdmin(t, nats)
  etcd.put('once')
  await judge(t, etcd, replicas)
  const manager = await jetstreamManager(admin.connection)
  const message = await manager.streams.getMessage(names.stream, { seq: await admin.lastSequence(names.stream) })
  await admin.write(names.log, message!.data)
  await until(() => edge.metrics.refusals > 0, 'it is refused')
  etcd.put('afterwards')
  await judge(t, etcd, replicas)
  t.equal(edge.sink.of('replace').length, 1)
})

void t.test('forged snapshots, and a forged index, do not get a new replica to serve', async (t) => {
  const nats = await startNats(t)
  const { etcd, options, replicas } = await startFleet(t, nats)
  const bucket = await connectBucket(t, nats)
  const admin = await natsAdmin(t, nats)
  const snapshot = new SnapshotWriter()
  snapshot.add([forgedKeyValue(toRevision(2))])
  const sequence = await admin.lastSequence(names.stream)
  const place = { revision: etcd.embedded.revision, settled: etcd.embedded.revision, epoch: 1, clusterId: '1' }
  for (const envelope of [envelopeWith(), stranger]) {
    const store = new SnapshotStore(bucket, names, envelope)
    const name = names.snapshot(1, place.revision, Date.now())
    await store.put(name, snapshot)
    const entry = { ...place, name, sequence, keys: 1, isSynced: true, trustsProgress: true }
    // A forger need not read the index to write another.
    const { revision } = (await bucket.kvGet(names.indexKey))!
    const index = envelope.seal('index', names.indexKey, Buffer.from(JSON.stringify([entry])))
    await bucket.kvUpdate(names.indexKey, index, revision)
    const edge = startReplica(t, { ...options, role: 'edge' })
    replicas.push(edge)
    await judge(t, etcd, replicas)
    t.ok(edge.metrics.refusals > 0, 'refused and counted')
    t.equal(edge.sink.of('replace').length, 1)
  }
})

void t.test('forged statuses do not make content fresh, and forged answers are not served', async (t) => {
  const nats = await startNats(t)
  const { etcd, candidate, edge } = await startFleet(t, nats)
  const admin = await natsAdmin(t, nats)
  await candidate.stop()
  await until(() => edge.sink.reason !== null, 'the edge misses the publisher')
  const before = edge.metrics.refusals
  const status = { epoch: 9, session: 1, sequence: 1, at: 0, ageMs: 0, trouble: null }
  const seen = edge.sink.of('synced').length
  for (let i = 0; i < 20; i++) {
    admin.connection.publish(names.status, Buffer.from(JSON.stringify({ ...status, at: i * 100 })))
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await until(() => edge.metrics.refusals >= before + 20, 'each is refused')
  t.equal(edge.sink.of('synced').length, seen, 'the edge does not become synced')

  const subscription = admin.connection.subscribe(names.requests, {
    callback: (_error, message) => {
      // The only part, which claims that etcd is at revision 1.
      const revision = Buffer.alloc(8)
      revision.writeDoubleBE(1)
      message.respond(Buffer.concat([Buffer.from([0, 0, 0, 1, 1]), revision]))
    },
  })
  await admin.connection.flush()
  await t.rejects(edge.freshness.currentRevision(), /not signed/)
  subscription.unsubscribe()
  etcd.put('unseen')
})

void t.test('a request that no replica signed is not answered', async (t) => {
  const nats = await startNats(t)
  const { edge, candidate } = await startFleet(t, nats)
  const admin = await natsAdmin(t, nats)
  const question = Buffer.from(JSON.stringify({ kind: 'revision' }))
  await t.rejects(admin.connection.request(names.requests, question, { timeout: 500 }))
  await until(() => candidate.metrics.refusals > 0, 'it is refused')
  t.equal(await edge.freshness.currentRevision(), 21, 'a replica is answered')
})

void t.test('keys are rotated under a running fleet, and no replica loses history', async (t) => {
  const nats = await startNats(t)
  const [old, fresh] = [randomBytes(32), randomBytes(32)]
  const files = [new Keys(old), new Keys(old)]
  const { etcd, options, candidate } = await startFleet(t, nats, files[0])
  const edge = startReplica(t, { ...options, role: 'edge', signingKeys: files[1]! })
  const replicas = [candidate, edge]
  const store = new SnapshotStore(await connectBucket(t, nats), names, envelopeWith(fresh))
  for (const keys of [[old, fresh], [fresh, old], [fresh]]) {
    // The files do not change at the same time.
    for (const file of files) {
      file.use(...keys)
      etcd.put(`key-${keys.length}-${files.indexOf(file)}`)
      await judge(t, etcd, replicas)
    }
    if (keys[0] === fresh && keys.length === 2) {
      await until(async () => (await store.index()).length > 0, 'the index is signed by the new key')
      // Messages signed with the old key may still be in flight, which operators wait out for minutes: once a later one
      // has arrived, so have they.
      etcd.put('signed by the new key')
      await judge(t, etcd, replicas)
      await edge.freshness.currentRevision()
    }
  }
  for (const { sink, metrics } of replicas) {
    t.equal(sink.of('replace').length, 1)
    t.equal(metrics.refusals, 0)
  }
  const late = startReplica(t, { ...options, role: 'edge', signingKeys: files[1]! })
  await judge(t, etcd, [...replicas, late])
})

void t.test('a fleet that begins to sign restarts its streams', async (t) => {
  const nats = await startNats(t)
  const etcd = new CountedUpstream()
  etcd.put('a')
  const unsigned = startReplica(t, { servers: [nats.url], upstream: etcd.upstream })
  await caughtUp(etcd, [unsigned])
  await unsigned.stop()
  const options = { servers: [nats.url], upstream: etcd.upstream, signingKeys: new Keys(randomBytes(32)) }
  const replicas = [startReplica(t, options), startReplica(t, { ...options, role: 'edge' })]
  await judge(t, etcd, replicas)
  const without = startReplica(t, { servers: [nats.url], upstream: etcd.upstream, role: 'edge' })
  etcd.put('b')
  await judge(t, etcd, replicas)
  t.equal(without.sink.isSynced, false, 'a replica without the key has nothing, rather than something unproven')
})

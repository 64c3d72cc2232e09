/** Watches of a cached prefix that cannot begin at once, or at all. */
import t from 'tap'
import { RpcStatus } from '../../../../src/engine/upstream/etcd/rpc-status.js'
import { UpstreamError } from '../../../../src/engine/upstream/upstream.js'
import { batch, put, rev } from '../../../support/objects.js'
import { podPipeline } from '../../../support/pod-pipeline.js'
import { VirtualClock } from '../../../support/virtual-clock.js'
import type { Admitted, Right } from '../../../../src/etcd-api/access.js'
import { FakeAccess, settled } from '../../support/fakes.js'
import { encode, messageOf } from '../../support/harness.js'
import { openApi } from '../../support/open-api.js'
import type { Revision } from '../../../../src/engine/model/revision.js'

const UNAVAILABLE = String(RpcStatus.UNAVAILABLE)
const ANSWER = Buffer.from(encode({ 1: { 1: 77, 3: 9, 4: 2 } }))
const ALL = { 1: '/registry/pods/', 2: '/registry/pods0' }

/** @param ask what etcd answers when it is asked for its revision. */
function scene(ask: () => Promise<Revision>) {
  const clock = new VirtualClock()
  const pipeline = podPipeline(clock, { trustsProgress: true, currentRevision: ask, requestProgress: () => {} })
  const served = pipeline.live({ resource: pipeline.resource, definition: null })
  const { call, raw } = openApi(() => ANSWER, 4, [served], clock)
  return {
    clock,
    pipeline,
    raw,
    cache: pipeline.cache,
    watches: (access?: FakeAccess) => call('Watch/Watch', null, access),
  }
}

class SlowAccess extends FakeAccess {
  decide: () => void = () => {}

  override async check(rights: readonly Right[]): Promise<Admitted> {
    await new Promise<void>((resolve) => (this.decide = resolve))
    return await super.check(rights)
  }
}

for (const start of [0, 1_000]) {
  void t.test(`a watch from ${start} ends its stream if its prefix goes while its caller is checked`, async (t) => {
    const { pipeline, cache, watches } = scene(async () => rev(12))
    cache.replace(rev(10), 'initial').commit()
    cache.synced()
    const access = new SlowAccess()
    const client = watches(access)
    client.send(encode({ 1: { ...ALL, 3: start } }))
    await settled()
    await pipeline.retire()
    access.decide()
    await settled()
    t.equal(client.status, UNAVAILABLE)
  })
}

void t.test('a watch of a future revision ends its stream if its prefix goes', async (t) => {
  const { pipeline, cache, watches } = scene(async () => rev(10))
  cache.replace(rev(10), 'initial').commit()
  cache.synced()
  const client = watches()
  client.send(encode({ 1: { ...ALL, 3: 1_000 } }))
  await settled()
  t.equal(messageOf(client.messages[0]!).number(3), 1)
  t.equal(client.status, null)
  await pipeline.retire()
  t.equal(client.status, UNAVAILABLE)
})

void t.test(
  'a watch from below the history ends its stream if its prefix goes, also if etcd says nothing',
  async (t) => {
    const { pipeline, cache, watches, raw, clock } = scene(async () => rev(10))
    cache.replace(rev(10), 'initial').commit()
    cache.synced()
    const client = watches()
    client.send(encode({ 1: { ...ALL, 3: 5 } }))
    await settled()
    await clock.advanceInTurns(200, 10)
    t.equal(raw.streams.length, 1)
    t.equal(client.status, null)
    await pipeline.retire()
    await clock.advanceInTurns(200, 10)
    t.equal(client.status, UNAVAILABLE)
    t.ok(raw.streams[0]!.isCanceled)
  },
)

void t.test('while etcd is away, a watch from now begins where the cache is, and the others go on', async (t) => {
  let asked = 0
  const { cache, watches } = scene(async () => {
    asked++
    throw new UpstreamError('unavailable', 'etcd is away')
  })
  cache.replace(rev(10), 'initial').commit()
  cache.synced()
  const client = watches()
  client.send(encode({ 1: { ...ALL, 3: 11, 7: 1 } }))
  for (const id of [2, 3]) client.send(encode({ 1: { ...ALL, 7: id } }))
  await settled()
  t.equal(client.status, null)
  t.same(
    client.messages.map(messageOf).map((message) => [message.number(2), message.number(3), message.revision]),
    [
      [1, 1, 10],
      [2, 1, 10],
      [3, 1, 10],
    ],
  )
  t.equal(asked, 1, 'a stream waits for etcd once, and not for every watch')
  cache.apply([batch(11, put('one', 'a', 11))])
  await settled()
  const events = client.messages.map(messageOf).filter((message) => message.messages(11).length === 1)
  t.same(
    events
      .map((message) => [message.number(2), message.messages(11)[0]!.message(2).number(3)])
      .sort(([a = 0], [b = 0]) => a - b),
    [1, 2, 3].map((id) => [id, 11]),
  )
})

void t.test('before the first state, a watch from now ends its stream while etcd is away', async (t) => {
  const { watches } = scene(async () => {
    throw new UpstreamError('unavailable', 'etcd is away')
  })
  const client = watches()
  client.send(encode({ 1: ALL }))
  await settled()
  t.equal(client.status, UNAVAILABLE)
})

void t.test('a client that reads nothing keeps a stream without watches on etcd, which holds no memory', async (t) => {
  const { cache, watches, clock } = scene(async () => rev(10))
  cache.replace(rev(10), 'initial').commit()
  cache.synced()
  const client = watches()
  client.isFull = true
  client.send(encode({ 1: ALL }))
  await settled()
  t.equal(client.messages.length, 1)
  clock.advance(120_000)
  t.equal(client.status, null)
})

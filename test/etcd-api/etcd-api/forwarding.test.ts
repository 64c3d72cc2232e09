/** What is forwarded: between a client that reads slowly or loses its rights, and an etcd that answers late or not. */
import t from 'tap'
import { MIN_INITIAL_BYTES_PER_SECOND } from '../../../src/engine/model/limits.js'
import { RpcStatus } from '../../../src/engine/upstream/etcd/rpc-status.js'
import { until } from '../../support/until.js'
import { FakeAccess, type FakeClient, settled } from '../support/fakes.js'
import { encode, type Fields, messageOf } from '../support/harness.js'
import { openApi, pathOf } from '../support/open-api.js'

const OK = String(RpcStatus.OK)
const UNAVAILABLE = String(RpcStatus.UNAVAILABLE)
const DENIED = String(RpcStatus.PERMISSION_DENIED)
const MIB = 1024 * 1024
const header = (revision: number): Fields => ({ 1: 77, 3: revision, 4: 2 })
const rangeOf = (revision: number, value: string | Buffer): Buffer =>
  Buffer.from(encode({ 1: header(revision), 2: [{ 1: '/other/x', 3: 1, 5: value }], 4: 1 }))
const SMALL = rangeOf(9, 'x')
const LARGE = rangeOf(9, Buffer.alloc(MIB, 7))

class UnknownAccess extends FakeAccess {
  override check(): Promise<never> {
    return new Promise(() => {})
  }
}

/** Takes what there is for as long as anything comes. */
async function drainAll(client: FakeClient): Promise<void> {
  for (let i = 0; i < 100 && client.status === null; i++) {
    client.drain()
    await settled()
  }
}

void t.test('a large forwarded range has a slot until its client has all of it', async (t) => {
  const { call, limits } = openApi(() => LARGE)
  const client = call('KV/Range', { 1: '/other/x' })
  client.isFull = true
  await settled()
  t.equal(limits.ranges.running, 1)
  t.equal(limits.forwarded.running, 0)
  t.equal(client.status, null)
  await drainAll(client)
  t.equal(client.status, OK)
  t.ok(client.messages[0]?.equals(LARGE))
  t.ok(client.largestPiece < MIB / 4, 'it is written piece by piece')
  t.equal(limits.ranges.running, 0)
  const leaving = call('KV/Range', { 1: '/other/x' })
  leaving.isFull = true
  await settled()
  leaving.destroy()
  t.equal(limits.ranges.running, 0, 'a client that leaves gives its slot back')
})

void t.test('a caller that loses its rights while it waits for such a slot gets nothing', async (t) => {
  const { call, limits } = openApi(() => LARGE, 1)
  const leave = limits.ranges.hold('another')
  const access = new FakeAccess()
  const client = call('KV/Range', { 1: '/other/x' }, access)
  await settled()
  access.isRevoked = true
  leave()
  await settled()
  t.equal(client.status, DENIED)
  t.same(client.messages, [])
  t.equal(limits.ranges.running, 0)
})

void t.test('the large answer to a write needs no such slot, and keeps that of the write', async (t) => {
  const { call, limits } = openApi(() => LARGE, 1)
  limits.ranges.hold('another')
  const client = call('KV/Put', { 1: '/other/x', 2: 'y', 4: true })
  client.isFull = true
  await settled()
  t.equal(limits.writes.running, 1)
  await drainAll(client)
  t.equal(client.status, OK)
  t.ok(client.messages[0]?.equals(LARGE))
  t.equal(limits.writes.running, 0)
})

void t.test('the keys of a lease are required together', async (t) => {
  const keys = Array.from({ length: 2_000 }, (_, i) => `/other/${i}`)
  const { call } = openApi(() =>
    Buffer.concat([encode({ 1: header(9), 2: 5 }), ...keys.map((key) => Buffer.from(encode({ 5: key })))]),
  )
  const access = new FakeAccess()
  const client = call('Lease/LeaseTimeToLive', { 1: 5, 2: true }, access)
  // So many are read in turns.
  await until(() => client.status !== null, 'it is answered')
  t.equal(client.status, OK)
  t.same(
    access.required.map((rights) => rights.length),
    [0, 2_000],
  )
})

for (const [method, request] of [
  ['Lease/LeaseRevoke', { 1: 5 }],
  ['Lease/LeaseTimeToLive', { 1: 5, 2: true }],
  ['KV/Put', { 1: '/other/x', 3: 5 }],
  ['KV/Txn', { 2: [{ 2: { 1: '/other/x', 3: 5 } }] }],
] as const) {
  void t.test(`${method}: what is hidden from everybody is not reached through its lease`, async (t) => {
    const { call, raw } = openApi(() => Buffer.from(encode({ 1: header(9), 2: 5, 5: '/registry/masterleases/a' })))
    const client = call(method, request, new FakeAccess(true))
    await settled()
    t.equal(client.status, DENIED)
    t.same(client.messages, [])
    t.same(
      raw.calls.map(({ path }) => path),
      [pathOf('Lease/LeaseTimeToLive')],
    )
  })
}

void t.test('a lease is kept alive only while its caller is known, also after a wait for etcd', async (t) => {
  const access = new FakeAccess()
  const { call, raw } = openApi(() => {
    access.isRevoked = true
    return Buffer.from(encode({ 1: header(9), 2: 5 }))
  })
  const client = call('Lease/LeaseKeepAlive', null, access)
  client.send(encode({ 1: 5 }))
  await settled()
  t.equal(client.status, DENIED)
  t.same(raw.streams, [], 'etcd has not heard of it')
})

void t.test('slow readers of what was forwarded keep no lease from being renewed', async (t) => {
  const { call, raw, limits } = openApi(() => Buffer.from(encode({ 1: header(9), 2: 5 })), 1)
  limits.forwarded.hold('another')
  const client = call('Lease/LeaseKeepAlive', null, new FakeAccess())
  client.send(encode({ 1: 5 }))
  await settled()
  t.equal(client.status, null)
  t.equal(raw.streams.length, 1)
})

void t.test('a transaction with too many leases is refused before etcd is asked for their keys', async (t) => {
  const { call, raw } = openApi(() => SMALL)
  const puts = (count: number): Fields => ({
    2: Array.from({ length: count }, (_, i) => ({ 2: { 1: '/other/x', 3: i + 1 } })),
  })
  const client = call('KV/Txn', puts(1_000))
  await settled()
  t.equal(client.status, String(RpcStatus.INVALID_ARGUMENT))
  t.same(raw.calls, [])
  const fewer = call('KV/Txn', puts(10))
  await settled()
  t.equal(fewer.status, OK)
})

void t.test('a serializable range of a member that is behind is read again', async (t) => {
  const { call } = openApi((_path, request) =>
    messageOf(request).number(7) === 1 ? rangeOf(5, 'old') : rangeOf(9, 'new'),
  )
  const connection = {}
  const read = async (serializable: boolean): Promise<readonly [number, string]> => {
    const client = call('KV/Range', { 1: '/other/x', 7: serializable }, undefined, connection)
    await settled()
    const answer = messageOf(client.messages[0]!)
    return [answer.revision, answer.messages(2)[0]!.text(5)]
  }
  t.same(await read(true), [5, 'old'], 'nothing newer has been seen')
  t.same(await read(false), [9, 'new'])
  t.same(await read(true), [9, 'new'])
})

void t.test('a linearizable range is not read again because of what was answered meanwhile', async (t) => {
  const { call, raw } = openApi((_path, request) => {
    const key = messageOf(request).text(1)
    return rangeOf(key === '/other/late' ? 5 : 9, key)
  })
  const connection = {}
  const clients = ['/other/late', '/other/x'].map((key) => call('KV/Range', { 1: key }, undefined, connection))
  await settled()
  for (const client of clients) t.equal(client.status, OK)
  call('KV/Range', { 1: '/other/late' }, undefined, connection)
  await settled()
  t.equal(raw.calls.length, 3)
})

void t.test('a watch whose caller loses its rights while it waits is refused, and its stream goes on', async (t) => {
  const { call, limits, raw } = openApi(() => SMALL, 1)
  const access = new FakeAccess()
  const leave = limits.forwardedWatches.hold('another')
  const client = call('Watch/Watch', null, access)
  client.send(encode({ 1: { 1: '/other/x' } }))
  await settled()
  access.isRevoked = true
  leave()
  await settled()
  const [refusal] = client.messages.map(messageOf)
  t.equal(refusal?.text(6), 'rpc error: code = PermissionDenied desc = etcdserver: permission denied')
  t.equal(refusal?.text(2), '-1')
  t.equal(client.status, null)
  t.same(raw.streams, [])
  t.equal(limits.forwardedWatches.running, 0)
})

const WATCH_CREATED = Buffer.from(encode({ 1: header(9), 3: true }))
const PROGRESS = Buffer.from([0x1a, 0])
const progressAt = (revision: number): Buffer => Buffer.from(encode({ 1: header(revision), 2: -1 }))
/** The revisions of the answers to progress requests. */
const answersTo = ({ messages }: FakeClient): readonly number[] =>
  messages
    .map(messageOf)
    .filter((message) => message.text(2) === '-1')
    .map(({ revision }) => revision)

void t.test('a progress request that etcd does not answer does not stop the next one', async (t) => {
  const { call, raw, clock } = openApi(() => SMALL)
  const client = call('Watch/Watch', null)
  client.send(encode({ 1: { 1: '/other/x' } }))
  await settled()
  const [etcd] = raw.streams
  etcd!.handlers.onMessage(WATCH_CREATED)
  client.send(PROGRESS)
  await settled()
  t.equal(etcd!.received.length, 2, 'etcd is asked, and says nothing')
  clock.advance(1_000)
  await settled()
  const before = etcd!.received.length
  client.send(PROGRESS)
  await settled()
  t.ok(etcd!.received.length > before, 'it is asked again')
  etcd!.handlers.onMessage(progressAt(12))
  await settled()
  t.same(answersTo(client), [12])
})

void t.test('a progress request that comes while one is answered has an answer of its own', async (t) => {
  const { call, raw } = openApi(() => SMALL)
  const client = call('Watch/Watch', null)
  client.send(encode({ 1: { 1: '/other/x' } }))
  await settled()
  const [etcd] = raw.streams
  etcd!.handlers.onMessage(WATCH_CREATED)
  client.send(PROGRESS)
  client.send(PROGRESS)
  client.send(PROGRESS)
  await settled()
  etcd!.handlers.onMessage(progressAt(12))
  await settled()
  etcd!.handlers.onMessage(progressAt(15))
  await settled()
  etcd!.handlers.onMessage(progressAt(18))
  t.same(answersTo(client), [12, 15], 'the requests that waited are answered together')
})

void t.test('a watch that is created while progress is asked for is asked too', async (t) => {
  const { call, raw, clock } = openApi(() => SMALL)
  const client = call('Watch/Watch', null)
  client.send(encode({ 1: { 1: '/other/x' } }))
  await settled()
  raw.streams[0]!.handlers.onMessage(WATCH_CREATED)
  client.send(PROGRESS)
  await settled()
  client.send(encode({ 1: { 1: '/other/y', 3: 2 } }))
  await settled()
  const [first, second] = raw.streams
  second!.handlers.onMessage(WATCH_CREATED)
  first!.handlers.onMessage(progressAt(12))
  await settled()
  t.same(answersTo(client), [], 'the new watch may owe events from before')
  clock.advance(5)
  await settled()
  first!.handlers.onMessage(progressAt(13))
  second!.handlers.onMessage(progressAt(12))
  await settled()
  t.same(answersTo(client), [12])
})

void t.test('watches that are requested at once are answered in their order, also if etcd answers late', async (t) => {
  const { call, raw } = openApi(() => SMALL)
  const client = call('Watch/Watch', null)
  for (const key of ['/other/x', '/registry/hidden', '/other/y']) client.send(encode({ 1: { 1: key } }))
  await settled()
  t.equal(raw.streams.length, 1, 'the others wait for the answer to the first')
  t.equal(client.messages.length, 0)
  raw.streams[0]!.handlers.onMessage(WATCH_CREATED)
  await settled()
  t.equal(client.messages.length, 2, 'then the second is refused, and etcd is asked for the third')
  raw.streams[1]!.handlers.onMessage(WATCH_CREATED)
  await settled()
  t.equal(client.messages.length, 3)
  client.send(encode({ 1: { 1: '/other/z' } }))
  await settled()
  client.destroy()
  t.equal(raw.streams.length, 3, 'the end of the stream ends the wait')
})

void t.test('a watch that etcd does not answer ends the stream, so that its client begins again', async (t) => {
  const { call, raw, clock } = openApi(() => SMALL)
  const answered = call('Watch/Watch', null)
  answered.send(encode({ 1: { 1: '/other/x' } }))
  await settled()
  raw.streams[0]!.handlers.onMessage(WATCH_CREATED)
  await settled()
  const client = call('Watch/Watch', null)
  for (const key of ['/other/x', '/other/y']) client.send(encode({ 1: { 1: key } }))
  await settled()
  clock.advance(9_999)
  t.equal(client.status, null)
  clock.advance(1)
  t.equal(client.status, UNAVAILABLE)
  t.ok(raw.streams[1]!.isCanceled)
  t.equal(answered.status, null, 'one that has been answered goes on')
  t.equal(clock.pending, 0)
})

void t.test('a client that reads nothing is not taken for an etcd that does not answer', async (t) => {
  const { call, raw, clock } = openApi(() => SMALL)
  const client = call('Watch/Watch', null)
  client.isFull = true
  for (const key of ['/registry/hidden', '/other/x']) client.send(encode({ 1: { 1: key } }))
  await settled()
  t.ok(raw.streams[0]!.isPaused, 'the answer is not read')
  clock.advance(25_000)
  t.equal(client.status, null)
  client.drain()
  clock.advance(10_000)
  t.equal(client.status, UNAVAILABLE)
})

const TOKEN_REFUSED = Buffer.from(
  encode({ 1: header(9), 2: -1, 3: true, 4: true, 6: 'etcdserver: invalid auth token' }),
)

void t.test("this server's own expired token ends no client's watch", async (t) => {
  const { call, raw } = openApi(() => SMALL)
  const client = call('Watch/Watch', null)
  client.send(encode({ 1: { 1: '/other/x', 3: 5 } }))
  await settled()
  raw.streams[0]!.handlers.onMessage(TOKEN_REFUSED)
  await settled()
  t.same(client.messages, [])
  t.ok(raw.streams[0]!.isCanceled)
  t.same(raw.streams[1]?.received, raw.streams[0]!.received, 'it is requested again')
  raw.streams[1]!.handlers.onMessage(WATCH_CREATED)
  await settled()
  t.match(messageOf(client.messages[0]!).fields.get(4), undefined)
  t.equal(client.status, null)
})

void t.test('what etcd says of another token is passed on', async (t) => {
  const { call, raw, clock } = openApi(() => SMALL)
  const client = call('Watch/Watch', null)
  client.send(encode({ 1: { 1: '/other/x' } }))
  for (const i of [0, 1]) {
    await settled()
    raw.streams[i]!.handlers.onMessage(TOKEN_REFUSED)
  }
  await settled()
  t.equal(messageOf(client.messages[0]!).text(6), 'etcdserver: invalid auth token')
  t.equal(raw.streams.length, 2)
  t.equal(client.status, null)
  t.equal(clock.pending, 0)
})

void t.test('a client of a watch on etcd that reads nothing for 30 s loses its stream', async (t) => {
  const { call, raw, clock } = openApi(() => SMALL)
  const client = call('Watch/Watch', null)
  client.send(encode({ 1: { 1: '/other/x' } }))
  await settled()
  const [etcd] = raw.streams
  client.isFull = true
  etcd!.handlers.onMessage(WATCH_CREATED)
  await settled()
  clock.advance(29_999)
  client.drain()
  clock.advance(1)
  t.equal(client.status, null, 'it has read again')
  client.isFull = true
  // At the lowest speed, this takes ten seconds.
  client.pendingBytes = 10 * MIN_INITIAL_BYTES_PER_SECOND
  etcd!.handlers.onMessage(Buffer.from(encode({ 1: header(12) })))
  clock.advance(39_999)
  t.equal(client.status, null)
  clock.advance(1)
  t.equal(client.status, 'reset')
  t.ok(etcd!.isCanceled)
  t.equal(clock.pending, 0)
})

void t.test('large requests that wait are few', async (t) => {
  for (const path of ['Watch/Watch', 'Lease/LeaseKeepAlive']) {
    const { call } = openApi(() => SMALL)
    // Nobody knows the caller for as long as this takes.
    const client = call(path, null, new UnknownAccess())
    // No request has a field with this number.
    const request = encode({ 99: 'x'.repeat(MIB), 1: path === 'Watch/Watch' ? { 1: '/other/x' } : 7 })
    for (let i = 0; i < 10; i++) {
      client.send(request)
      await settled()
    }
    t.ok(client.unread >= 8, `${path}: one is handled, and at most one waits`)
    client.destroy()
  }
})

/** A stream of keepalives between a client that sends much at once and an etcd that answers late. */
import t from 'tap'
import { GrpcCall, framed } from '../../src/etcd-api/grpc-call.js'
import { KeepAliveStream } from '../../src/etcd-api/keep-alive-stream.js'
import { MAX_WAITING_REQUESTS } from '../../src/etcd-api/limits.js'
import { VirtualClock } from '../support/virtual-clock.js'
import { FakeClient, FakeEtcd, type FakeEtcdStream, settled } from './support/fakes.js'
import { encode } from './support/harness.js'

const COUNT = 1_000
const REQUESTS = Array.from({ length: COUNT }, (_, i) => Buffer.from(encode({ 1: i + 1 })))
const PATH = '/etcdserverpb.Lease/LeaseKeepAlive'

interface Opened {
  readonly client: FakeClient
  /** etcd's stream, once there is one. */
  etcd(this: void): FakeEtcdStream
  readonly authorized: string[]
  isClosed(this: void): boolean
}

function open(): Opened {
  const client = new FakeClient(PATH)
  const raw = new FakeEtcd()
  const authorized: string[] = []
  let isClosed = false
  const call = new GrpcCall(
    client,
    new VirtualClock(),
    () => {},
    async () => () => {},
  )
  new KeepAliveStream({
    raw,
    call,
    authorize: async (lease) => void authorized.push(lease),
    onClose: () => (isClosed = true),
  }).start()
  return { client, etcd: () => raw.streams[0]!, authorized, isClosed: () => isClosed }
}

for (const [how, send] of [
  ['one by one', (client: FakeClient) => REQUESTS.forEach((request) => client.send(request))],
  ['in one piece', (client: FakeClient) => client.sendBytes(Buffer.concat(REQUESTS.map((one) => framed([one]))))],
] as const) {
  void t.test(`${COUNT} requests at once, ${how}: few are with etcd at a time, and none is lost`, async (t) => {
    const { client, etcd, isClosed } = open()
    send(client)
    client.halfClose()
    await settled()
    let answered = 0
    let most = 0
    for (; answered < COUNT; answered++) {
      most = Math.max(most, etcd().received.length - answered)
      const request = etcd().received[answered]
      if (request === undefined) break
      t.equal(client.status, null, 'the stream is open until the last answer')
      etcd().handlers.onMessage(Buffer.from(request))
      await settled()
    }
    t.equal(answered, COUNT)
    t.equal(most, MAX_WAITING_REQUESTS)
    t.same(etcd().received, REQUESTS, 'in order')
    t.same(client.messages, REQUESTS, 'and so are the answers')
    t.equal(client.status, '0')
    t.ok(etcd().isCanceled && isClosed())
  })
}

void t.test('a client is not read while etcd owes it answers', async (t) => {
  const { client, etcd, authorized } = open()
  for (const request of REQUESTS) client.send(request)
  await settled()
  t.equal(client.isPaused, true)
  t.equal(etcd().received.length, MAX_WAITING_REQUESTS)
  t.equal(authorized.length, MAX_WAITING_REQUESTS, 'what waits is not looked at either')
  for (let i = 0; i < 10; i++) etcd().handlers.onMessage(REQUESTS[i]!)
  await settled()
  t.equal(etcd().received.length, MAX_WAITING_REQUESTS + 10)
})

void t.test('a client that does not read its answers stops getting them', async (t) => {
  const { client, etcd } = open()
  client.isFull = true
  for (const request of REQUESTS) client.send(request)
  await settled()
  etcd().handlers.onMessage(REQUESTS[0]!)
  t.ok(etcd().isPaused)
  client.drain()
  t.notOk(etcd().isPaused)
})

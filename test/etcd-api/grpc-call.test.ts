/** One gRPC call over a stream that the test controls. */
import t from 'tap'
import { framed, GrpcCall } from '../../src/etcd-api/grpc-call.js'
import type { ByteStream } from '../../src/etcd-api/byte-stream.js'
import { BusyError } from '../../src/engine/model/errors.js'
import { RpcStatus } from '../../src/engine/upstream/etcd/rpc-status.js'
import { VirtualClock } from '../support/virtual-clock.js'
import { FakeClient, settled } from './support/fakes.js'

/** A stream whose client takes nothing until `drain`. */
class FullStream implements ByteStream {
  readonly path = '/etcdserverpb.KV/Range'
  readonly authority = 'localhost'
  readonly isSecure = false
  readonly connection = {}
  readonly signal = new AbortController().signal
  readonly pendingBytes = 0
  written = 0
  isDestroyed = false
  #handlers: Parameters<ByteStream['read']>[0] | null = null

  header(): undefined {}
  read(handlers: Parameters<ByteStream['read']>[0]): void {
    this.#handlers = handlers
  }
  pause(): void {}
  resume(): void {}
  begin(): void {}
  finish(): void {}
  write(bytes: Buffer): boolean {
    this.written += bytes.length
    return false
  }
  destroy(): void {
    this.isDestroyed = true
  }
  async drain(): Promise<void> {
    this.#handlers?.onDrain()
    await new Promise(setImmediate)
  }
}

const noLimit = async (): Promise<() => void> => () => {}
const PARTS = Array.from({ length: 100 }, () => Buffer.alloc(64 * 1024))

void t.test('a client that takes a large response too slowly is reset, and its slot is free', async (t) => {
  const clock = new VirtualClock()
  const stream = new FullStream()
  const call = new GrpcCall(stream, clock, () => {}, noLimit)
  call.read({ onMessage: () => {}, onHalfClose: () => {}, onDrain: () => {}, onClose: () => {} })
  const sending = call.sendLarge(PARTS, PARTS.length * 64 * 1024)
  for (let i = 0; i < 50; i++) {
    clock.advance(1_000)
    await stream.drain()
  }
  t.notOk(stream.isDestroyed)
  clock.advance(60_000 + 50_000)
  t.ok(stream.isDestroyed)
  t.ok(call.isOver)
  await sending
})

void t.test('a client that takes it in time gets all of it', async (t) => {
  const clock = new VirtualClock()
  const stream = new FullStream()
  const call = new GrpcCall(stream, clock, () => {}, noLimit)
  call.read({ onMessage: () => {}, onHalfClose: () => {}, onDrain: () => {}, onClose: () => {} })
  const sending = call.sendLarge(PARTS, PARTS.length * 64 * 1024)
  for (let i = 0; i < 110; i++) {
    clock.advance(1_000)
    await stream.drain()
  }
  await sending
  t.equal(stream.written, 100 * 64 * 1024 + 5)
  clock.advance(1_000_000)
  t.notOk(stream.isDestroyed)
})

void t.test('what a call holds is released when it is over, once, and at once if it already is', (t) => {
  const call = new GrpcCall(new FullStream(), new VirtualClock(), () => {}, noLimit)
  const released: string[] = []
  call.keep(() => released.push('before'))
  t.same(released, [])
  call.succeed()
  call.destroy()
  call.keep(() => released.push('after'))
  t.same(released, ['before', 'after'])
  t.end()
})

/** A call whose large request needs a slot that the test grants. */
function receiving(): {
  readonly client: FakeClient
  readonly clock: VirtualClock
  readonly call: GrpcCall
  grant(this: void): void
  held(this: void): number
  readonly received: Buffer[]
} {
  const client = new FakeClient('/etcdserverpb.KV/Put')
  const clock = new VirtualClock()
  let held = 0
  let grant = (): void => {}
  const room = (): Promise<() => void> =>
    new Promise((resolve) => {
      grant = () => {
        held++
        resolve(() => void held--)
      }
    })
  const call = new GrpcCall(client, clock, () => {}, room)
  const received: Buffer[] = []
  call.read({ onMessage: (one) => received.push(one), onHalfClose: () => {}, onDrain: () => {}, onClose: () => {} })
  return { client, clock, call, grant: () => grant(), held: () => held, received }
}

const LARGE = Buffer.alloc(1024 * 1024, 7)

/** Sends a message as a connection delivers it. */
function sendInPieces(client: FakeClient, message: Buffer, until = Infinity): void {
  const bytes = framed([message])
  for (let at = 0; at < Math.min(bytes.length, until); at += 16_384) client.sendBytes(bytes.subarray(at, at + 16_384))
}

void t.test('a large request is not read before it has a slot, and gives it back when it is complete', async (t) => {
  const { client, call, grant, held, received } = receiving()
  sendInPieces(client, Buffer.alloc(64 * 1024, 1))
  t.equal(received.length, 1, 'a small one needs none')
  const made = t.capture(Buffer, 'allocUnsafeSlow', (size: number) => Buffer.alloc(size))
  sendInPieces(client, LARGE)
  t.ok(client.isPaused)
  t.same(made(), [], 'its length alone takes no memory')
  call.pause()
  call.resume()
  await settled()
  t.ok(client.isPaused, 'whatever else goes on')
  grant()
  await settled()
  t.ok(received[1]?.equals(LARGE))
  t.equal(held(), 0)
  t.notOk(client.isPaused)
})

void t.test('a large request that stays incomplete ends its call, and so does one without a slot', async (t) => {
  const { client, clock, grant, held, received } = receiving()
  sendInPieces(client, LARGE, 500_000)
  grant()
  await settled()
  t.equal(held(), 1)
  clock.advance(29_000)
  t.equal(client.status, null)
  clock.advance(1_000)
  t.equal(client.status, String(RpcStatus.UNAVAILABLE))
  t.equal(held(), 0)
  t.same(received, [])
  const refused = new FakeClient('/etcdserverpb.KV/Put')
  const call = new GrpcCall(
    refused,
    clock,
    () => {},
    () => Promise.reject(new BusyError('too many', 1)),
  )
  void call.readOne()
  sendInPieces(refused, LARGE)
  await settled()
  t.equal(refused.status, String(RpcStatus.RESOURCE_EXHAUSTED))
})

void t.test('a client that leaves gives the slot of its request back', async (t) => {
  const { client, grant, held } = receiving()
  sendInPieces(client, LARGE, 500_000)
  grant()
  await settled()
  client.destroy()
  t.equal(held(), 0)
  const late = receiving()
  sendInPieces(late.client, LARGE, 500_000)
  late.client.destroy()
  late.grant()
  await settled()
  t.equal(late.held(), 0, 'also if it is granted afterwards')
})

/** One gRPC call over a stream that the test controls. */
import t from 'tap'
import { GrpcCall } from '../../src/etcd-api/grpc-call.js'
import type { ByteStream } from '../../src/etcd-api/byte-stream.js'
import { VirtualClock } from '../support/virtual-clock.js'

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

const PARTS = Array.from({ length: 100 }, () => Buffer.alloc(64 * 1024))

void t.test('a client that takes a large response too slowly is reset, and its slot is free', async (t) => {
  const clock = new VirtualClock()
  const stream = new FullStream()
  const call = new GrpcCall(stream, clock, () => {})
  call.read({ onMessage: () => {}, onHalfClose: () => {}, onDrain: () => {}, onClose: () => {} })
  const sending = call.sendLarge(PARTS)
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
  const call = new GrpcCall(stream, clock, () => {})
  call.read({ onMessage: () => {}, onHalfClose: () => {}, onDrain: () => {}, onClose: () => {} })
  const sending = call.sendLarge(PARTS)
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
  const call = new GrpcCall(new FullStream(), new VirtualClock(), () => {})
  const released: string[] = []
  call.keep(() => released.push('before'))
  t.same(released, [])
  call.succeed()
  call.destroy()
  call.keep(() => released.push('after'))
  t.same(released, ['before', 'after'])
  t.end()
})

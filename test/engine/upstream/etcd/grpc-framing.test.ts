import t from 'tap'
import { frameMessage as partsOf, messageSplitter } from '../../../../src/engine/upstream/etcd/grpc-framing.js'
import { RpcError, RpcStatus } from '../../../../src/engine/upstream/etcd/rpc-status.js'

const frameMessage = (message: Buffer): Buffer => Buffer.concat(partsOf(message))

const messages = ['', 'a', 'two words', 'x'.repeat(300)].map((text) => Buffer.from(text))
const wire = Buffer.concat(messages.map(frameMessage))

void t.test('messages are whole, wherever the stream is cut', async (t) => {
  for (let size = 1; size <= wire.length; size++) {
    const read: Buffer[] = []
    const reader = messageSplitter(1_000, (message) => read.push(message))
    for (let at = 0; at < wire.length; at += size) reader.push(wire.subarray(at, at + size))
    if (!Buffer.concat(read).equals(Buffer.concat(messages)) || read.length !== messages.length) {
      t.fail(`cut into ${size}`)
    }
  }
})

void t.test('a message within one chunk is a slice of it; any other gets a buffer of its exact size', async (t) => {
  const read: Buffer[] = []
  const reader = messageSplitter(1_000, (message) => read.push(message))
  const [framed] = partsOf(Buffer.from('within one chunk')) as [Buffer]
  reader.push(framed)
  t.equal(read[0]!.buffer, framed.buffer)
  reader.push(framed.subarray(0, 9))
  reader.push(framed.subarray(9))
  t.equal(read[1]!.buffer.byteLength, read[1]!.length)
  t.same(read[1], read[0])
})

void t.test('a message at the limit is accepted, one above it is rejected before it is read', async (t) => {
  let count = 0
  const reader = messageSplitter(300, () => count++)
  reader.push(frameMessage(Buffer.alloc(300)))
  t.equal(count, 1)
  const head = frameMessage(Buffer.alloc(301)).subarray(0, 5)
  t.throws(() => reader.push(head), { code: RpcStatus.RESOURCE_EXHAUSTED, details: /larger than max \(301 vs 300\)/ })
})

void t.test('a compressed message is rejected: none was requested', async (t) => {
  const reader = messageSplitter(300, () => t.fail('a message'))
  t.throws(() => reader.push(Buffer.from([1, 0, 0, 0, 0])), RpcError)
})

void t.test('a large message is sent as it is, behind its head', async (t) => {
  const message = Buffer.alloc(1_000_000, 'x')
  const parts = partsOf(message)
  t.equal(parts.at(-1), message)
  const read: Buffer[] = []
  const reader = messageSplitter(1_000_000, (one) => read.push(one))
  for (const part of parts) reader.push(Buffer.from(part))
  t.ok(read.length === 1 && read[0]!.equals(message))
})

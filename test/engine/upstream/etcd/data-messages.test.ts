import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import t from 'tap'
import type { KeyEvent } from '../../../../src/engine/model/event.js'
import { seededRandom, randomInteger, type Random } from '../../../../src/support/random.js'
import { rangeDecoding, watchDecoding } from '../../../../src/engine/upstream/etcd/data-messages.js'
import { UpstreamError } from '../../../../src/engine/upstream/upstream.js'
import { testSeed } from '../../../support/test-seeds.js'

const protocolError = { name: 'UpstreamError', code: 'protocol' }

interface Fields {
  readonly key: Buffer
  readonly createRevision: number
  readonly modRevision: number
  readonly version: number
  readonly value: Buffer
  readonly lease: bigint
}

void t.test('messages that another implementation encodes decode to the same values', async (t) => {
  const seed = testSeed(1)
  const random = seededRandom(seed)
  for (let round = 0; round < 200; round++) {
    const entries = Array.from({ length: randomInteger(random, 0, 5) }, () => randomFields(random))
    const range = rangeDecoding(encodeRange(entries, 77, true, 2 ** 40)).whole()
    t.equal(range.headerRevision, 77)
    t.equal(range.more, true)
    t.equal(range.count, 2 ** 40)
    t.same(range.keyValues.map(plain), entries.map(expected), `seed ${seed}, round ${round}`)

    const kinds = entries.map(() => random.next() < 0.3)
    const watch = watchDecoding(encodeWatch(entries, kinds)).whole()
    const events = watch.batches.flatMap(({ revision, events }) => events.map((event) => ({ revision, event })))
    t.same(
      events.map(({ event }) => (event.type === 'put' ? plain(event.keyValue) : event.key)),
      entries.map((entry, i) => (kinds[i] ? entry.key.toString('latin1') : expected(entry))),
    )
    t.same(
      events.map(({ revision }) => revision),
      entries.map(({ modRevision }) => modRevision),
    )
  }
})

void t.test('integers are signed, exact to 2^53, and refused beyond it', async (t) => {
  const revision = (value: bigint): number =>
    watchDecoding(message(new BinaryWriter().tag(5, WireType.Varint).int64(value))).whole().compactRevision
  for (const value of [
    0n,
    1n,
    127n,
    128n,
    2n ** 28n,
    2n ** 31n,
    2n ** 32n - 1n,
    2n ** 32n,
    2n ** 35n,
    2n ** 53n - 1n,
  ]) {
    t.equal(BigInt(revision(value)), value)
  }
  for (const value of [-1n, -128n, -(2n ** 31n), -(2n ** 32n), -(2n ** 53n - 1n)])
    t.equal(BigInt(revision(value)), value)
  for (const value of [2n ** 53n, 2n ** 62n, 2n ** 63n - 1n, -(2n ** 53n), -(2n ** 63n)]) {
    t.throws(() => revision(value), protocolError, String(value))
  }
  t.equal(watchDecoding(message(new BinaryWriter().tag(2, WireType.Varint).int64(-1))).whole().watchId, -1)
})

void t.test('every field of a watch answer is read, and unknown ones are skipped', async (t) => {
  const writer = new BinaryWriter()
  writer.tag(2, WireType.Varint).int64(9)
  writer.tag(3, WireType.Varint).bool(true)
  writer.tag(99, WireType.Varint).int64(-5)
  writer.tag(98, WireType.LengthDelimited).bytes(Buffer.alloc(300))
  writer.tag(97, WireType.Bit32).fixed32(7)
  writer.tag(96, WireType.Bit64).fixed64(7)
  writer.tag(4, WireType.Varint).bool(true)
  writer.tag(5, WireType.Varint).int64(1_234)
  writer.tag(6, WireType.LengthDelimited).string('because')
  t.same(watchDecoding(message(writer)).whole(), {
    headerRevision: 0,
    watchId: 9,
    created: true,
    canceled: true,
    compactRevision: 1_234,
    cancelReason: 'because',
    isFragment: false,
    batches: [],
  })
})

void t.test('a fragment of an answer is recognized, because it may end inside a revision', async (t) => {
  for (const isFragment of [true, false]) {
    const part = message(new BinaryWriter().tag(7, WireType.Varint).bool(isFragment))
    t.equal(watchDecoding(part).whole().isFragment, isFragment)
  }
})

void t.test('the events of an answer are put together by revision', async (t) => {
  const entryAt = (modRevision: number): Fields => ({ ...randomFields(seededRandom(1)), modRevision })
  for (const [what, revisions, expected] of [
    ['one event', [5], [[5]]],
    ['two of one revision', [5, 5], [[5, 5]]],
    ['several revisions', [5, 5, 6, 8, 8], [[5, 5], [6], [8, 8]]],
    ['nothing', [], []],
  ] as const) {
    const { batches } = watchDecoding(encodeWatch(revisions.map(entryAt), [])).whole()
    const revisionOf = (event: KeyEvent): number => (event.type === 'put' ? event.keyValue.modRevision : Number.NaN)
    t.same(
      batches.map(({ events }) => events.map(revisionOf)),
      expected,
      what,
    )
    t.ok(
      batches.every(({ revision, events }) => events.every((event) => revisionOf(event) === revision)),
      what,
    )
  }
})

void t.test('a message that is cut or garbled is a protocol error, and no other', async (t) => {
  const random = seededRandom(2)
  const whole = encodeWatch([randomFields(random), randomFields(random)], [false, true])
  let refused = 0
  const decode = (bytes: Buffer): void => {
    try {
      watchDecoding(bytes).whole()
      rangeDecoding(bytes).whole()
    } catch (error) {
      if (!(error instanceof UpstreamError) || error.code !== 'protocol') throw error
      refused++
    }
  }
  for (let end = 0; end < whole.length; end++) decode(whole.subarray(0, end))
  t.ok(refused > whole.length / 2, `${refused} cuts were refused`)
  refused = 0
  for (let i = 0; i < 3_000; i++) {
    const garbled = Buffer.from(whole)
    garbled[randomInteger(random, 0, whole.length - 1)] = randomInteger(random, 0, 255)
    decode(garbled)
  }
  t.ok(refused > 0)
  t.throws(() => watchDecoding(Buffer.alloc(12, 0xff)).whole(), protocolError)
})

void t.test('a small value does not keep its message alive', async (t) => {
  const small = { ...randomFields(seededRandom(3)), value: Buffer.alloc(100, 'a') }
  const large = { ...small, value: Buffer.alloc(1_000_000, 'b') }
  const both = encodeRange([small, large], 1, false, 2)
  const [first, second] = rangeDecoding(both).whole().keyValues
  t.not(first!.value.buffer, both.buffer)
  t.ok(first!.value.buffer.byteLength < 100_000)
  t.equal(second!.value.buffer, both.buffer, 'one that is most of it is not copied')
  t.ok(second!.value.equals(large.value))
  both.fill(0)
  t.ok(first!.value.equals(small.value))
})

void t.test('a large message is decoded in many parts, with the same result', async (t) => {
  const random = seededRandom(4)
  const entries = Array.from({ length: 2_000 }, () => ({ ...randomFields(random), value: Buffer.alloc(1_000, 'v') }))
  const answer = encodeRange(entries, 7, true, 2_000)
  const message = encodeWatch(
    entries,
    entries.map((_, i) => i % 3 === 0),
  )
  for (const [decoding, bytes] of [
    [rangeDecoding(answer), answer],
    [watchDecoding(message), message],
  ] as const) {
    const whole = bytes === answer ? rangeDecoding(bytes).whole() : watchDecoding(bytes).whole()
    let parts = 1
    while (decoding.part()) parts++
    t.ok(parts > bytes.length / 100_000, `${parts} parts of ${bytes.length} bytes`)
    t.same(decoding.result, whole)
  }
})

function randomFields(random: Random): Fields {
  const bytes = (most: number): Buffer =>
    Buffer.from(Array.from({ length: randomInteger(random, 0, most) }, () => randomInteger(random, 0, 255)))
  const number = (): number => Math.floor(random.next() * 2 ** randomInteger(random, 0, 53))
  return {
    key: bytes(40),
    createRevision: number(),
    modRevision: number(),
    version: number(),
    value: bytes(300),
    lease: random.next() < 0.5 ? 0n : (BigInt(number()) << 10n) + 7n,
  }
}

function writeKeyValue(writer: BinaryWriter, fields: Fields): void {
  writer.tag(1, WireType.LengthDelimited).bytes(fields.key)
  writer.tag(2, WireType.Varint).int64(fields.createRevision)
  writer.tag(3, WireType.Varint).int64(fields.modRevision)
  writer.tag(4, WireType.Varint).int64(fields.version)
  writer.tag(5, WireType.LengthDelimited).bytes(fields.value)
  if (fields.lease !== 0n) writer.tag(6, WireType.Varint).int64(fields.lease)
}

function encodeRange(entries: readonly Fields[], revision: number, more: boolean, count: number): Buffer {
  const writer = new BinaryWriter()
  writer.tag(1, WireType.LengthDelimited).fork()
  writer.tag(1, WireType.Varint).uint64(2n ** 64n - 1n)
  writer.tag(3, WireType.Varint).int64(revision)
  writer.join()
  for (const entry of entries) {
    writer.tag(2, WireType.LengthDelimited).fork()
    writeKeyValue(writer, entry)
    writer.join()
  }
  if (more) writer.tag(3, WireType.Varint).bool(true)
  return message(writer.tag(4, WireType.Varint).int64(count))
}

function encodeWatch(entries: readonly Fields[], deletes: readonly boolean[]): Buffer {
  const writer = new BinaryWriter()
  for (const [i, entry] of entries.entries()) {
    writer.tag(11, WireType.LengthDelimited).fork()
    if (deletes[i]) writer.tag(1, WireType.Varint).int32(1)
    writer.tag(2, WireType.LengthDelimited).fork()
    writeKeyValue(writer, entry)
    writer.join().join()
  }
  return message(writer)
}

function message(writer: BinaryWriter): Buffer {
  const bytes = writer.finish()
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

function plain({ key, value, ...rest }: ReturnType<typeof rangeDecoding>['result']['keyValues'][number]): object {
  return { key, value: value.toString('latin1'), ...rest }
}

function expected({ key, value, lease, ...rest }: Fields): object {
  return { key: key.toString('latin1'), value: value.toString('latin1'), ...rest, leaseId: lease.toString() }
}

import { Duplex } from 'node:stream'
import t from 'tap'
import { batchBytes, PAGE_BYTES, pagesOf, readBatches, readKeyValues } from '../../../src/fleet/key-value-codec.js'
import { decodeFrame, encodeFrame, frameSplitter, Link } from '../../../src/fleet/workers/link.js'
import { batchFrames, feedFrame } from '../../../src/fleet/workers/messages.js'
import { writeKeyValues } from '../../../src/fleet/key-value-codec.js'
import type { Batch, Key, KeyValue } from '../../../src/engine/model/event.js'
import type { Revision } from '../../../src/engine/model/revision.js'

function keyValue(name: string, value: string | Buffer, revision = 7): KeyValue {
  return {
    key: `/registry/${name}` as Key,
    value: Buffer.from(value),
    createRevision: 2 as Revision,
    modRevision: revision as Revision,
    version: 3,
    leaseId: '9223372036854775807',
  }
}

const big = Number.MAX_SAFE_INTEGER as Revision
const batches: readonly Batch[] = [
  { revision: 3 as Revision, events: [{ type: 'delete', key: '/registry/\u00ff\u0000' as Key }] },
  {
    revision: 7 as Revision,
    events: [
      { type: 'put', keyValue: keyValue('a', '') },
      { type: 'put', keyValue: keyValue('b', Buffer.from([0, 255, 10, 13])) },
      { type: 'delete', key: '/registry/c' as Key },
    ],
  },
  { revision: big, events: [{ type: 'put', keyValue: keyValue('z', 'x'.repeat(PAGE_BYTES), big) }] },
  { revision: big, events: [] },
]

void t.test('written frames can be read back, however they are chunked', (t) => {
  const page = [keyValue('p', Buffer.alloc(100_000, 7))]
  const frames = [
    encodeFrame({}),
    encodeFrame({ text: 'ä\u0000€', key: '\u00ff\u0000', big }),
    ...batchFrames(9, batches),
    feedFrame({ kind: 'page', feed: 3 }, (writer) => writeKeyValues(writer, page)),
  ]
  const stream = Buffer.concat(frames)
  const whole: Buffer[] = []
  frameSplitter((frame) => whole.push(frame)).push(stream)
  t.same(
    whole,
    frames.map((frame) => frame.subarray(4)),
  )
  for (const size of [1, 2, 3, 4, 5, 7, 64, 65_536, stream.length]) {
    const split: Buffer[] = []
    const splitter = frameSplitter((frame) => split.push(frame))
    for (let at = 0; at < stream.length; at += size) splitter.push(stream.subarray(at, at + size))
    t.ok(split.length === whole.length && split.every((frame, i) => frame.equals(whole[i]!)), `in chunks of ${size}`)
  }
  t.same(decodeFrame(whole[1]!).message, { text: 'ä\u0000€', key: '\u00ff\u0000', big })
  const { message, body } = decodeFrame(whole.at(-1)!)
  t.same(message, { kind: 'page', feed: 3 })
  t.same(readKeyValues(body), page)
  t.throws(() => body.byte(), RangeError)
  t.end()
})

void t.test('batches stay whole and in order, in frames of about a page', (t) => {
  const frames = [...batchFrames(9, batches)]
  t.equal(frames.length, 2, 'the large one ends a frame')
  const read: Batch[] = []
  for (const frame of frames) {
    const { message, body } = decodeFrame(frame.subarray(4))
    t.same(message, { kind: 'batches', feed: 9 })
    read.push(...readBatches(body))
  }
  t.same(read, batches)
  t.ok(batchBytes(batches[1]!) > 0)
  t.same([...batchFrames(9, [])], [])
  t.end()
})

void t.test('a state is split into pages, and none of them is empty', (t) => {
  const keyValues = Array.from({ length: 10 }, (_, i) => keyValue(`k${i}`, 'v'.repeat(PAGE_BYTES / 3)))
  const pages = [...pagesOf(keyValues)]
  t.same(
    pages.map((page) => page.length),
    [3, 3, 3, 1],
  )
  t.same(pages.flat(), keyValues)
  t.same([...pagesOf([])], [])
  t.end()
})

void t.test('bytes that are out of step are rejected at once', (t) => {
  const splitter = frameSplitter(() => t.fail('a frame'))
  t.throws(() => splitter.push(Buffer.from([0, 0, 0, 0, 1])), { message: 'invalid frame length: 0 bytes' })
  t.throws(() => splitter.push(Buffer.from([255, 255, 255, 255, 1])), RangeError)
  t.throws(() => decodeFrame(Buffer.from([0, 0, 0, 200, 5])), { message: '200 bytes needed, but only 1 left' })
  t.end()
})

/** Returns one end of a link, and the responses that the other end would read. */
function answering(list: (name: string) => Iterable<KeyValue>) {
  const received: Buffer[] = []
  /** A write is only done when the other end reads. */
  let read = (): void => {}
  const socket = new Duplex({
    writableHighWaterMark: 1,
    read: () => {},
    write: (chunk: Buffer, _encoding, done) => {
      received.push(chunk)
      read = done
    },
  })
  const link = new Link<{ kind: string }, { list(name: string): null }, never>({
    socket,
    onMessage: () => {
      throw new Error('a bug')
    },
    onBug: (error) => bugs.push(error),
    onClosed: (reason) => (closed = reason),
    handlers: { list: async (_signal, name) => ({ value: null, keyValues: list(name) }) },
  })
  let closed: Error | null = null
  const bugs: unknown[] = []
  const tell = async (message: object): Promise<void> => {
    socket.push(encodeFrame(message))
    await new Promise((resolve) => setImmediate(resolve))
  }
  const takeAll = async (): Promise<void> => {
    for (let before = -1; before < received.length;) {
      before = received.length
      read()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const parts = (): number[] =>
    received
      .map((frame) => decodeFrame(frame.subarray(4)).message as { kind: string; id: number })
      .map(({ kind, id }) => (kind === 'part' ? id : -id))
  return { link, tell, takeAll, parts, received, bugs, closed: () => closed }
}

function pages(count: number): KeyValue[] {
  return Array.from({ length: count }, (_, i) => keyValue(`k${i}`, 'v'.repeat(2 ** 21)))
}

void t.test('large answers share the link in turns, and go before whole states', async (t) => {
  const h = answering(() => pages(3))
  for (const id of [1, 2]) await h.tell({ kind: 'ask', id, method: 'list', args: ['x'] })
  h.link.sendAll([encodeFrame({ kind: 'part', id: 9 })][Symbol.iterator]())
  await h.takeAll()
  t.same(h.parts(), [1, 1, 2, 1, 2, -1, 2, -2, 9])
  t.end()
})

void t.test('a cancelled answer stops reading its source', async (t) => {
  let read = 0
  const h = answering(function* () {
    for (const one of pages(10)) {
      read++
      yield one
    }
  })
  await h.tell({ kind: 'ask', id: 1, method: 'list', args: ['x'] })
  await h.tell({ kind: 'cancel', id: 1 })
  await h.takeAll()
  t.ok(read <= 2, `${read} were read`)
})

void t.test('a small answer takes up little memory', async (t) => {
  const h = answering(() => [keyValue('small', 'v')])
  await h.tell({ kind: 'ask', id: 1, method: 'list', args: ['x'] })
  await h.takeAll()
  t.same(h.parts(), [1, -1])
  t.ok(h.received[0]!.buffer.byteLength < 1_000, `${h.received[0]!.buffer.byteLength} bytes`)
})

void t.test('a bug in a handler is reported with its stack; in a message handler it also ends the link', async (t) => {
  const h = answering(() => {
    throw new Error('another bug')
  })
  await h.tell({ kind: 'ask', id: 1, method: 'list', args: ['x'] })
  t.match(h.bugs, [{ message: 'another bug', stack: /link\.test/ }])
  t.equal(h.closed(), null)
  const { message } = decodeFrame(h.received[0]!.subarray(4))
  t.match(message, { kind: 'failed', id: 1, failure: { code: 'unavailable', message: 'another bug' } })
  await h.tell({ kind: 'anything' })
  t.match(h.bugs[1], { message: 'a bug', stack: /link\.test/ })
  t.match(h.closed(), { message: 'a message could not be processed: a bug' })
})

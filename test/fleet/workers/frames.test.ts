import t from 'tap'
import { FrameReader, FrameSplitter, FrameWriter } from '../../../src/fleet/workers/frames.js'
import { batchFrames, PAGE_BYTES, pagesOf, readBatches, ToWorker } from '../../../src/fleet/workers/messages.js'
import { batchBytes } from '../../../src/fleet/key-value-codec.js'
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
  const frames = [
    new FrameWriter(1).done(),
    new FrameWriter(2, 0).text('ä\u0000€').key('\u00ff\u0000').number(big).count(4_294_967_295).byte(255).done(),
    ...batchFrames(9, batches),
    new FrameWriter(3).bytes(Buffer.alloc(100_000, 7)).done(),
  ]
  const stream = Buffer.concat(frames)
  const whole: Buffer[] = []
  new FrameSplitter().push(stream, (frame) => whole.push(frame))
  t.same(
    whole,
    frames.map((frame) => frame.subarray(4)),
  )
  for (const size of [1, 2, 3, 4, 5, 7, 64, 65_536, stream.length]) {
    const split: Buffer[] = []
    const splitter = new FrameSplitter()
    for (let at = 0; at < stream.length; at += size) {
      splitter.push(stream.subarray(at, at + size), (frame) => split.push(frame))
    }
    t.ok(split.length === whole.length && split.every((frame, i) => frame.equals(whole[i]!)), `in chunks of ${size}`)
  }
  const reader = new FrameReader(whole[1]!)
  t.same([reader.type, reader.text(), reader.key()], [2, 'ä\u0000€', '\u00ff\u0000'])
  t.same([reader.number(), reader.count(), reader.byte()], [big, 4_294_967_295, 255])
  t.throws(() => reader.byte(), RangeError)
  t.end()
})

void t.test('batches stay whole and in order, in frames of about a page', (t) => {
  const frames = [...batchFrames(9, batches)]
  t.equal(frames.length, 2, 'the large one ends a frame')
  const read: Batch[] = []
  for (const frame of frames) {
    const reader = new FrameReader(frame.subarray(4))
    t.equal(reader.type, ToWorker.batches)
    t.equal(reader.count(), 9)
    read.push(...readBatches(reader))
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
  const splitter = new FrameSplitter()
  t.throws(() => splitter.push(Buffer.from([0, 0, 0, 0, 1]), () => {}), { message: 'a frame of 0 bytes' })
  t.throws(() => new FrameSplitter().push(Buffer.from([255, 255, 255, 255, 1]), () => {}), RangeError)
  const reader = new FrameReader(Buffer.from([1, 200, 0, 0, 0, 5]))
  t.throws(() => reader.bytes(), { message: '200 bytes needed, but only 1 left' })
  t.end()
})

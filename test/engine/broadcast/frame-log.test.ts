import t from 'tap'
import { FrameLog } from '../../../src/engine/broadcast/frame-log.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { rev } from '../../support/objects.js'

/** Appends one revision of `length` bytes, all with the revision's value. */
function append(log: FrameLog, revision: number, length: number, events = 1): void {
  const half = length >> 1
  const frames = [Buffer.alloc(half, revision % 251), Buffer.alloc(length - half, revision % 251)]
  log.append(rev(revision), frames, length, events)
}

/** Reads everything from `offset` to the head, as a cursor does. */
function readAll(
  log: FrameLog,
  offset: number,
  head: number,
): { sizes: number[]; revisions: number[]; events: number } {
  const sizes: number[] = []
  const revisions: number[] = []
  let events = 0
  for (let at = offset; at < log.endOffset;) {
    const slice = log.sliceFrom(at, rev(head))
    if (slice.endOffset - at !== slice.bytes.length) throw new Error('bytes and offsets disagree')
    sizes.push(slice.bytes.length)
    revisions.push(slice.revision)
    events += slice.events
    at = slice.endOffset
  }
  return { sizes, revisions, events }
}

void t.test('an empty log is at its floor', (t) => {
  const log = new FrameLog(rev(7))
  t.equal(log.floorRevision, 7)
  t.equal(log.startOffset, log.endOffset)
  t.equal(log.offsetAfter(rev(7)), log.endOffset)
  t.equal(log.offsetAfter(rev(99)), log.endOffset)
  t.throws(() => log.offsetAfter(rev(6)), RangeError)
  t.equal(log.capacity, 0)
  t.end()
})

void t.test('revisions and offsets map to each other', (t) => {
  const log = new FrameLog(rev(7))
  append(log, 10, 100)
  append(log, 12, 50)
  append(log, 20, 30)
  const cases: [revision: number, offset: number][] = [
    [7, 0],
    [9, 0],
    [10, 100],
    [11, 100],
    [12, 150],
    [19, 150],
    [20, 180],
    [21, 180],
  ]
  for (const [revision, offset] of cases) t.equal(log.offsetAfter(rev(revision)), offset, `after ${revision}`)
  const back: [offset: number, revision: number][] = [
    [0, 9],
    [100, 11],
    [150, 19],
    [180, 33],
  ]
  for (const [offset, revision] of back) t.equal(log.revisionAt(offset, rev(33)), revision, `at ${offset}`)
  t.end()
})

void t.test('everything up to the head is one slice, shared by all cursors at one offset', (t) => {
  const log = new FrameLog(rev(7))
  append(log, 10, 100, 2)
  append(log, 12, 50, 3)
  const slice = log.sliceFrom(0, rev(15))
  t.match(slice, { endOffset: 150, revision: 15, events: 5 })
  t.equal(log.sliceFrom(0, rev(15)), slice)
  t.match(log.sliceFrom(100, rev(15)), { endOffset: 150, revision: 15, events: 3 })
  t.equal(log.sliceFrom(100, rev(15)).bytes.buffer, slice.bytes.buffer, 'no copy')
  t.end()
})

void t.test('no slice ends inside a revision, whatever the cap and the segments', (t) => {
  const log = new FrameLog(rev(0))
  const ends = new Map<number, number>()
  const random = seededRandom(5)
  for (let revision = 1; revision <= 3_000; revision++) {
    append(log, revision, randomInteger(random, 1, revision % 100 === 0 ? 300_000 : 700))
    ends.set(log.endOffset, revision)
  }
  for (let at = 0; at < log.endOffset;) {
    const { bytes, endOffset, revision } = log.sliceFrom(at, rev(3_000))
    if (ends.get(endOffset) !== revision) t.fail(`a slice ends at ${endOffset} and says ${revision}`)
    // The bytes are those of its revisions, in order.
    if (bytes[bytes.length - 1] !== revision % 251) t.fail(`the last byte up to ${revision} is another's`)
    at = endOffset
  }
  t.ok(readAll(log, 0, 3_000).sizes.length > 10)
  t.equal(readAll(log, 0, 3_000).events, 3_000)
  t.end()
})

void t.test('a revision larger than the cap is one slice', (t) => {
  const log = new FrameLog(rev(0))
  append(log, 1, 10)
  append(log, 2, 1_000_000)
  append(log, 3, 10)
  t.same(readAll(log, 0, 9).revisions.at(-1), 9)
  t.ok(readAll(log, 0, 9).sizes.includes(1_000_000))
  t.end()
})

void t.test('bytes that a socket holds never change', (t) => {
  const log = new FrameLog(rev(0))
  append(log, 1, 1_000)
  const { bytes } = log.sliceFrom(0, rev(1))
  const copy = Buffer.from(bytes)
  for (let revision = 2; revision < 200; revision++) append(log, revision, 1_000)
  log.trim(log.offsetKeeping(0))
  log.release(rev(200))
  for (let revision = 201; revision < 300; revision++) append(log, revision, 1_000)
  t.ok(bytes.equals(copy))
  t.end()
})

void t.test('trimming frees the segments before an offset, and the floor is the last revision freed', (t) => {
  const log = new FrameLog(rev(0))
  for (let revision = 1; revision <= 20; revision++) append(log, revision, 500)
  const before = readAll(log, 0, 20)
  const newest = log.offsetKeeping(0)
  log.trim(newest)
  t.equal(log.startOffset, newest)
  t.ok(log.floorRevision > 0 && log.floorRevision < 20)
  t.equal(log.offsetAfter(log.floorRevision), log.startOffset)
  t.throws(() => log.offsetAfter(rev(log.floorRevision - 1)), RangeError)
  t.equal(readAll(log, log.startOffset, 20).events, 20 - log.floorRevision)
  t.equal(before.events, 20)
  t.equal(log.revisionAt(log.startOffset, rev(20)), log.floorRevision)
  const { capacity } = log
  log.trim(log.endOffset)
  t.equal(log.capacity, capacity, 'one segment stays')
  t.end()
})

void t.test('trimming keeps the segment that contains the offset, and counts what is left', (t) => {
  const usage = { bytes: 0 }
  const log = new FrameLog(rev(0), usage)
  for (let revision = 1; revision <= 2_000; revision++) append(log, revision, 1_000)
  const whole = log.capacity
  const keeping = log.offsetKeeping(whole / 2)
  t.ok(keeping > 0 && keeping < log.endOffset)
  log.trim(keeping + 1)
  t.equal(log.startOffset, keeping)
  t.ok(log.capacity <= whole / 2)
  t.equal(usage.bytes, log.capacity)
  t.equal(readAll(log, keeping, 2_000).events, 2_000 - log.floorRevision)
  t.equal(log.offsetKeeping(whole), keeping, 'everything')
  t.end()
})

void t.test('a released log starts over at the head; offsets continue', (t) => {
  const log = new FrameLog(rev(0))
  append(log, 1, 100)
  log.release(rev(5))
  t.equal(log.capacity, 0)
  t.equal(log.floorRevision, 5)
  t.equal(log.startOffset, 100)
  t.equal(log.endOffset, 100)
  append(log, 8, 50)
  t.equal(log.offsetAfter(rev(5)), 100)
  t.match(log.sliceFrom(100, rev(8)), { endOffset: 150, events: 1 })
  t.end()
})

void t.test('a quiet log holds little, a busy one grows in larger steps, and all are counted together', (t) => {
  const usage = { bytes: 0 }
  const logs = [new FrameLog(rev(0), usage), new FrameLog(rev(0), usage)]
  append(logs[0]!, 1, 100)
  t.ok(usage.bytes <= 2_048, 'one small event')
  for (let revision = 2; revision < 2_000; revision++) append(logs[0]!, revision, 1_000)
  append(logs[1]!, 1, 100)
  t.equal(usage.bytes, logs[0]!.capacity + logs[1]!.capacity)
  t.ok(logs[0]!.capacity < 2_000_000 * 1.3, 'a quarter more than is in it at the most')
  logs[0]!.trim(logs[0]!.offsetKeeping(0))
  t.equal(usage.bytes, logs[0]!.capacity + logs[1]!.capacity)
  logs[0]!.reset(rev(9_000))
  logs[1]!.release(rev(9_000))
  t.equal(usage.bytes, 0)
  for (let revision = 9_001; revision < 9_020; revision++) {
    append(logs[0]!, revision, 100)
    logs[0]!.release(rev(revision))
  }
  append(logs[0]!, 9_100, 100)
  t.ok(usage.bytes <= 2_048, 'small steps again when it keeps up')
  t.end()
})

void t.test('passes of the same size take one write each, once the segment has grown to it', (t) => {
  for (const events of [2, 3, 5, 10, 50]) {
    const log = new FrameLog(rev(1))
    const writes: number[] = []
    let revision = 1
    for (let pass = 0; pass < 20; pass++) {
      const offset = log.endOffset
      for (let i = 0; i < events; i++) append(log, ++revision, 1_100)
      writes.push(readAll(log, offset, revision).sizes.length)
      log.release(rev(revision))
    }
    t.same([...new Set(writes.slice(10))], [1], `${events} events: ${writes.join(' ')}`)
  }
  t.end()
})

void t.test('cursors alternating between two offsets get the same slices', (t) => {
  const log = new FrameLog(rev(1))
  for (let revision = 2; revision <= 400; revision++) append(log, revision, 1_000)
  const first = log.sliceFrom(0, rev(400))
  const second = log.sliceFrom(first.endOffset, rev(400))
  t.equal(log.sliceFrom(0, rev(400)), first)
  t.equal(log.sliceFrom(first.endOffset, rev(400)), second)
  append(log, 401, 1_000)
  t.equal(log.sliceFrom(0, rev(401)), first, 'what was cut stays as it is')
  t.end()
})

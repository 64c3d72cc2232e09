import t from 'tap'
import { Cursor } from '../../src/broadcast/cursor.js'
import { FactRegistry } from '../../src/broadcast/fact-registry.js'
import { Group } from '../../src/broadcast/group.js'
import { Matcher } from '../../src/broadcast/matcher.js'
import { EVERYTHING } from '../../src/dialect/selector.js'
import { ServiceUnavailableError } from '../../src/model/status.js'
import { lineWire, plainEncoder, rev } from '../support/objects.js'
import { TestSink } from './harness.js'

function setUp(revision = 10) {
  const matcher = new Matcher('', EVERYTHING, new FactRegistry(() => null), 'v1')
  const group = new Group<Cursor>('1', matcher, plainEncoder, lineWire, rev(10), { bytes: 0 })
  const asked: string[] = []
  const owner = {
    wake: () => asked.push('wake'),
    finish: () => asked.push('finish'),
    count: (events: number) => asked.push(`count ${events}`),
  }
  const callbacks = {
    identity: 'ann',
    bookmarks: true,
    deadlineMs: 1e9,
    pace: () => 0,
    onInitialComplete: () => {},
    onEnd: () => {},
  }
  const sink = new TestSink()
  const cursor = new Cursor(owner, group, sink, callbacks, rev(revision))
  const membersOf = () => ({ active: group.members.active.length, parked: group.members.parked.size })
  return { group, cursor, sink, asked, membersOf }
}

void t.test('a cursor stands among the active ones of its group exactly while it is active', (t) => {
  const { cursor, group, membersOf } = setUp()
  t.same(membersOf(), { active: 0, parked: 0 })
  cursor.lag()
  cursor.park()
  t.same(membersOf(), { active: 0, parked: 1 })
  t.ok(cursor.isAtHead)
  cursor.unpark(rev(10))
  cursor.join()
  t.same(membersOf(), { active: 1, parked: 0 })
  t.equal(cursor.slot, 0)
  t.ok(cursor.isAtHead)
  group.log.append(rev(11), [Buffer.from('x')], 1, 1)
  t.notOk(cursor.isAtHead)
  cursor.lagFromLog(rev(11))
  t.equal(cursor.state, 'lagging')
  t.equal(cursor.revision, 10, 'everything before the first frame it lacks')
  t.same(membersOf(), { active: 0, parked: 0 })
  t.end()
})

void t.test('a cursor that ends in any state leaves nothing in its group, and ends once', (t) => {
  const ways: Readonly<Record<string, (cursor: Cursor) => void>> = {
    starting: () => {},
    waiting: (cursor) => cursor.wait(),
    lagging: (cursor) => cursor.lag(),
    parked: (cursor) => {
      cursor.lag()
      cursor.park()
    },
    active: (cursor) => {
      cursor.lag()
      cursor.join()
    },
    ending: (cursor) => {
      cursor.lag()
      cursor.join()
      cursor.endSoon({ error: new ServiceUnavailableError('over'), reason: 'error' })
    },
  }
  for (const [name, bring] of Object.entries(ways)) {
    const { cursor, membersOf } = setUp()
    bring(cursor)
    t.ok(cursor.end(), name)
    t.equal(cursor.state, 'ended', name)
    t.same(membersOf(), { active: 0, parked: 0 }, name)
    t.notOk(cursor.end(), `${name}: a second time`)
  }
  t.end()
})

void t.test('a cursor counts all bytes that it hands to its connection', (t) => {
  const { cursor, group } = setUp()
  cursor.lag()
  cursor.join()
  t.equal(cursor.sentBytes, 0)
  group.log.append(rev(11), [Buffer.from('event')], 1, 1)
  cursor.writeLog(rev(11))
  t.equal(cursor.sentBytes, 5)
  cursor.writeBookmark(rev(12))
  t.ok(cursor.sentBytes > 5, 'bookmarks too')
  t.end()
})

void t.test('a full socket stops the writing, and its drain wakes the cursor once', (t) => {
  const { cursor, group, sink, asked } = setUp()
  cursor.lag()
  cursor.join()
  asked.length = 0
  group.log.append(rev(11), [Buffer.from('x')], 1, 1)
  sink.isFull = true
  cursor.writeLog(rev(11))
  t.ok(cursor.isBlocked)
  cursor.writeLog(rev(11))
  t.equal(sink.writes.length, 1, 'nothing more while it is full')
  cursor.drained()
  cursor.drained()
  t.same(asked, ['count 1', 'wake'])
  t.equal(cursor.revision, 11)
  t.end()
})

void t.test('an ended cursor is not woken by its socket', (t) => {
  const { cursor, sink, asked } = setUp()
  cursor.lag()
  sink.isFull = true
  cursor.write({ bytes: Buffer.from('x'), checksum: null })
  cursor.end()
  asked.length = 0
  cursor.drained()
  t.same(asked, [])
  t.end()
})

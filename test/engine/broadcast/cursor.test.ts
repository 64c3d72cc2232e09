import assert from 'node:assert/strict'
import t from 'tap'
import { Cursor } from '../../../src/engine/broadcast/cursor.js'
import { FactRegistry } from '../../../src/engine/broadcast/fact-registry.js'
import { Group } from '../../../src/engine/broadcast/group.js'
import { Matcher } from '../../../src/engine/broadcast/matcher.js'
import { Store } from '../../../src/engine/cache/store.js'
import { EVERYTHING } from '../../support/parse-selector.js'
import { factSource } from '../../support/fact-source.js'
import type { Key } from '../../../src/engine/model/event.js'
import { UnservedError } from '../../../src/engine/model/errors.js'
import { lineWire, plainEncoder, rev } from '../../support/objects.js'
import { TestOutput } from './harness.js'

function setUp(revision = 10) {
  const matcher = new Matcher('', EVERYTHING, new FactRegistry(factSource()), 'v1')
  const group = new Group<Cursor>('1', matcher, plainEncoder, lineWire, rev(10), { bytes: 0 })
  const asked: string[] = []
  const owner = {
    headRevision: rev(revision),
    floorRevision: rev(revision),
    wake: () => asked.push('wake'),
    finish: () => asked.push('finish'),
    count: (events: number) => asked.push(`count ${events}`),
  }
  const callbacks = {
    identity: 'ann',
    bookmarks: true,
    deadlineMs: 1e9,
    onInitialComplete: () => {},
    onEnd: () => {},
  }
  const output = new TestOutput()
  const cursor = new Cursor(owner, group, output, callbacks, rev(revision))
  const membersOf = () => ({ active: group.members.active.length, parked: group.members.parked.size })
  return { owner, group, cursor, output, asked, membersOf }
}

const EMPTY = new Store().snapshot(rev(10), 0)

void t.test('a cursor is among its group’s active members exactly while it is active', (t) => {
  const { cursor, group, membersOf } = setUp()
  t.same(membersOf(), { active: 0, parked: 0 })
  cursor.lag()
  cursor.park()
  t.same(membersOf(), { active: 0, parked: 1 })
  t.ok(cursor.isAtHead)
  cursor.unpark(rev(10))
  cursor.join()
  t.same(membersOf(), { active: 1, parked: 0 })
  t.ok(cursor.isAtHead)
  group.log.append(rev(11), [Buffer.from('x')], 1, 1)
  t.notOk(cursor.isAtHead)
  cursor.lagFromLog(rev(11))
  t.equal(cursor.state, 'lagging')
  t.equal(cursor.revision, 10, 'everything before the first frame it lacks')
  t.same(membersOf(), { active: 0, parked: 0 })
  t.end()
})

/** Every operation on a cursor, to be combined in any order. */
const MOVES: Readonly<Record<string, (cursor: Cursor) => void>> = {
  beginInitial: (cursor) => cursor.beginInitial(cursor.group.initialFrames(EMPTY, '' as Key, null, 0), false, 0),
  completeInitial: (cursor) => cursor.completeInitial(),
  wait: (cursor) => cursor.wait(),
  lag: (cursor) => cursor.lag(),
  join: (cursor) => cursor.join(),
  endSoon: (cursor) => cursor.endSoon({ error: new UnservedError('over', 0), reason: 'error' }),
  end: (cursor) => void cursor.end(),
}

/** A cursor after these moves; null when the last of them makes no sense after the others. */
function after(moves: readonly string[]): ReturnType<typeof setUp> | null {
  const made = setUp()
  for (const [i, move] of moves.entries()) {
    const before = { state: made.cursor.state, members: made.membersOf() }
    try {
      MOVES[move]!(made.cursor)
    } catch (error) {
      if (i < moves.length - 1 || !(error instanceof RangeError)) throw error
      const { cursor, membersOf } = made
      assert.deepEqual({ state: cursor.state, members: membersOf() }, before, `${moves.join(', ')} changes nothing`)
      return null
    }
  }
  return made
}

void t.test('any sequence of operations leaves a cursor at its place in its group', (t) => {
  const reached = new Set<string>()
  let sequences: (readonly string[])[] = [[]]
  for (let length = 0; length <= 6; length++) {
    for (const moves of sequences) {
      const name = moves.join(', ')
      const { cursor, group, membersOf } = after(moves)!
      reached.add(cursor.state)
      assert.equal(membersOf().active, cursor.state === 'active' ? 1 : 0, `${name}: in the log while it is active`)
      assert.equal(cursor.initial !== null, cursor.state === 'initial', `${name}: it holds a state while that is sent`)
      // A watcher that skips the ring would miss what arrived while its state was sent, or before its revision existed.
      const joined = moves.lastIndexOf('join')
      if (joined !== -1) assert.equal(moves[joined - 1], 'lag', `${name}: only the ring leads into the log`)
      const over = moves.findIndex((move) => move === 'endSoon' || move === 'end')
      if (over !== -1)
        assert.ok(
          moves.slice(over + 1).every((move) => move === 'end'),
          `${name}: no way back`,
        )
      const hasEnded = moves.includes('end')
      assert.equal(cursor.state === 'ended', hasEnded, `${name}: it has ended, or still can`)
      assert.equal(cursor.end(), !hasEnded, `${name}: it ends once`)
      assert.deepEqual(membersOf(), { active: 0, parked: 0 }, `${name}: its end leaves nothing in the group`)
      const fresh = group.initialFrames(EMPTY, '' as Key, null, 0)
      assert.equal(fresh.users, 1, `${name}: nor a hold on a state`)
    }
    sequences = sequences.flatMap((moves) =>
      Object.keys(MOVES)
        .map((move) => [...moves, move])
        .filter((longer) => after(longer) !== null),
    )
  }
  t.equal(reached.size, 7, `every state is reached: ${[...reached].join(', ')}`)
  t.end()
})

void t.test('a parked cursor that ends is removed from its group', (t) => {
  const { cursor, membersOf } = setUp()
  cursor.lag()
  cursor.park()
  t.ok(cursor.end())
  t.same(membersOf(), { active: 0, parked: 0 })
  t.end()
})

void t.test('a cursor counts all bytes that it writes to its connection', (t) => {
  const { owner, cursor, group } = setUp()
  cursor.lag()
  cursor.join()
  t.equal(cursor.sentBytes, 0)
  group.log.append(rev(11), [Buffer.from('event')], 5, 1)
  cursor.writeLog()
  t.equal(cursor.sentBytes, 5)
  owner.headRevision = rev(12)
  cursor.showLife('bookmark')
  t.ok(cursor.sentBytes > 5, 'bookmarks too')
  t.end()
})

void t.test('a full socket stops the writing, and its drain wakes the cursor once', (t) => {
  const { owner, cursor, group, output, asked } = setUp()
  owner.headRevision = rev(11)
  cursor.lag()
  cursor.join()
  asked.length = 0
  group.log.append(rev(11), [Buffer.from('x')], 1, 1)
  output.isFull = true
  cursor.writeLog()
  t.ok(cursor.isBlocked)
  cursor.writeLog()
  t.equal(output.writes.length, 1, 'nothing more while it is full')
  cursor.drained()
  cursor.drained()
  t.same(asked, ['count 1', 'wake'])
  t.equal(cursor.revision, 11)
  t.end()
})

void t.test('an ended cursor is not woken by its socket', (t) => {
  const { cursor, output, asked } = setUp()
  cursor.lag()
  output.isFull = true
  cursor.write({ bytes: Buffer.from('x'), checksum: null })
  cursor.end()
  asked.length = 0
  cursor.drained()
  t.same(asked, [])
  t.end()
})

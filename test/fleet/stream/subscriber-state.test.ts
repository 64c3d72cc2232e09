import t from 'tap'
import { toRevision } from '../../../src/engine/model/revision.js'
import {
  chainBegan,
  chainBroke,
  chooseStart,
  foundStream,
  goesOn,
  isCurrent,
  NOTHING_READ,
  sinkIsAt,
  type Start,
  startAtState,
  type SubscriberState,
} from '../../../src/fleet/stream/subscriber-state.js'
import type { SnapshotEntry } from '../../../src/fleet/stream/snapshot-store.js'
import { batch, put } from '../../support/objects.js'

const OPTIONS = { refillMessages: 10, onGap: 'expire' } as const

/** A snapshot at this message, at ten times that revision. */
function at(sequence: number): SnapshotEntry {
  const revision = toRevision(sequence * 10)
  const rest = { epoch: 1, clusterId: 'c', keys: 0, isSynced: true, trustsProgress: true }
  return { name: `s${sequence}`, sequence, revision, settled: revision, ...rest }
}

function textOf(start: Start): string {
  return start.kind === 'wait'
    ? 'wait'
    : `${start.kind} ${start.entry.name}${start.kind === 'load' ? ` ${start.reason}` : ''}`
}

const held = (position: number, clusterId: string | null = 'c', isFromEtcd = false) => ({
  position: toRevision(position),
  clusterId,
  isFromEtcd,
  isRelisted: false,
})

void t.test('a sink never skips history without notice, and keeps a state that the stream continues', async (t) => {
  const stream = { first: 11, last: 40 }
  const rows: readonly [string, Partial<SubscriberState>, readonly number[], ReturnType<typeof held> | null, string][] =
    [
      ['nothing is held: as much history as is kept', {}, [10, 32, 39], null, 'load s32 initial'],
      ['nothing is held, and all snapshots are old', {}, [10, 20], null, 'load s20 initial'],
      ['the stream has discarded what follows the snapshot', {}, [9], null, 'wait'],
      ['the snapshot is of a later stream', {}, [41], null, 'wait'],
      ['held before the first snapshot', {}, [20, 30], held(150), 'load s30 gap'],
      ['held between two snapshots', {}, [20, 30], held(250), 'bridge s20'],
      ['held beyond all snapshots', {}, [20, 30], held(999), 'bridge s30'],
      ['from another etcd', {}, [20, 30], held(250, 'other'), 'load s30 history-changed'],
      ['from an etcd that is not known', {}, [20, 30], held(250, null), 'bridge s20'],
      ['the chain broke before the newest', { brokenAt: 25 }, [20, 30], held(250), 'load s30 gap'],
      ['the chain broke, and the newest is older than what is held', { brokenAt: 25 }, [20, 30], held(999), 'wait'],
      ['the chain broke, but etcd feeds the sink', { brokenAt: 25 }, [20, 30], held(999, 'c', true), 'bridge s30'],
      [
        'etcd feeds a sink that the stream has left behind',
        { brokenAt: 25 },
        [20, 30],
        held(250, 'c', true),
        'load s30 gap',
      ],
      ['the chain broke after every snapshot', { brokenAt: 35 }, [20, 30], held(250), 'wait'],
      [
        'the stream has another history',
        { brokenAt: 25, isOtherHistory: true },
        [30],
        held(999),
        'load s30 history-changed',
      ],
      ['… and was recreated since', { isOtherHistory: true }, [30], held(999), 'load s30 history-changed'],
    ]
  for (const [name, state, snapshots, holds, expected] of rows) {
    t.equal(
      textOf(chooseStart({ ...NOTHING_READ, ...state }, stream, snapshots.map(at), holds, OPTIONS)),
      expected,
      name,
    )
  }
  const coalescing = chooseStart(NOTHING_READ, stream, [at(30)], held(150), { ...OPTIONS, onGap: 'coalesce' })
  t.equal(textOf(coalescing), 'load s30 coalesce')
})

void t.test('a state in the stream is a gap only for a sink that has not reached it', async (t) => {
  const { name: snapshot, keys: _, sequence, ...entry } = at(20)
  const header = { previous: toRevision(150), sentAt: 0 }
  const rows = [
    ['gap', null, 'load s20 initial'],
    ['gap', held(150), 'load s20 gap'],
    ['gap', held(200), 'bridge s20'],
    ['gap', held(200, 'other'), 'load s20 history-changed'],
    ['coalesce', held(150), 'load s20 coalesce'],
    ['history-changed', held(150), 'load s20 history-changed'],
    ['history-changed', held(250), 'load s20 history-changed'],
  ] as const
  for (const [reason, holds, expected] of rows) {
    const start = startAtState({ kind: 'state', snapshot, reason, ...header, ...entry }, sequence, holds)
    t.equal(textOf(start), expected, `${reason}, held: ${JSON.stringify(holds)}`)
  }
})

void t.test('a message that does not follow is reread five times, and then the chain is broken there', async (t) => {
  const end = { kind: 'broken', reason: 'follows another', sequence: 7, isMisplaced: true } as const
  let state = NOTHING_READ
  for (let i = 0; i < 5; i++) {
    const doubted = chainBroke(state, end)
    t.equal(doubted.kind, 'doubted')
    state = doubted.state
  }
  t.equal(chainBroke(state, { ...end, sequence: 8 }).kind, 'doubted', 'another message is reread as often')
  const last = chainBroke(state, end)
  t.match(last, { kind: 'broken', state: { brokenAt: 7, isOtherHistory: false } })
  t.equal(chainBroke(last.state, { ...end, sequence: 9 }).kind, 'broken', 'until a snapshot is loaded')
  const other = chainBroke(NOTHING_READ, { ...end, isOtherHistory: true })
  t.match(other, { kind: 'broken', state: { isOtherHistory: true } }, 'another history is not read again')
})

void t.test(
  'a chain goes on in the same stream, and must contain what etcd brought the sink in the meantime',
  async (t) => {
    const stream = { created: 'today', first: 11, last: 40 }
    const begun = chainBegan(foundStream(NOTHING_READ, stream), at(30), null)
    const { revision, clusterId } = begun.chain!
    const held = { position: revision, clusterId, isFromEtcd: true, isRelisted: false }
    t.ok(goesOn(begun, stream, held))
    t.notOk(goesOn(begun, { first: 32, last: 40 }, held), 'a message after it was discarded')
    t.notOk(goesOn(begun, { first: 11, last: 29 }, held), 'it was lost')
    t.notOk(goesOn(begun, stream, { ...held, clusterId: 'other' }), 'the sink is of another cluster')
    const earlier = { ...held, position: toRevision(revision - 1) }
    t.notOk(goesOn(begun, stream, earlier), 'etcd was restored, and has fed the sink since')
    t.ok(goesOn(begun, stream, { ...earlier, isFromEtcd: false }), 'the sink has yet to hear of progress')
    t.notOk(goesOn(begun, stream, { ...held, isRelisted: true }), 'etcd has replaced what came before')
    const later = batch(310, put('a', '1', 310))
    t.equal(sinkIsAt(begun, later).chain?.expected, later)
    t.equal(sinkIsAt(begun, batch(290, put('a', '1', 290))).chain?.expected, null, 'the chain is past it')
    const recreated = foundStream({ ...begun, brokenAt: 7, refused: 8 }, { created: 'tomorrow', last: 2 })
    t.match(recreated, { chain: null, brokenAt: 0, refused: 0, target: 2 })
  },
)

void t.test('reads are answered once everything has arrived that the stream had at first', async (t) => {
  const begun = chainBegan({ ...NOTHING_READ, target: 31 }, at(30), null)
  t.notOk(isCurrent(begun))
  t.ok(isCurrent({ ...begun, target: 30 }))
  t.ok(isCurrent({ ...begun, refused: 31 }), 'the last message is forged')
  t.notOk(isCurrent(chainBegan({ ...begun, refused: 31 }, at(20), null)), 'it is read again from further back')
  t.notOk(isCurrent(chainBegan({ ...NOTHING_READ, target: 30 }, { ...at(30), isSynced: false }, null)))
})

/**
 * Issue 57: a quiet watch shows a sign of life, also where the watcher is ahead of the cache, because etcd's progress
 * cannot be trusted and a list has proved the cache current at a later revision.
 */
import { drain } from '../../../src/engine/broadcast/endings.js'
import t from 'tap'
import { Pump } from '../../../src/engine/broadcast/pump.js'
import type { WireFormat } from '../../../src/engine/broadcast/wire-format.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import { batch, lineWire, podKeyValue, put, rev } from '../../support/objects.js'
import { createHarness, never, type Watcher } from './harness.js'

/** Like SSE: the mark is a position where that has moved, and otherwise nothing but a sign of life. */
const markedWire: WireFormat = {
  ...lineWire,
  key: 'marked lines',
  mark: {
    frame: (revision) => Buffer.from(`MARK - {"metadata":{"resourceVersion":"${revision ?? 'unmoved'}"}}\n`),
    hasPosition: true,
    everyMs: 25_000,
  },
}
/** Like a WebSocket: the mark only keeps the connection open. */
const pingedWire: WireFormat = { ...markedWire, key: 'pinged', mark: { ...markedWire.mark!, hasPosition: false } }

/** Gives cursors no turn while it holds. */
class HoldingPump extends Pump {
  isHolding = false
  readonly #held: Parameters<Pump['enqueueCursor']>[] = []

  constructor() {
    super({ dispatchMs: 60_000, unslicedGroups: 0, metrics: { slice: () => {} } })
  }

  override enqueueCursor(...queued: Parameters<Pump['enqueueCursor']>): void {
    if (this.isHolding) this.#held.push(queued)
    else super.enqueueCursor(...queued)
  }

  letGo(): void {
    this.isHolding = false
    for (const queued of this.#held.splice(0)) this.enqueueCursor(...queued)
  }
}

function harness(currentRevision: () => Promise<Revision> = never) {
  const readState = () => Promise.resolve({ revision: rev(12), keyValues: [] })
  const h = createHarness({ revision: 10, freshness: { trustsProgress: false, currentRevision, readState } })
  /** An initial state at revision 12, which a list has read from the source. */
  const ahead = async () => ({
    kind: 'initial' as const,
    snapshot: await h.cache.reads.consistentSnapshot(),
    minRevision: null,
    marksEnd: true,
  })
  const pass = async (ms: number): Promise<void> => {
    await h.clock.advanceInTurns(ms, 250)
    await h.settle()
  }
  return { ...h, ahead, pass }
}

const now = { kind: 'reached', revision: rev(12) } as const

const counted = ({ seen }: Watcher): Record<string, number> =>
  Object.fromEntries([...new Set(seen)].map((one) => [one, seen.filter((other) => other === one).length]))

void t.test('a watcher ahead of the cache gets its own position again at each interval', async (t) => {
  const { watch, pass, cache, apply } = harness()
  const [json, plain, initial] = [
    watch({ start: now, bookmarks: true }),
    watch({ start: now }),
    watch({
      start: { kind: 'initial', snapshot: cache.snapshot(), minRevision: null, marksEnd: true },
      bookmarks: true,
    }),
  ]
  await pass(180_000)
  t.same(counted(json), { 'BOOKMARK @12': 3 })
  t.same(plain.seen, [], 'only those who asked')
  t.same(counted(initial), { 'INITIAL-END @10': 1, 'BOOKMARK @10': 3 })
  t.equal(cache.revision, 10, 'the position of the cache does not move')
  await apply(batch(11, put('x', 'a', 11)))
  t.same(initial.seen.at(-1), 'ADDED a@11', 'an event below the position that the list proved')
  await apply(batch(13, put('x', 'b', 13)))
  t.same([json.seen.at(-1), plain.seen.at(-1)], ['ADDED b@13', 'ADDED b@13'])
  await pass(60_000)
  t.same(json.seen.at(-1), 'BOOKMARK @13')
})

void t.test('a watcher with an initial state newer than the cache continues at that state', async (t) => {
  const { watch, pass, ahead, apply } = harness()
  const watcher = watch({ start: await ahead(), bookmarks: true })
  await pass(125_000)
  t.same(counted(watcher), { 'INITIAL-END @12': 1, 'BOOKMARK @12': 2 })
  await apply(batch(11, put('x', 'a', 11)), batch(13, put('x', 'b', 13)))
  t.equal(watcher.seen.at(-1), 'ADDED b@13')
  t.notOk(watcher.seen.includes('ADDED a@11'), 'the state contained it')
})

void t.test('while it is undecided whether a revision exists, only marks are sent, without a position', async (t) => {
  let answer = (_revision: Revision): void => {}
  const { watch, pass } = harness(() => new Promise((resolve) => (answer = resolve)))
  const watchers = [watch({ start: 12, bookmarks: true }), watch({ start: 12, bookmarks: true, wire: markedWire })]
  await pass(100_000)
  t.same(watchers[0]!.seen, [])
  t.same(counted(watchers[1]!), { 'MARK @unmoved': 4 }, 'one in place of the bookmark')
  answer(rev(12))
  await pass(60_000)
  t.ok(watchers[0]!.seen.length > 0)
  t.same(new Set(watchers[0]!.seen), new Set(['BOOKMARK @12']))
})

void t.test('a mark carries a position only where that has moved', async (t) => {
  const { watch, pass, apply, cache } = harness()
  const watcher = watch({ start: 10, wire: markedWire })
  await pass(60_000)
  t.same(watcher.seen, ['MARK @unmoved', 'MARK @unmoved'], 'the client has named this position itself')
  await apply(batch(11, put('x', 'a', 11)))
  await pass(25_000)
  t.same(watcher.seen.slice(2), ['ADDED a@11', 'MARK @unmoved'], 'the event was the position')
  cache.progress(rev(20))
  await pass(50_000)
  t.same(watcher.seen.slice(4), ['MARK @20', 'MARK @unmoved'])
})

void t.test('a mark follows an initial state, with its position', async (t) => {
  const { watch, pass, ahead } = harness()
  const watcher = watch({ start: { ...(await ahead()), marksEnd: false }, wire: markedWire })
  await pass(50_000)
  t.same(watcher.seen, ['MARK @12', 'MARK @unmoved', 'MARK @unmoved'])
})

void t.test('a client that asked for bookmarks gets a position as a bookmark, and marks between', async (t) => {
  const { watch, pass, cache } = harness()
  const watcher = watch({ start: 10, wire: markedWire, bookmarks: true })
  await pass(30_000)
  cache.progress(rev(20))
  await pass(60_000)
  t.equal(watcher.seen.filter((seen) => seen === 'BOOKMARK @20').length, 1)
  await pass(120_000)
  t.equal(counted(watcher)['BOOKMARK @20'], 3, 'an unmoved position comes again, as pages see no marks')
  const pinged = watch({ start: 20, wire: pingedWire, bookmarks: true })
  await pass(120_000)
  t.equal(counted(pinged)['BOOKMARK @20'], 2, 'where a mark has no position, the bookmark comes again')
})

void t.test('an initial state that waits shows no position before its end', async (t) => {
  const pump = new HoldingPump()
  const h = createHarness({ revision: 10, objects: [podKeyValue('x', 'a', 10)], pump })
  const start = { kind: 'initial', snapshot: h.cache.snapshot(), minRevision: null, marksEnd: true } as const
  const watchers = [lineWire, markedWire].map((wire) => h.watch({ start, bookmarks: true, wire }))
  // The socket takes the first unit, and then there is no turn for the rest.
  for (const { output } of watchers) output.isFull = true
  await h.settle()
  pump.isHolding = true
  for (const watcher of watchers) watcher.drain()
  await h.clock.advanceInTurns(90_000, 250)
  t.same(watchers[0]!.seen, ['ADDED a@10'])
  t.same(new Set(watchers[1]!.seen), new Set(['ADDED a@10', 'MARK @unmoved']))
  pump.letGo()
  await h.settle()
  t.ok(watchers.every(({ seen }) => seen.includes('INITIAL-END @10')))
})

void t.test('a short watch and a drained one learn the position of a watcher ahead of the cache', async (t) => {
  const { watch, settle } = harness()
  const short = watch({ start: now, bookmarks: true, timeoutMs: 1_000 })
  const drained = watch({ start: now, bookmarks: true })
  await settle()
  t.same(short.seen, ['BOOKMARK @12'])
  drain(drained.cursor)
  t.same(drained.seen, ['BOOKMARK @12'])
})

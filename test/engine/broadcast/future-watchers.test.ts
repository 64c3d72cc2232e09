/**
 * A watch from a revision that the cache has not reached: it continues if etcd has the revision, and ends if etcd never
 * had it.
 */
import { drain } from '../../../src/engine/broadcast/endings.js'
import t from 'tap'
import type { Revision } from '../../../src/engine/model/revision.js'
import { batch, put, rev } from '../../support/objects.js'
import { createHarness, type HarnessOptions } from './harness.js'

/** A source whose reads the test answers, one at a time. */
function harness(options: HarnessOptions = {}) {
  const reads: { answer: (revision: number) => Promise<void>; fail: () => Promise<void> }[] = []
  let progressRequests = 0
  const h = createHarness({
    revision: 10,
    ...options,
    freshness: {
      currentRevision: () =>
        new Promise<Revision>((resolve, reject) => {
          reads.push({
            answer: (revision) => (resolve(rev(revision)), h.settle()),
            fail: () => (reject(new Error('nobody answers')), h.settle()),
          })
        }),
      requestProgress: () => progressRequests++,
      ...options.freshness,
    },
  })
  return {
    ...h,
    reads,
    progressRequests: () => progressRequests,
    pass: (ms: number) => h.clock.advanceInTurns(ms, 50),
  }
}

void t.test('a revision that etcd never had ends the watch with 410, without a bookmark before', async (t) => {
  const { watch, reads, ended, settle, pass, clock } = harness()
  const idle = clock.pending
  const watcher = watch({ start: 100_000, bookmarks: true })
  await settle()
  t.same(watcher.seen, [], 'before etcd has answered')
  await reads[0]!.answer(10)
  t.same(watcher.seen, ['ERROR 410'])
  t.match(watcher.output.events[0]!.object, {
    reason: 'Expired',
    message: 'resource version 100000 has never existed here: the storage is at 10',
    details: { causes: [{ reason: 'ResourceVersionTooLarge' }] },
  })
  t.same(ended, ['too-large'])
  await pass(30_000)
  t.equal(reads.length, 1, 'nothing is asked again')
  t.equal(clock.pending, idle)
})

void t.test('a revision beyond the safe integers gets an error that says so', async (t) => {
  const { watch, reads, settle } = harness()
  const watcher = watch({ start: Number.MAX_SAFE_INTEGER })
  await settle()
  await reads[0]!.answer(10)
  t.match(watcher.output.events[0]!.object, {
    message: 'resource version 9007199254740991 or above has never existed here: the storage is at 10',
  })
})

void t.test('a cache behind etcd never denies a revision that etcd has had', async (t) => {
  const { watch, reads, apply, cache, settle, progressRequests } = harness()
  const [event, progress] = [watch({ start: 20 }), watch({ start: 30, bookmarks: true })]
  await settle()
  await reads[0]!.answer(30)
  t.equal(progressRequests(), 1, 'progress is asked for, which is all that a quiet resource gets')
  t.same([event.seen, progress.seen], [[], []])
  await apply(batch(21, put('x', 'a', 21)))
  t.same(event.seen, ['ADDED a@21'])
  cache.progress(rev(30))
  await settle()
  await apply(batch(31, put('x', 'a', 31)))
  t.same(progress.seen, ['MODIFIED a@31'], 'and nothing from before its revision')
})

void t.test('a read decides only about watches that were there when it started', async (t) => {
  const { watch, reads, settle, pass } = harness()
  const first = watch({ start: 20 })
  await settle()
  const second = watch({ start: 20 })
  await settle()
  t.equal(reads.length, 1)
  // The second client may have learned of revision 20 after the read was served.
  await reads[0]!.answer(15)
  t.same([first.seen, second.seen], [['ERROR 410'], []])
  await pass(200)
  await reads[1]!.answer(20)
  t.same(second.seen, [], 'it waits for the cache')
})

void t.test(
  'while etcd does not answer, a watch stays open without bookmarks, and is decided at the next answer',
  async (t) => {
    const { watch, reads, pass, settle, cache } = harness()
    const watchers = [watch({ start: 20, bookmarks: true }), watch({ start: 12, bookmarks: true })]
    for (let s = 0; s < 180; s++) {
      await reads.at(-1)!.fail()
      await pass(1_000)
    }
    t.equal(reads.length, 181, 'somebody is asked once a second')
    t.same(
      watchers.map(({ seen }) => seen),
      [[], []],
    )
    await reads.at(-1)!.answer(12)
    await settle()
    t.same(
      watchers.map(({ seen }) => seen),
      [['ERROR 410'], ['BOOKMARK @12']],
      'with the bookmark that was due meanwhile',
    )
    cache.progress(rev(12))
    await pass(60_000)
    t.same(new Set(watchers[1]!.seen), new Set(['BOOKMARK @12']))
  },
)

void t.test('a source that is behind the cache decides about no watch', async (t) => {
  const { watch, reads, pass, settle } = harness()
  const watcher = watch({ start: 20 })
  await settle()
  await reads[0]!.answer(9)
  t.same(watcher.seen, [])
  await pass(1_000)
  await reads[1]!.answer(10)
  t.same(watcher.seen, ['ERROR 410'])
})

void t.test('however many clients ask for such revisions, etcd is read five times a second', async (t) => {
  let reads = 0
  const { watch, clock, ended } = createHarness({
    revision: 10,
    freshness: { currentRevision: () => (reads++, Promise.resolve(rev(10))) },
  })
  for (let ms = 0; ms < 10_000; ms += 10) {
    for (let i = 0; i < 5; i++) watch({ start: 1_000 + i })
    await clock.advanceInTurns(10, 10)
  }
  await clock.advanceInTurns(400, 50)
  t.equal(ended.length, 5_000)
  t.ok(reads <= 10 * 5 + 2, `${reads} reads`)
})

void t.test('a watch that waits for the cache ends when etcd is restored in the meantime', async (t) => {
  // The cache is at 10, before the restored revision, and has no reason to doubt its history.
  const { watch, reads, pass, settle } = harness()
  const watcher = watch({ start: 20 })
  await settle()
  await reads[0]!.answer(25)
  await pass(30_000)
  await reads[1]!.answer(12)
  t.same(watcher.seen, ['ERROR 410'])
})

void t.test('watches that end during a read leave no memory behind', async (t) => {
  const { watch, reads, pass, dispatcher, clock } = harness()
  const idle = clock.pending
  const [gone, drained] = [watch({ start: 20 }), watch({ start: 20, bookmarks: true })]
  gone.cursor.closed()
  drain(drained.cursor)
  await reads[0]!.answer(10)
  await pass(30_000)
  t.equal(reads.length, 1)
  t.same([gone.seen, drained.seen], [[], []], 'no last bookmark, which would claim that it is at its revision')
  t.equal(dispatcher.watchers, 0)
  t.equal(clock.pending, idle)
})

import t from 'tap'
import { ProgressCoalescer } from '../../../src/fleet/stream/progress-coalescer.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { VirtualClock } from '../../support/virtual-clock.js'

void t.test('of a thousand progresses at once two are passed on: the first, and later the newest', async (t) => {
  const clock = new VirtualClock()
  const told: number[] = []
  const progress = new ProgressCoalescer(clock, (revision) => told.push(revision))
  for (let revision = 1; revision <= 1_000; revision++) progress.offer(toRevision(revision))
  t.same(told, [1])
  clock.advance(50)
  t.same(told, [1, 1_000])
  clock.advance(10_000)
  progress.offer(toRevision(1_000))
  progress.offer(toRevision(999))
  t.same(told, [1, 1_000], 'progress that was already sent is not sent again')
  progress.offer(toRevision(1_001))
  t.same(told, [1, 1_000, 1_001], 'after a pause nothing waits')
})

void t.test('events supersede waiting progress, and so does a state', async (t) => {
  const clock = new VirtualClock()
  const told: number[] = []
  const progress = new ProgressCoalescer(clock, (revision) => told.push(revision))
  progress.offer(toRevision(10))
  progress.offer(toRevision(12))
  progress.reached(toRevision(13))
  clock.advance(50)
  t.same(told, [10])
  progress.offer(toRevision(14))
  clock.advance(1)
  progress.offer(toRevision(20))
  progress.reset(toRevision(5))
  clock.advance(1_000)
  t.same(told, [10, 14], 'what waited is of the history before')
  progress.offer(toRevision(6))
  t.same(told, [10, 14, 6])
  progress.offer(toRevision(7))
  progress.stop()
  clock.advance(1_000)
  t.same(told, [10, 14, 6])
})

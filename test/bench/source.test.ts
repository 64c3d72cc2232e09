import t from 'tap'
import { type EventSource, type RunOptions, writeAll } from '../../bench/support/source.js'

/** A source that writes at most this many events in one run. */
function sourceOf(most: number): EventSource {
  return {
    run: async ({ count }: RunOptions) => ({ first: 7, next: 7 + Math.min(count, most), failed: 0, seconds: 1 }),
    end: async () => {},
  }
}

void t.test('a scene whose objects were not all written in time is not measured', async (t) => {
  const { next } = await writeAll(sourceOf(100), 100, 1_000)
  t.equal(next, 107)
  await t.rejects(writeAll(sourceOf(99), 100, 1_000), { message: 'only 99 of 100 events were written in 1000 ms' })
})

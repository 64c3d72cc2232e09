/**
 * Checks what every watcher receives, whatever happens to it and around it, against a plain model
 * (`random-history.ts`).
 */
import t from 'tap'
import { runHistory } from '../random-history.js'
import { testSeeds } from '../../../support/test-seeds.js'

void t.test('every watcher receives exactly the events after its start, or a prefix and an explicit end', async (t) => {
  const sums = { watchers: 0, events: 0, bookmarks: 0, expired: 0, stuck: 0, completed: 0 }
  for (const seed of testSeeds(40)) {
    const { violations, ...counts } = await runHistory({ seed })
    for (const [what, count] of Object.entries(counts)) sums[what as keyof typeof sums] += count
    if (violations.length > 0) t.fail(`seed ${seed}`, { found: violations.slice(0, 10) })
  }
  t.comment(JSON.stringify(sums))
  // The histories must reach every case that they are meant to cover.
  for (const [what, count] of Object.entries(sums)) t.ok(count > 0, `${what}: ${count}`)
})

/**
 * What every watcher is told, whatever happens to it and around it, held against a plain model (`random-history.ts`).
 *
 * `BROADCAST_SEED` names the first seed, `BROADCAST_RUNS` how many follow each other.
 */
import t from 'tap'
import { runHistory } from '../random-history.js'

const firstSeed = Number(process.env['BROADCAST_SEED'] ?? 1)
const runs = Number(process.env['BROADCAST_RUNS'] ?? 40)

void t.test('every watcher receives exactly the events after its start, or a prefix and an explicit end', async (t) => {
  const fresh = Math.floor(Math.random() * 2 ** 31)
  const seeds = [...Array.from({ length: runs }, (_, i) => firstSeed + i), fresh]
  const sums = { watchers: 0, events: 0, bookmarks: 0, expired: 0, stuck: 0, completed: 0 }
  for (const seed of seeds) {
    const { violations, ...counts } = await runHistory({ seed })
    for (const [what, count] of Object.entries(counts)) sums[what as keyof typeof sums] += count
    if (violations.length > 0) t.fail(`seed ${seed}`, { found: violations.slice(0, 10) })
  }
  t.comment(`fresh seed ${fresh}; ${JSON.stringify(sums)}`)
  // The histories must reach what they are about.
  for (const [what, count] of Object.entries(sums)) t.ok(count > 0, `${what}: ${count}`)
})

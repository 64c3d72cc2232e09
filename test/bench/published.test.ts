/** Published loads: the table has both figures with the source, and a small run of one load is exact. */
import t from 'tap'
import { PUBLISHED, type PublishedName, publishedNames, publishedTable } from '../../bench/support/published-rows.js'
import { bench } from '../support/bench.js'

const row = (load: PublishedName, more: object) => ({
  question: 'published',
  subject: 'distributary',
  wire: 'http1',
  load,
  scale: 1,
  ...more,
})
const tableOf = (...rows: ReturnType<typeof row>[]): string[] =>
  publishedTable(rows, ({ subject }) => subject, String)
    .split('\n')
    .slice(2)

void t.test('each line has the source, their figures and ours', (t) => {
  for (const load of publishedNames) {
    const [line = ''] = tableOf(row(load, {}))
    const { source, url, theirs, what } = PUBLISHED[load]
    t.match(line, `| ${what} | [${source}](${url}): ${theirs} | distributary | `)
  }
  const [line] = tableOf(row('large-objects', { ofJson: 1.5, peakOfJson: 2 }))
  t.match(line, '5.2 × their JSON | distributary | 1.5 × their JSON, at the most 2 × |')
  t.end()
})

void t.test('a part of a load says its size, and a failure says what failed', (t) => {
  const lines = tableOf(
    row('large-objects', { ofJson: 1.5, peakOfJson: 2, scale: 0.1 }),
    row('browsers', { failed: 'a process may open\n1,024 files' }),
  )
  t.match(lines[0], '(at 0.1 of the size) |')
  t.match(lines[1], '| failed: a process may open 1,024 files |')
  t.end()
})

void t.test('watchers that stall for a while are not ended', { timeout: 120_000 }, async (t) => {
  const flags = ['--quick', '--scale', '0.004', '--subjects', 'terminated-watchers']
  const [measured] = await bench('published', ...flags)
  t.match(measured, { load: 'terminated-watchers', watchers: 20, stalled: 1, ended: 0, listedAgain: 0, scale: 0.004 })
})

void t.test('an unknown load is an error', async (t) => {
  await t.rejects(bench('published', '--subjects', 'nobody'), /no load nobody; there are initial-states, /)
})

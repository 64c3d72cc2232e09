import { existsSync } from 'node:fs'
import t from 'tap'
import { withCapacity, withLoads } from './capacity.js'
import { clientExports } from './client-reference.js'
import { generated } from './generate.js'
import { countedLimits, limitRows, metricOf, testsOf } from './limits-page.js'
import { readText, root } from './repository.js'
import { LIMITS } from '../../src/server/limits/limit.js'

void t.test('every generated page and schema is up to date', async (t) => {
  for (const [path, content] of await generated()) {
    t.ok(existsSync(root + path), path)
    t.equal(readText(path) === content, true, `${path}: npm run generate`)
  }
})

void t.test('the tests and metrics of each limit exist, and each counted limit has a row', (t) => {
  const metrics = readText('docs/reference/metrics.md')
  for (const row of limitRows) {
    t.ok(row.tests.length > 0, row.bound)
    for (const path of testsOf(row)) t.ok(existsSync(root + path), `${row.bound}: ${path}`)
    t.ok(metrics.includes(metricOf(row)), `${row.bound}: ${metricOf(row)}`)
  }
  t.same(new Set(countedLimits()), new Set(LIMITS))
  t.end()
})

void t.test('every name that the client exports is documented', (t) => {
  const all = clientExports()
  t.ok(all.some(({ name, kind }) => name === 'SharedInformer' && kind === 'class'))
  t.same(
    all.filter(({ doc }) => doc === '').map(({ name }) => name),
    [],
  )
  t.end()
})

void t.test('the capacity table shows the newest complete run, and leaves out rows without measurements', async (t) => {
  const row = (fields: object): string =>
    JSON.stringify({ question: 'memory', subject: 'distributary', wire: 'http1', quick: false, ...fields })
  const rows = [
    row({ run: '2', kbPerIdleWatcher: 11.26, kbPerWatcherAfterEvents: 12 }),
    row({ run: '1', kbPerIdleWatcher: 99 }),
    row({ run: '3', quick: true, kbPerIdleWatcher: 1 }),
    row({ run: '4', failed: 'no', kbPerIdleWatcher: 2 }),
    row({ run: '5', subject: 'etcd', kbPerIdleWatcher: 3 }),
    row({ run: '1', question: 'objects', bytesPerObject: 1_040 }),
  ].join('\n')
  const page = withCapacity(readText('docs/guide/operations.md'), rows)
  t.match(page, '| HTTP/1.1 | 11.3 | 12 | – |')
  t.notMatch(page, '| WebSocket |')
  t.match(page, 'without history: 1.02 KB.')
  t.equal(withCapacity(page, rows), page, 'and it can be made again')
})

void t.test('the table of loads has the newest complete run of each paced load, lightest first', (t) => {
  const row = (fields: object): string =>
    JSON.stringify({ question: 'fanout', subject: 'distributary', wire: 'http1', quick: false, rate: 20, ...fields })
  const rows = [
    row({ run: '1', watchers: 5_000, rate: 5, serverBusy: 0.5, p99Ms: 60 }),
    row({ run: '2', watchers: 1_000, serverBusy: 0.25, deliveriesPerSecond: 19_999, residentMb: 140, p99Ms: 13.61 }),
    row({ run: '1', watchers: 1_000, serverBusy: 0.9 }),
    row({ run: '3', watchers: 1_000, serverBusy: 0.1, quick: true }),
    row({ run: '3', watchers: 1_000, serverBusy: 0.1, subject: 'etcd' }),
    row({ run: '3', watchers: 1_000, serverBusy: 0.1, rate: null }),
  ].join('\n')
  const page = withLoads(readText('README.md'), rows)
  const table = page.split('\n').filter((line) => / \| HTTP\/1\.1 \| /.test(line))
  t.same(table, [
    '| 1,000 | 20 | HTTP/1.1 | 19,999 | 0.25 | 140 | 13.6 |',
    '| 5,000 | 5 | HTTP/1.1 | – | 0.5 | – | 60 |',
  ])
  t.equal(withLoads(page, rows), page, 'and it can be made again')
  t.end()
})

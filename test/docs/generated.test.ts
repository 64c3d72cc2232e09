import { existsSync } from 'node:fs'
import t from 'tap'
import { withCapacity } from './capacity.js'
import { generated, readText, root } from './generate.js'

void t.test('every generated page and schema is up to date', async (t) => {
  for (const [path, content] of await generated()) {
    t.ok(existsSync(root + path), path)
    t.equal(readText(path) === content, true, `${path}: npm run generate`)
  }
})

void t.test('the capacity table shows the newest complete run, and says what was never measured', async (t) => {
  const row = (fields: object): string =>
    JSON.stringify({ question: 'memory', subject: 'distributary', wire: 'http1', quick: false, ...fields })
  const rows = [
    row({ run: '2', kbPerIdleWatcher: 11.26, kbPerWatcherAfterEvents: 12 }),
    row({ run: '1', kbPerIdleWatcher: 99 }),
    row({ run: '3', quick: true, kbPerIdleWatcher: 1 }),
    row({ run: '4', failed: 'no', kbPerIdleWatcher: 2 }),
    row({ run: '5', subject: 'etcd', kbPerIdleWatcher: 3 }),
    row({ run: '1', question: 'list', objects: 10_000, residentMb: 150 }),
    row({ run: '1', question: 'list', objects: 110_000, residentMb: 250 }),
  ].join('\n')
  const page = withCapacity(readText('docs/operations.md'), rows)
  t.match(page, '| HTTP/1.1 | 11.3 | 12 | not measured yet |')
  t.match(page, '| WebSocket | not measured yet |')
  t.match(page, 'history apart: 1.02 KB.')
  t.equal(withCapacity(page, rows), page, 'and it can be made again')
})

/** The quick fan-out benchmark, end to end with a real etcd: its rows have their shape, and every delivery is exact. */
import t from 'tap'
import { bench } from '../support/bench.js'

const WATCHERS = 20
const subjects = ['limit/http1', 'bare-node/http1', 'etcd/grpc', 'etcd/json-gateway', 'distributary/http1']

void t.test('a quick fan-out gives one exact row for each subject and load', { timeout: 120_000 }, async (t) => {
  const flags = ['--quick', '--seconds', '1', '--watchers', String(WATCHERS), '--rate', '20,saturated']
  const rows = await bench('fanout', ...flags, '--subjects', subjects.join(','))
  t.equal(rows.length, subjects.length * 2)
  for (const row of rows) {
    const name = `${String(row['subject'])}/${String(row['wire'])} ${String(row['load'])}`
    t.match(row, { question: 'fanout', watchers: WATCHERS, missing: 0, repeated: 0, quick: true }, name)
    t.equal(row['deliveries'], Number(row['events']) * WATCHERS, `${name}: each watcher has each event once`)
    t.ok(Number(row['events']) > 0, `${name}: events, fewer than asked for where the machine is slow`)
    t.ok(Number(row['p50Ms']) > 0 && Number(row['p50Ms']) <= Number(row['p99Ms']), `${name}: delays`)
    t.ok(Number(row['p99Ms']) <= Number(row['maxMs']), `${name}: no percentile above the highest`)
    t.ok(Number(row['bytesPerDelivery']) > 1024, `${name}: whole objects`)
    for (const fact of ['run', 'commit', 'node', 'etcd', 'cpu', 'kernel'])
      t.type(row[fact], 'string', `${name}: ${fact}`)
  }
  t.same(new Set(rows.map((row) => row['run'])).size, 1, 'all rows belong to one run')
})

void t.test('a missing subject is an error', async (t) => {
  await t.rejects(bench('fanout', '--quick', '--subjects', 'nobody'), /no subject nobody/)
})

/**
 * The quick benchmark of etcd's own protocol, end to end with a real etcd: every delivery is exact, and what the
 * watchers cost etcd is compared with what they cost it directly.
 */
import t from 'tap'
import { ofDirectEtcdCpu } from '../../bench/targets.js'
import { hasOpenssl } from '../../bench/support/native.js'
import type { Row } from '../../bench/support/record.js'
import { bench } from '../support/bench.js'

const WATCHERS = 10
const wires = hasOpenssl() ? ['grpc', 'grpc-tls'] : ['grpc']
const subjects = ['etcd', 'grpc-proxy', 'distributary'].flatMap((name) => wires.map((wire) => `${name}/${wire}`))

void t.test('a quick run gives one exact row for each subject and load', { timeout: 120_000 }, async (t) => {
  const flags = ['--quick', '--seconds', '1', '--watchers', String(WATCHERS), '--rate', '20,saturated']
  const rows = await bench('etcd-api', ...flags, '--subjects', subjects.join(','))
  t.equal(rows.length, subjects.length * 2)
  for (const row of rows) {
    const name = `${String(row['subject'])}/${String(row['wire'])} ${String(row['load'])}`
    t.match(row, { question: 'etcd-api', watchers: WATCHERS, missing: 0, repeated: 0, resource: 'values' }, name)
    t.equal(row['deliveries'], Number(row['events']) * WATCHERS, `${name}: each watcher has each event once`)
    t.ok(Number(row['events']) > 0, `${name}: events`)
    t.ok(Number(row['bytesPerDelivery']) > 1024, `${name}: whole values`)
    t.type(row['etcdCpuMicrosPerEvent'], 'number', `${name}: etcd's own CPU`)
    const isAloneMeasured = row['subject'] === 'etcd' && row['load'] === 'paced'
    t.equal(row['etcdCpuMicrosPerEventAlone'] !== null, isAloneMeasured, `${name}: the writes alone`)
  }
})

void t.test('the memory of a value is measured with and without', { timeout: 180_000 }, async (t) => {
  const rows = await bench('objects', '--quick', '--subjects', 'values,values-etcd-api')
  t.same(
    rows.map(({ subject }) => subject),
    ['values', 'values-etcd-api'],
  )
  for (const row of rows) t.ok(Number(row['bytesPerObject']) > 1024, String(row['subject']))
})

void t.test("etcd's CPU for the watchers leaves out the writes, and is compared at the same load", (t) => {
  const row = (subject: string, rate: number, cpu: number, alone: number | null = null): Row => ({
    question: 'etcd-api',
    subject,
    wire: 'grpc',
    watchers: 1_000,
    rate,
    etcdCpuMicrosPerEvent: cpu,
    etcdCpuMicrosPerEventAlone: alone,
  })
  const ours = row('distributary', 20, 600)
  const rows = [row('etcd', 0, 9_000), row('etcd', 20, 4_500, 500), ours]
  t.equal(ofDirectEtcdCpu(ours, rows), 100 / 4_000)
  t.equal(ofDirectEtcdCpu(row('distributary', 20, 400), rows), 0, 'less than without watchers is nothing')
  t.equal(ofDirectEtcdCpu(row('distributary', 0, 600), rows), undefined, 'the writes alone were not measured')
  t.equal(ofDirectEtcdCpu(rows[1]!, rows), undefined)
  t.end()
})

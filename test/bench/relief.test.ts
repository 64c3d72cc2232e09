/**
 * The quick `relief`, end to end with a real control plane: both phases of each arrangement are measured, and every
 * delivery is exact.
 */
import t from 'tap'
import { firstFault, type OwedChange } from '../../bench/support/owed.js'
import { bucketsOf, quantileBetween, sumOf } from '../../bench/support/histograms.js'
import { bench } from '../support/bench.js'
import { buildEtcd } from '../etcd/versions.js'
import { buildControlPlane, buildKwok } from '../reference/programs.js'
import { NoProgramError } from '../support/go-program.js'

/** Why the bench cannot run here without building for half an hour; false when it can. */
function missing(): string | false {
  const now = performance.now()
  try {
    buildEtcd('3.7', now)
    buildControlPlane(now)
    buildKwok(now)
    return false
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    return error.message
  }
}

void t.test(
  'each arrangement is measured, and the agents come back after a restart of the API server',
  { skip: missing(), timeout: 600_000 },
  async (t) => {
    const rows = await bench('relief', '--quick', '--subjects', 'distributary')
    const phases = rows.map((row) => `${String(row['arrangement'])} ${String(row['phase'])}`)
    t.same(
      phases,
      ['alone', 'sidecar', 'upstream'].flatMap((arrangement) => [`${arrangement} steady`, `${arrangement} storm`]),
    )
    for (const [i, row] of rows.entries()) {
      t.ok(Number(row['apiServerCores']) > 0, `${phases[i]}: CPU`)
      t.ok(Number(row['apiServerPeakMb']) > 50, `${phases[i]}: memory`)
      t.equal('oursCores' in row, row['arrangement'] !== 'alone', `${phases[i]}: our own figures where we run`)
      if (row['phase'] === 'storm') {
        t.ok(Number(row['liveMs']) > 0, `${phases[i]}: all watches are live`)
      } else {
        t.ok(Number(row['deliveries']) > 0, `${phases[i]}: deliveries`)
        t.ok(Number(row['apiServerP99Ms']) > 0 && Number(row['etcdP99Ms']) > 0, `${phases[i]}: latencies`)
      }
    }
    t.equal(rows[3]?.['relisted'], 0, 'at a sidecar no watch lists again after a restart of the API server')
  },
)

void t.test('a watch that lacks a change, or has one twice, out of order or of another node, is found', (t) => {
  const changes: readonly OwedChange[] = [
    { revision: 11, key: 'a', isDelete: false, watch: 0, node: 'n0' },
    { revision: 12, key: 's', isDelete: false, watch: 1, node: null },
    { revision: 13, key: 'a', isDelete: false, watch: 0, node: 'n0' },
    { revision: 14, key: 'b', isDelete: false, watch: 0, node: 'n1' },
  ]
  const owing = { after: [10, 10, 10, 10], until: 14 }
  const fault = (pods: readonly number[], listed: number | null = null): string | null =>
    firstFault(
      [pods, [12], [], []].map((versions, i) => ({ listed: i === 0 ? listed : null, versions })),
      changes,
      owing,
    )
  t.equal(fault([11, 13]), null)
  t.equal(fault([11, 13, 15]), null, 'later changes are not compared')
  t.equal(fault([13], 12), null, 'after a list, only what follows it is owed')
  t.equal(fault([13], 11), null)
  for (const wrong of [[], [11], [13], [13, 11], [11, 11, 13], [11, 13, 13], [11, 13, 14]])
    t.type(fault(wrong), 'string', JSON.stringify(wrong))
  t.type(fault([11, 13], 12), 'string', 'a change from before the list')
  t.end()
})

void t.test('where a difference may stand for changes, the last version of each object is owed', (t) => {
  const put = { isDelete: false, watch: 0, node: 'n0' }
  const changes: readonly OwedChange[] = [
    { ...put, revision: 11, key: 'a' },
    { ...put, revision: 12, key: 'b' },
    { ...put, revision: 13, key: 'a' },
    { ...put, revision: 14, key: 'c', isDelete: true },
  ]
  const fault = (versions: readonly number[]): string | null =>
    firstFault([{ listed: null, versions }], changes, { after: [10, 10, 10, 10], until: 20, coalesces: true })
  for (const right of [
    [11, 12, 13, 14],
    [12, 13],
    [12, 13, 17],
    [11, 12, 13, 17],
  ])
    t.equal(fault(right), null, JSON.stringify(right))
  for (const wrong of [[11, 12], [13], [13, 12], [12, 12, 13], [12, 13, 13], [12, 13, 16, 17], []])
    t.type(fault(wrong), 'string', JSON.stringify(wrong))
  t.end()
})

void t.test('quantiles are interpolated between two readings, over the series that count', (t) => {
  const text = (fast: number, all: number): string =>
    [
      `x_seconds_bucket{verb="GET",le="0.1"} ${fast}`,
      `x_seconds_bucket{verb="GET",le="0.3"} ${all}`,
      `x_seconds_bucket{verb="GET",le="+Inf"} ${all}`,
      'x_seconds_bucket{verb="WATCH",le="0.1"} 0',
      'x_seconds_bucket{verb="WATCH",le="+Inf"} 1000',
      'x_total{code="429",verb="GET"} 2',
      'x_total{code="429",verb="LIST"} 3',
      'x_total{code="200",verb="GET"} 7',
    ].join('\n')
  const read = (fast: number, all: number) =>
    bucketsOf(text(fast, all), 'x_seconds', (labels) => !labels.includes('WATCH'))
  t.equal(quantileBetween(read(5, 5), read(5, 5), 0.99), null)
  t.equal(quantileBetween(read(5, 5), read(105, 105), 0.5)?.toFixed(3), '0.050')
  t.equal(quantileBetween(read(0, 0), read(50, 100), 0.75)?.toFixed(3), '0.200')
  t.equal(
    sumOf(text(0, 0), 'x_total', (labels) => labels.includes('429')),
    5,
  )
  t.end()
})

/**
 * The quick `edge`, end to end with real caches: every client gets every event once and in order, or the row is a
 * failure.
 */
import t from 'tap'
import { bench } from '../support/bench.js'

void t.test('pollers behind both caches and streams are measured', { timeout: 300_000 }, async (t) => {
  const rows = await bench('edge', '--quick')
  t.same(
    rows.map(({ subject, wire, failed }) => [subject, wire, failed]),
    [
      ['nginx', 'poll', undefined],
      ['varnish', 'poll', undefined],
      ['sse', 'sse', undefined],
    ],
  )
  for (const { subject, deliveries, originCores, p50Ms, p99Ms } of rows) {
    t.equal(deliveries, 50 * 32, `${String(subject)}: 16 events a second, for two seconds, to 50 clients`)
    t.ok(Number(originCores) > 0 && Number(p50Ms) > 0 && Number(p99Ms) >= Number(p50Ms))
  }
})

/**
 * The quick `edge`, end to end with real caches: every client gets every event once and in order, or the row is a
 * failure.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const program = fileURLToPath(new URL('../../bench/run.js', import.meta.url))

void t.test('pollers behind both caches and streams are measured', { timeout: 300_000 }, async (t) => {
  const stdout = await new Promise<string>((resolve, reject) => {
    execFile(process.execPath, [program, 'edge', '--quick'], { cwd: root }, (error, out, stderr) => {
      if (error) reject(new Error(`${out}\n${stderr}`, { cause: error }))
      else resolve(out)
    })
  })
  const rows = stdout
    .split('\n')
    .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Record<string, unknown>] : []))
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

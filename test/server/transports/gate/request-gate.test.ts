import t from 'tap'
import type { AuditRecord } from '../../../../src/server/auth/audit-log.js'
import type { AccessResult, Exchange } from '../../../../src/server/transports/exchange/exchange.js'
import { RequestGate } from '../../../../src/server/transports/gate/request-gate.js'

void t.test('the access log has the latency of a part of a long request, not that of the whole', async (t) => {
  const lines: AuditRecord[] = []
  const audit = { write: (line: AuditRecord) => lines.push(line) }
  const options = { audit, guard: null, proxies: [] } as unknown as ConstructorParameters<typeof RequestGate>[0]
  const whole = { client: null, rule: null, attributes: { verb: 'watch' }, isCounted: true } as unknown as AccessResult
  const HOUR_MS = 3_600_000
  const request = { headers: {}, rawHeaders: [], httpVersionMajor: 2 }
  const opened = { startedMs: performance.now() - HOUR_MS, request, address: '127.0.0.1', path: '/', access: whole }
  const exchange = opened as unknown as Exchange
  await new RequestGate(options).checkPart(exchange, whole, whole.attributes, async () => {})
  t.match(lines, [{ verb: 'watch', code: 200 }])
  t.ok(lines[0]!.latencySeconds < HOUR_MS / 1_000)
  t.equal(exchange.access, whole)
})

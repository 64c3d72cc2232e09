/** The gate's lines in the access log for the parts of a long request. */
import t from 'tap'
import type { AuditRecord } from '../../../../src/server/auth/audit-log.js'
import type { AccessResult, Exchange } from '../../../../src/server/transports/exchange/exchange.js'
import { RequestGate } from '../../../../src/server/transports/gate/request-gate.js'
import { ForbiddenError } from '../../../../src/kubernetes/model/status.js'

const HOUR_MS = 3_600_000

/** A request that has been open for an hour, at a gate that records what it writes. */
function open(): {
  readonly lines: readonly AuditRecord[]
  readonly exchange: Exchange
  readonly whole: AccessResult
  /** Checks a part of the request. */
  check(this: void, confirm: () => Promise<void>): Promise<{ confirm(): Promise<void> | undefined }>
} {
  const lines: AuditRecord[] = []
  const audit = { write: (line: AuditRecord) => lines.push(line) }
  const options = { audit, guard: null, proxies: [] } as unknown as ConstructorParameters<typeof RequestGate>[0]
  const whole = { client: null, rule: null, attributes: { verb: 'watch' }, isCounted: true } as unknown as AccessResult
  const request = { headers: {}, rawHeaders: [], httpVersionMajor: 2 }
  const opened = { startedMs: performance.now() - HOUR_MS, request, address: '127.0.0.1', path: '/', access: whole }
  const exchange = opened as unknown as Exchange
  const gate = new RequestGate(options)
  const check = (confirm: () => Promise<void>): ReturnType<ReturnType<typeof open>['check']> =>
    gate.checkPart(exchange, whole, whole.attributes, async () => ({ confirm }))
  return { lines, exchange, whole, check }
}

void t.test('the access log has the latency of a part of a long request, not that of the whole', async (t) => {
  const { lines, exchange, whole, check } = open()
  await check(async () => {})
  t.match(lines, [{ verb: 'watch', code: 200 }])
  t.ok(lines[0]!.latencySeconds < HOUR_MS / 1_000)
  t.equal(exchange.access, whole)
})

void t.test('a part that is refused after a wait has a second line', async (t) => {
  const { lines, exchange, whole, check } = open()
  const checked = await check(async () => {
    throw new ForbiddenError('no longer', { details: {} })
  })
  t.match(lines, [{ code: 200 }])
  await t.rejects(Promise.resolve(checked.confirm()), { message: 'no longer' })
  t.match(lines, [{ code: 200 }, { verb: 'watch', code: 403 }])
  t.ok(lines[1]!.latencySeconds < HOUR_MS / 1_000)
  t.equal(exchange.access, whole)
})

/** Tests the messages for an operator when NATS answers, but refuses something that a candidate needs. */
import t from 'tap'
import type { Logger } from '../../../src/support/log.js'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { startNats } from '../../support/nats-process.js'
import { until } from '../../support/until.js'
import { startReplica } from '../nats-harness.js'

for (const { what, lines, replicas, maxFile, message, reason } of [
  {
    what: 'no room for the stream',
    lines: 5,
    replicas: 1,
    maxFile: '64MB',
    message: 'publishing was interrupted',
    reason: 'insufficient storage resources available',
  },
  {
    what: 'fewer servers than replicas of the lease',
    lines: 1,
    replicas: 3,
    maxFile: '1GB',
    message: 'NATS refuses the publisher lease; retrying',
    reason: 'replicas > 1 not supported in non-clustered mode',
  },
]) {
  void t.test(`${what}: the reason is logged once as a warning, whatever the number of attempts`, async (t) => {
    const warnings: string[] = []
    let logged = 0
    const count = (): void => void logged++
    const warn = (fields: { readonly reason?: string }, text: string): void => {
      logged++
      warnings.push(`${text}: ${fields.reason}`)
    }
    const nats = await startNats(t, { maxFile })
    const replica = startReplica(t, {
      servers: [nats.url],
      upstream: createEmbeddedUpstream(),
      logger: { debug: count, info: count, warn, error: warn } as unknown as Logger,
      leaseMs: 400,
      limits: { replicas, maxBytes: 256 * 2 ** 20, maxAgeMs: 3_600_000 },
    })
    await until(() => warnings.length > 0, 'the warning')
    await until(() => logged >= lines, 'several attempts')
    t.strictSame(warnings, [`${message}: ${reason}`])
    // An attempt may be running.
    await until(() => replica.metrics.isPublishing === false, 'the metric behind DistributaryNoPublisher')
  })
}

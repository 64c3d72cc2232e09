import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { systemClock } from '../../../src/support/clock.js'
import { natsAdmin } from '../../support/nats-admin.js'
import { startNats } from '../../support/nats-process.js'

void t.test('a candidate learns the limits of a stream that was created with others', async (t) => {
  const nats = await startNats(t)
  const client = await NatsClient.connect({ servers: [nats.url], name: 'a test' }, systemClock)
  t.teardown(() => client.close())
  const created = { maxBytes: 2 ** 20, maxAgeMs: 60_000 }
  t.same(await client.ensureStream('S', 's', { replicas: 1, ...created }), created)
  t.same(await client.ensureStream('S', 's', { replicas: 1, maxBytes: 2 ** 22, maxAgeMs: 3_600_000 }), created)
  const { connection } = await natsAdmin(t, nats)
  await (await jetstreamManager(connection)).streams.add({ name: 'U', subjects: ['u'] })
  const unlimited = { maxBytes: Infinity, maxAgeMs: Infinity }
  t.same(await client.ensureStream('U', 'u', { replicas: 1, ...created }), unlimited)
})

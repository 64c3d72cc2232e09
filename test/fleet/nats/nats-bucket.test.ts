import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { millis } from 'nats'
import t from 'tap'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { systemClock } from '../../../src/support/clock.js'
import { natsAdmin } from '../../support/nats-admin.js'
import { startNats } from '../../support/nats-process.js'
import { until } from '../../support/until.js'

const MiB = 2 ** 20

void t.test('sending a large object blocks neither the event loop nor the connection', async (t) => {
  const nats = await startNats(t)
  const client = await NatsClient.connect({ servers: [nats.url], name: 'a test' }, systemClock)
  t.teardown(() => client.close())
  const bucket = client.bucket('OBJECTS', { replicas: 1, blobAgeMs: 3_600_000 })
  const size = 24
  const chunks = Array.from({ length: size * 8 }, (_, i) => Buffer.alloc(MiB / 8, String.fromCharCode(97 + (i % 26))))
  await bucket.putObject('small', chunks.slice(0, 1))

  let isOver = false
  let turns = 0
  const count = (): void => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  let answered = 0
  const ask = async (): Promise<void> => {
    while (!isOver) {
      await bucket.kvGet('none')
      answered++
    }
  }
  const asking = ask()
  await bucket.putObject('large', chunks)
  isOver = true
  await asking
  t.ok(turns > size * 2, `${turns} turns of the event loop for ${size} MiB`)
  t.ok(answered > size, `${answered} other requests were answered in the meantime`)
  const read = await bucket.getObject('large')
  t.ok(read?.equals(Buffer.concat(chunks)), 'it came as it was sent')
})

void t.test('a blob expires, even if its upload never finished, and a value does not', async (t) => {
  const nats = await startNats(t)
  const client = await NatsClient.connect({ servers: [nats.url], name: 'a test' }, systemClock)
  t.teardown(() => client.close())
  const bucket = client.bucket('B', { replicas: 1, blobAgeMs: 1_000 })
  const revision = await bucket.kvUpdate('a', Buffer.from('a'), 0)
  await bucket.putObject('listed', [Buffer.from('a')])
  const { connection } = await natsAdmin(t, nats)
  await jetstream(connection).publish('$O.B.C.none', 'a chunk of an upload that never ended')
  await until(async () => {
    const { first, last } = (await client.streamState('OBJ_B'))!
    return first > last
  }, 'everything is gone')
  t.equal(await bucket.getObject('listed'), null)
  t.match(await bucket.kvGet('a'), { revision })
})

void t.test('an upload raises the age of a store that was created with a lower one, and never lowers it', async (t) => {
  const nats = await startNats(t)
  const { connection } = await natsAdmin(t, nats)
  const manager = await jetstreamManager(connection)
  for (const [blobAgeMs, expected] of [
    [10_000, 10_000],
    [30_000, 30_000],
    [20_000, 30_000],
  ] as const) {
    const client = await NatsClient.connect({ servers: [nats.url], name: 'a test' }, systemClock)
    t.teardown(() => client.close())
    const bucket = client.bucket('B', { replicas: 1, blobAgeMs })
    await bucket.putObject(`${blobAgeMs}`, [Buffer.from('a')])
    t.equal(millis((await manager.streams.info('OBJ_B')).config.max_age), expected)
  }
  const reader = await NatsClient.connect({ servers: [nats.url], name: 'a test' }, systemClock)
  t.teardown(() => reader.close())
  const edge = reader.bucket('B', { replicas: 1, blobAgeMs: 60_000 })
  t.same(await edge.getObject('10000'), Buffer.from('a'), 'whose objects it keeps')
  t.equal(millis((await manager.streams.info('OBJ_B')).config.max_age), 30_000, 'an edge changes nothing')
})

void t.test('an object that is too large, or larger than it says, is not gathered', async (t) => {
  const nats = await startNats(t)
  const client = await NatsClient.connect({ servers: [nats.url], name: 'a test' }, systemClock)
  t.teardown(() => client.close())
  const bucket = client.bucket('B', { replicas: 1, blobAgeMs: 3_600_000 })
  await bucket.putObject('a', [Buffer.alloc(MiB)])
  const { connection } = await natsAdmin(t, nats)
  const js = jetstream(connection)
  const { streams } = await js.jetstreamManager()
  const info = (await streams.getMessage('OBJ_B', { last_by_subj: '$O.B.M.>' }))!
  for (const [size, message] of [
    [3 * 2 ** 30, /has 3221225472 bytes/],
    [1_000, /larger than it says/],
    [2 * MiB, /has lost chunks/],
  ] as const) {
    await js.publish(info.subject, JSON.stringify({ ...info.json<object>(), size }))
    await t.rejects(bucket.getObject('a'), { code: 'corrupt', message })
  }
})

import t from 'tap'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { systemClock } from '../../../src/support/clock.js'
import { startNats } from '../../support/nats-process.js'

const MiB = 2 ** 20

void t.test('sending a large object blocks neither the event loop nor the connection', async (t) => {
  const nats = await startNats(t)
  const client = await NatsClient.connect({ servers: [nats.url], name: 'a test' }, systemClock)
  t.teardown(() => client.close())
  const size = 24
  const chunks = Array.from({ length: size * 8 }, (_, i) => Buffer.alloc(MiB / 8, String.fromCharCode(97 + (i % 26))))
  await client.buckets.putObject('OBJECTS', 'small', chunks.slice(0, 1), 1)

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
      await client.buckets.kvGet('VALUES', 'none', 1)
      answered++
    }
  }
  const asking = ask()
  await client.buckets.putObject('OBJECTS', 'large', chunks, 1)
  isOver = true
  await asking
  t.ok(turns > size * 2, `${turns} turns of the event loop for ${size} MiB`)
  t.ok(answered > size, `${answered} other requests were answered meanwhile`)
  const read = await client.buckets.getObject('OBJECTS', 'large', 1)
  t.ok(read?.equals(Buffer.concat(chunks)), 'it came as it was sent')
})

/** Tests a connection to NATS, and one to a server that breaks the protocol. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { jetstreamManager } from '@nats-io/jetstream'
import t, { type Test } from 'tap'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { systemClock } from '../../../src/support/clock.js'
import { natsAdmin } from '../../support/nats-admin.js'
import { startNats } from '../../support/nats-process.js'
import { until } from '../../support/until.js'

/** A server that sends `info`, answers pings, and stores what clients subscribe to and publish. */
async function connectTo(t: Test, info: object) {
  const subscribed = new Map<string, string>()
  const published: string[] = []
  let socket: Socket | null = null
  const server = createServer((accepted) => {
    socket = accepted
    accepted.on('error', () => {})
    accepted.write(
      `INFO ${JSON.stringify({ server_id: 'a', version: '2.9.10', headers: true, proto: 1, ...info })}\r\n`,
    )
    accepted.on('data', (data) => {
      for (const line of data.toString('latin1').split('\r\n')) {
        const [verb, subject = '', sid = ''] = line.split(' ')
        if (verb === 'PING') accepted.write('PONG\r\n')
        else if (verb === 'SUB') subscribed.set(subject, sid)
        else if (verb === 'PUB') published.push(subject)
      }
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const client = await NatsClient.connect({ servers: [`nats://127.0.0.1:${port}`], name: 'a test' }, systemClock)
  t.teardown(() => client.close())
  const deliver = (subject: string, reply: string, data: string): void =>
    void socket!.write(`MSG ${subject} ${subscribed.get(subject)} ${reply} ${data.length}\r\n${data}\r\n`)
  return { client, subscribed, published, deliver }
}

void t.test('addresses of servers that are not addresses are ignored', async (t) => {
  for (const urls of [5, {}, null]) {
    const { client } = await connectTo(t, { max_payload: 2 ** 20, connect_urls: urls })
    t.equal(client.servers, 1, JSON.stringify(urls))
  }
})

void t.test('a message larger than the server takes is lost, and the next one is sent', async (t) => {
  for (const max_payload of [10, 4_100, 'much']) {
    const { client, subscribed, published, deliver } = await connectTo(t, { max_payload })
    t.ok(client.maxPayloadBytes > 0)
    client.respond('question', async (request) => Buffer.alloc(Number(request.toString())))
    await until(() => subscribed.has('question'), 'it listens')
    for (const [i, bytes] of [3_000_000, 4_200, 1].entries()) deliver('question', `answer.${i}`, String(bytes))
    client.publish('status', Buffer.alloc(5_000))
    client.publish('status', Buffer.alloc(1))
    await t.rejects(client.request('other', Buffer.alloc(5_000), 50), { name: 'BrokerError' })
    await until(() => published.includes('answer.2') && published.includes('status'), 'small messages arrive')
  }
})

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

/** Tests of when a connection moves to another server of NATS: real servers that have lost each other, and the bounds of a look. */
import t from 'tap'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { ServerChoice } from '../../../src/fleet/nats/server-choice.js'
import { systemClock } from '../../../src/support/clock.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import type { FaultProxy } from '../../support/fault-proxy.js'
import { startNatsCluster } from '../../support/nats-process.js'
import { pause, until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const random = seededRandom(1)

void t.test('a client moves when its server has lost the one behind which somebody speaks', async (t) => {
  const routes = new Map<number, Map<number, FaultProxy>>()
  const nats = await startNatsCluster(t, { routeProxies: routes })
  const connect = async (servers: readonly string[]): Promise<NatsClient> => {
    const client = await NatsClient.connect({ servers, name: 'a test' }, systemClock)
    t.teardown(() => client.close())
    return client
  }
  const speakers = await Promise.all(nats.map(({ url }) => connect([url])))
  const client = await connect(nats.map(({ url }) => url))
  const choice = new ServerChoice({
    client,
    connectTo: (server) => NatsClient.connect({ servers: [server], name: 'a look' }, systemClock),
    clock: systemClock,
    random,
    logger: silentLogger,
  })
  t.teardown(() => choice.stop())
  client.onDoubt((subject, question) => choice.doubt(subject, question))

  const at = speakers.findIndex(({ serverId }) => serverId === client.serverId)
  const other = (at + 1) % nats.length
  const speaking = setInterval(() => speakers[other]!.publish('status', Buffer.from('here')), 100)
  t.teardown(() => clearInterval(speaking))
  let heard = 0
  client.subscribe('status', () => heard++)
  await until(async () => heard > 0, 'the speaker is heard')

  for (const link of [routes.get(at)?.get(other), routes.get(other)?.get(at)]) link?.stall()
  const { serverId } = client
  // As whoever waits in vain does it: time and again.
  const doubting = setInterval(() => client.doubtSubject('status'), 500)
  t.teardown(() => clearInterval(doubting))
  await until(async () => client.serverId !== serverId, 'the client has moved', 60_000)
  heard = 0
  await until(async () => heard > 0, 'the speaker is heard again')
})

void t.test('a client stays where it is when nobody answers anywhere, and asks few of many questions', async (t) => {
  const clock = new VirtualClock()
  let looks = 0
  let asked = 0
  let moves = 0
  const fake = (serverId: string): NatsClient => {
    return {
      serverId,
      isConnected: true,
      servers: ['one', 'two', 'three'],
      close: async () => {},
      reconnect: async () => void moves++,
    } as unknown as NatsClient
  }
  const connectTo = async (server: string): Promise<NatsClient> => {
    looks++
    return fake(server)
  }
  const choice = new ServerChoice({ client: fake('one'), connectTo, clock, random, logger: silentLogger })
  t.teardown(() => choice.stop())
  const passes = async (ms: number): Promise<void> => {
    for (let i = 0; i < ms; i += 100) {
      clock.advance(100)
      await pause(0)
    }
  }
  for (let i = 0; i < 100; i++) {
    choice.doubt(`stream ${i}`, async () => {
      asked++
      return false
    })
  }
  await passes(1_000)
  t.equal(asked, 8 * 3, 'eight questions, of each of three servers')
  t.equal(looks, 3, 'each server once')
  for (let i = 0; i < 600; i++) {
    choice.doubt('stream', async () => false)
    await passes(100)
  }
  t.ok(looks <= 3 * 8, `in a minute ${looks} connections: the looks become rarer`)
  t.equal(moves, 0)
})

void t.test('a client with one server has no choice', async (t) => {
  const clock = new VirtualClock()
  const client = { isConnected: true, servers: ['one'], serverId: 'one' } as unknown as NatsClient
  const connectTo = (): never => {
    throw new Error('nowhere to go')
  }
  const choice = new ServerChoice({ client, connectTo, clock, random, logger: silentLogger })
  choice.doubt('stream', async () => false)
  clock.advance(10_000)
  await t.resolves(choice.stop())
})

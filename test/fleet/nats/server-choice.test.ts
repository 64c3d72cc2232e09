/**
 * Tests when a connection moves to another NATS server: real servers that cannot reach each other, and the limits of a
 * check.
 */
import t, { type Test } from 'tap'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { ServerChoice } from '../../../src/fleet/nats/server-choice.js'
import { systemClock } from '../../../src/support/clock.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import type { FaultProxy } from '../../support/fault-proxy.js'
import { startNatsCluster } from '../../support/nats-process.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { ServerNetwork } from './server-network.js'

const random = seededRandom(1)

void t.test('a client moves when its server has lost the one with the publisher behind it', async (t) => {
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
  // As a component does repeatedly while it waits without an answer.
  const doubting = setInterval(() => client.doubtSubject('status'), 500)
  t.teardown(() => clearInterval(doubting))
  await until(async () => client.serverId !== serverId, 'the client has moved', 60_000)
  heard = 0
  await until(async () => heard > 0, 'the speaker is heard again')
})

interface Choosing {
  readonly choice: ServerChoice
  readonly network: ServerNetwork
  /** The questions, and the server that received each. */
  readonly asked: string[]
  /** The client's current server. */
  readonly at: () => string
  readonly doubt: (subject: string, answers?: (server: string) => boolean) => void
  readonly pass: (ms: number) => Promise<void>
}

/** A client of the first of three servers. */
function choosing(t: Test): Choosing {
  const clock = new VirtualClock()
  const network = new ServerNetwork('one', 'two', 'three')
  const asked: string[] = []
  let at = 0
  const client = {
    isConnected: true,
    servers: network.servers,
    get serverId() {
      return network.servers[at]
    },
    get serverName() {
      return network.servers[at]
    },
    isAlive: async () => !network.hasStopped(network.servers[at]!),
    reconnect: async () => void (at = (at + 1) % 3),
  } as unknown as NatsClient
  const connectTo = async (server: string): Promise<NatsClient> => {
    const view = network.view(server)
    let isOpen = true
    return {
      ...view,
      // As in the library: a closed connection has no server.
      get serverId() {
        return isOpen ? server : ''
      },
      close: async () => {
        isOpen = false
        await view.close()
      },
    } as unknown as NatsClient
  }
  const choice = new ServerChoice({ client, connectTo, clock, random, logger: silentLogger })
  t.teardown(() => choice.stop())
  return {
    choice,
    network,
    asked,
    at: () => network.servers[at]!,
    doubt: (subject, answers = () => false) =>
      choice.doubt(subject, async (through) => {
        asked.push(`${subject} ${through.serverName}`)
        return answers(through.serverName)
      }),
    pass: (ms) => clock.advanceInTurns(ms, 50),
  }
}

void t.test('a client moves to a server that hears all, and stays there', async (t) => {
  const { network, asked, at, doubt, pass } = choosing(t)
  network.cut('one', 'two')
  doubt('stream')
  await pass(3_500)
  t.equal(at(), 'three')
  t.same(asked, [], 'nothing has to be asked for that')
  t.same(network.open, [])
  doubt('stream')
  await pass(3_500)
  t.equal(at(), 'three', 'where it stays')
})

void t.test('a client moves away from a stopped server, although its connection is open', async (t) => {
  const { network, at, doubt, pass } = choosing(t)
  network.stop('one')
  doubt('stream')
  await pass(3_500)
  t.not(at(), 'one')
})

void t.test('a client stays at a server that accepts no new connections, but answers it', async (t) => {
  const { network, at, doubt, pass } = choosing(t)
  network.kill('one')
  doubt('stream')
  await pass(5_000)
  t.equal(at(), 'one')
})

void t.test('where all servers hear each other, a client moves where more is answered', async (t) => {
  const { at, doubt, pass } = choosing(t)
  doubt('a')
  doubt('b', (server) => server !== 'one')
  doubt('c', (server) => server === 'two')
  await pass(5_000)
  t.equal(at(), 'two')
})

void t.test('a client stays where it is when no server answers, and repeats only a few of many requests', async (t) => {
  const { network, asked, at, doubt, pass } = choosing(t)
  for (let i = 0; i < 100; i++) doubt(`stream ${i}`)
  await pass(1_500)
  t.equal(asked.length, 8 * 3, 'eight questions, of each of three servers')
  const looksIn = async (seconds: number): Promise<number> => {
    const before = asked.length
    for (let i = 0; i < seconds; i++) {
      doubt('stream')
      await pass(1_000)
    }
    return (asked.length - before) / 3
  }
  const soon = await looksIn(20)
  t.ok(soon >= 4, `${soon} looks in twenty seconds`)
  await looksIn(100)
  const late = await looksIn(300)
  t.ok(late <= 10, `later ${late} looks in five minutes: they become rarer`)
  t.equal(at(), 'one')
  t.same(network.open.length <= 3, true)
})

void t.test('a client with one server connects to nothing', async (t) => {
  const clock = new VirtualClock()
  const client = { isConnected: true, servers: ['one'], serverId: 'one' } as unknown as NatsClient
  const tried: string[] = []
  const connectTo = (server: string): Promise<never> => {
    tried.push(server)
    return Promise.reject(new Error('nowhere to go'))
  }
  const choice = new ServerChoice({ client, connectTo, clock, random, logger: silentLogger })
  let asked = 0
  choice.doubt('stream', async () => asked++ < 0)
  await clock.advanceInTurns(10_000, 500)
  t.same([tried, asked], [[], 0])
  await choice.stop()
})

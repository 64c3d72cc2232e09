/**
 * What is known about servers that are watched continuously: addresses, connections that come and go, and users without
 * permission.
 */
import t, { type Test } from 'tap'
import { ServerWatch, type WatchView } from '../../../src/fleet/nats/server-watch.js'
import type { ServerReach } from '../../../src/fleet/nats/server-reach.js'
import type { Logger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { ServerNetwork } from './server-network.js'

interface Watching {
  readonly network: ServerNetwork
  readonly watch: ServerWatch<WatchView>
  /** The addresses to which a connection was attempted, in order. */
  readonly tried: string[]
  readonly told: string[]
  /** Runs the heartbeat for this long. @returns what was heard at the last beat. */
  readonly beats: (ms: number) => Promise<ServerReach>
  /** Lets time pass without running anything. */
  readonly stall: (ms: number) => Promise<void>
}

/** @param addresses the server behind each address. */
function watching(t: Test, addresses: Readonly<Record<string, string>>): Watching {
  const clock = new VirtualClock()
  const network = new ServerNetwork('one', 'two', 'three')
  const tried: string[] = []
  const told: string[] = []
  const logger: Logger = {
    debug: () => {},
    info: (_fields, message) => void told.push(message),
    warn: () => {},
    error: () => {},
  }
  const watch = new ServerWatch<WatchView>({
    addresses: () => Object.keys(addresses),
    connectTo: async (address) => {
      tried.push(address)
      return network.view(addresses[address]!)
    },
    clock,
    random: seededRandom(1),
    logger,
  })
  t.teardown(() => watch.close())
  const beats = async (ms: number): Promise<ServerReach> => {
    let reach = watch.beat()
    for (let passedMs = 0; passedMs < ms; passedMs += 250) {
      await clock.advanceInTurns(250, 50)
      reach = watch.beat()
    }
    return reach
  }
  return { network, watch, tried, told, beats, stall: (ms) => clock.advanceInTurns(ms, ms) }
}

const ADDRESSES = { 'one:4222': 'one', 'two:4222': 'two', 'three:4222': 'three' }

void t.test('it is soon known who hears whom, and a cut within a second and a half', async (t) => {
  const { network, beats } = watching(t, ADDRESSES)
  t.same((await beats(500)).servers, [], 'nothing is known of connections that have just begun')
  t.same((await beats(2_000)).servers, ['one', 'two', 'three'])
  network.cut('one', 'two')
  t.equal((await beats(1_000)).isSplit, false)
  t.equal((await beats(500)).isSplit, true)
  network.join('one', 'two')
  t.equal((await beats(250)).isSplit, false, 'the first beat that arrives ends the suspicion')
})

void t.test('a server with several addresses has one connection, without repeated attempts', async (t) => {
  const { network, tried, beats } = watching(t, { ...ADDRESSES, '10.0.0.1:4222': 'one', '10.0.0.2:4222': 'two' })
  await beats(60_000)
  t.equal(network.open.length, 3)
  t.equal(tried.length, 5)
})

void t.test(
  'an address without a server is retried every few seconds, and watched soon after it is back',
  async (t) => {
    const { network, tried, beats } = watching(t, ADDRESSES)
    network.kill('two')
    await beats(60_000)
    t.ok(tried.length >= 2 + 12 && tried.length <= 2 + 26, `${tried.length - 2} attempts in a minute`)
    network.restart('two')
    t.same((await beats(7_000)).servers.length, 3)
  },
)

void t.test('a lost connection is reopened, and nothing is known until it has heard for a while', async (t) => {
  const { network, beats } = watching(t, ADDRESSES)
  await beats(3_000)
  network.kill('two')
  t.same((await beats(3_000)).servers, ['one', 'three'])
  network.restart('two')
  t.same([...(await beats(20_000)).servers].sort(), ['one', 'three', 'two'])
  t.equal(network.open.length, 3)
})

void t.test('connections stay while no addresses are known, as during a reconnection', async (t) => {
  const addresses: Record<string, string> = { ...ADDRESSES }
  const { network, beats, tried } = watching(t, addresses)
  await beats(3_000)
  for (const address of Object.keys(ADDRESSES)) delete addresses[address]
  t.same((await beats(3_000)).servers.length, 3)
  Object.assign(addresses, ADDRESSES)
  await beats(3_000)
  t.equal(network.open.length, 3)
  t.ok(tried.length <= 6, 'each address is tried at most one more time')
})

void t.test('a user without permission for the subject is logged once, and retried seldom', async (t) => {
  const { network, tried, told, beats } = watching(t, ADDRESSES)
  for (const server of network.servers) network.stop(server)
  await beats(9_000)
  t.same([network.open.length, told.length], [3, 0])
  await beats(60_000)
  t.same([network.open.length, told.length, tried.length], [0, 1, 3])
  t.match(told[0], /may not use the subject/)
  for (const server of network.servers) network.wake(server)
  t.same((await beats(300_000)).servers.length, 3, 'once it may')
  t.equal(told.length, 1)
})

void t.test('a process that stood still draws no conclusion from silence', async (t) => {
  const { network, told, beats, stall } = watching(t, ADDRESSES)
  await beats(250)
  await stall(60_000)
  t.equal((await beats(250)).isSplit, false)
  t.same([network.open.length, told.length], [3, 0])
})

void t.test('connections that are still opening are closed with the others', async (t) => {
  const { network, watch, beats } = watching(t, ADDRESSES)
  await beats(0)
  await watch.close()
  await beats(5_000)
  t.same(network.open, [])
})

/** Which NATS servers reach each other: three real ones with a cut link, and what follows from what was heard. */
import t from 'tap'
import { NatsClient, type ServerQuestion } from '../../../src/fleet/nats/nats-client.js'
import { openViews, probeReach, ServerReach } from '../../../src/fleet/nats/server-reach.js'
import { systemClock } from '../../../src/support/clock.js'
import type { FaultProxy } from '../../support/fault-proxy.js'
import { startNats, startNatsCluster } from '../../support/nats-process.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { ServerNetwork } from './server-network.js'

const never = new AbortController().signal

void t.test('a cut link between two real servers is found, and so is the server that hears both', async (t) => {
  const routes = new Map<number, Map<number, FaultProxy>>()
  const nats = await startNatsCluster(t, { routeProxies: routes })
  const servers = nats.map(({ url }) => url)
  const views = await Promise.all(
    servers.map((server) => NatsClient.connectToOne(server, { servers, name: 'a test' }, systemClock)),
  )
  t.teardown(() => Promise.all(views.map((view) => view.close())))
  t.same(
    views.map(({ serverName }) => serverName),
    ['n0', 'n1', 'n2'],
  )
  const probe = (): Promise<ServerReach> => probeReach(views, systemClock, never)
  let whole = await probe()
  // Newly started servers may not know each other yet.
  await until(async () => (whole = await probe()).best.length === 3, 'all hear all', 30_000)
  t.equal(whole.isSplit, false)
  t.same(whole.betterThan('n0'), [])

  const links = [routes.get(0)?.get(1), routes.get(1)?.get(0)]
  for (const link of links) link?.stall()
  let split = whole
  await until(async () => (split = await probe()).isSplit, 'the cut is seen')
  t.same(split.best, ['n2'])
  t.same([split.betterThan('n0'), split.betterThan('n1'), split.betterThan('n2')], [['n2'], ['n2'], []])

  for (const link of links) {
    link?.release()
    link?.cut()
  }
  let joined = split
  await until(async () => (joined = await probe()).best.length === 3, 'all hear all again', 30_000)
  t.equal(joined.isSplit, false)
})

void t.test('a connection to one server does not reconnect, and goes to no other', async (t) => {
  const nats = await startNatsCluster(t)
  const servers = nats.map(({ url }) => url)
  const view = await NatsClient.connectToOne(servers[0]!, { servers, name: 'a test' }, systemClock)
  t.teardown(() => view.close())
  t.equal(view.serverName, 'n0')
  await nats[0]!.kill()
  await until(async () => !view.isConnected, 'it is lost')
  t.equal(await view.placement('S'), null)
  view.stepDown('S', 'n1')
  view.publish('subject', Buffer.from('nobody'))
  t.equal(view.isConnected, false)

  // A probe may be running when its connection is lost: that counts as no answer.
  t.same((await probeReach([view], systemClock, never)).servers, [])
  await t.rejects(view.ask('subject', Buffer.from('?'), 1_000), { code: 'unavailable' })
  view.respond('subject', async () => null).close()
  const asked: ServerQuestion[] = []
  view.onDoubt((_subject, question) => void asked.push(question))
  view.doubtSubject('subject')
  const ended = new Promise<string>((resolve) => {
    view.follow('S', 1, { onMessage: () => {}, onIdle: () => {}, onEnd: resolve })
  })
  t.equal(await ended, 'the connection is closed')
  t.equal(asked.length, 1)
  t.equal(await view.isAlive(), false)
})

void t.test('a user without the permission finds out nothing, and has no reason to move', async (t) => {
  const permissions = '{ publish: "other", subscribe: "_INBOX.>" }'
  const users = `{ user: "u", password: "p", permissions: ${permissions} }`
  const { url } = await startNats(t, { config: `authorization { users: [${users}] }` })
  const connection = { servers: [url], name: 'a test', user: { name: 'u', password: () => 'p' } }
  const view = await NatsClient.connect(connection, systemClock)
  t.teardown(() => view.close())
  const reach = await probeReach([view], systemClock, never)
  t.same([reach.servers, reach.betterThan('n0'), reach.isSplit], [[], [], false])
})

void t.test('a server with two addresses is queried once, and one that answers slowly not at all', async (t) => {
  const clock = new VirtualClock()
  const network = new ServerNetwork('one', 'two')
  let answerLate = (): void => {}
  const connectTo = (address: string) => {
    if (address === 'refused') return Promise.reject(new Error('refused'))
    if (address !== 'two') return Promise.resolve(network.view('one'))
    return new Promise<ReturnType<typeof network.view>>((resolve) => {
      answerLate = () => resolve(network.view('two'))
    })
  }
  const opening = openViews(['one', 'its other address', 'two', 'refused'], connectTo, clock)
  await clock.advanceInTurns(1_500, 100)
  const views = await opening
  t.same(
    views.map(({ serverName }) => serverName),
    ['one'],
  )
  t.same(network.open, ['one'])
  answerLate()
  await clock.advanceInTurns(100, 100)
  t.same(network.open, ['one'], 'a connection that came too late is closed')
})

void t.test('a silent server does not count', async (t) => {
  const clock = new VirtualClock()
  const network = new ServerNetwork('one', 'two', 'three')
  network.stop('two')
  const probing = probeReach(
    network.servers.map((server) => network.view(server)),
    clock,
    never,
  )
  await clock.advanceInTurns(1_000, 50)
  const reach = await probing
  t.same(reach.servers, ['one', 'three'])
  t.equal(reach.isSplit, false)
  t.same(reach.betterThan('two'), ['one', 'three'], 'its clients move')
  t.same(reach.betterThan('one'), [])
})

/** @param servers a letter each. @param lost pairs that do not hear each other. */
function reachOf(servers: string, ...lost: readonly string[]): ServerReach {
  const names = servers.split('')
  const hears = (one: string, other: string): boolean => !lost.includes(one + other) && !lost.includes(other + one)
  return new ServerReach(new Map(names.map((one) => [one, new Set(names.filter((other) => hears(one, other)))])))
}

const placements: readonly (readonly [string, ServerReach, string, string | null])[] = [
  ['all hear all', reachOf('abc'), 'abc', null],
  ['the leader has lost a follower', reachOf('abc', 'ab'), 'abc', 'c'],
  ['the leader hears both', reachOf('abc', 'ab'), 'cab', null],
  ['the lost server does not keep the stream', reachOf('abcd', 'ab'), 'acd', null],
  ['nobody hears both', reachOf('abc', 'ab', 'bc'), 'abc', null],
  ['the lost follower is down', reachOf('ac'), 'abc', null],
  ['the leader is not reached', reachOf('bc'), 'abc', null],
  ['of five, two have lost each other', reachOf('abcde', 'ab'), 'abcde', 'c'],
  ['the first that would do hears not all', reachOf('abcd', 'ab', 'bc'), 'abcd', 'd'],
]

for (const [what, reach, members, expected] of placements) {
  const [leader = '', ...others] = members.split('')
  void t.test(`${what}: ${expected === null ? 'the leader stays' : `${expected} should lead`}`, async (t) => {
    const followers = others.map((server) => ({ server, isCurrent: true, silentMs: 500 }))
    t.equal(reach.successorOf({ leader, followers }), expected)
    const behind = others.map((server) => ({ server, isCurrent: false, silentMs: 500 }))
    t.equal(reach.successorOf({ leader, followers: behind }), null, 'nobody who is behind')
  })
}

void t.test('a connection moves only to where more servers are heard', async (t) => {
  t.same(reachOf('abc', 'ab').betterThan('a'), ['c'])
  t.same(reachOf('abcde', 'ab').betterThan('a'), ['c', 'd', 'e'])
  t.same(reachOf('abcde', 'ab').betterThan('d'), [])
  t.same(reachOf('abc', 'ab', 'ac').betterThan('a'), ['b', 'c'], 'a server that is cut off altogether')
  t.same(reachOf('ab', 'ab').betterThan('a'), [], 'of two halves none is better')
  const late = new ServerReach(new Map(['a', 'b', 'c'].map((one) => [one, new Set(one === 'b' ? 'bc' : 'abc')])))
  t.same([late.betterThan('b'), late.isSplit], [[], false], 'what comes in one direction may be late in the other')
  t.same(reachOf('').betterThan('a'), [])
})

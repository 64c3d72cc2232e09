/**
 * Tests of leaders that are asked to step down: real servers, two of which cannot reach each other, and the limits on
 * such requests.
 */
import t, { type Test } from 'tap'
import { type HandoverView, LeaderHandover } from '../../../src/fleet/nats/leader-handover.js'
import { NatsClient, type NatsConnectOptions } from '../../../src/fleet/nats/nats-client.js'
import type { StreamPlacement } from '../../../src/fleet/nats/server-reach.js'
import { systemClock } from '../../../src/support/clock.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import type { FaultProxy } from '../../support/fault-proxy.js'
import { startNatsCluster } from '../../support/nats-process.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { ServerNetwork } from './server-network.js'

/** Enough that a server leads none of them only once in a hundred runs, and that two of them practically never do. */
const STREAMS = 12
const REPLICAS = 3

void t.test('streams whose leaders have lost a replica are led by the server that hears everybody', async (t) => {
  const routes = new Map<number, Map<number, FaultProxy>>()
  const nats = await startNatsCluster(t, { routeProxies: routes })
  const clients = await Promise.all(
    nats.map(async ({ url }) => {
      const client = await NatsClient.connect({ servers: [url], name: 'a test' }, systemClock)
      t.teardown(() => client.close())
      return client
    }),
  )
  const [, , third] = clients
  const names = Array.from({ length: STREAMS }, (_, i) => `S${i}`)
  for (const name of names) {
    await third!.ensureStream(name, name.toLowerCase(), { replicas: REPLICAS, maxBytes: 1e6, maxAgeMs: 60_000 })
  }
  t.same([...third!.usedStreams].sort(), [...names].sort())
  const placements = (): Promise<(StreamPlacement | null)[]> => Promise.all(names.map((name) => third!.placement(name)))
  await until(
    async () => (await placements()).every((placement) => placement?.followers.length === 2),
    'every stream has a leader and two followers',
    30_000,
  )
  const asked: string[] = []
  const options: NatsConnectOptions = { servers: nats.map(({ url }) => url), name: 'a watch' }
  const connectTo = async (server: string): Promise<NatsClient> => {
    const view = await NatsClient.connectToOne(server, options, systemClock)
    const stepDown = view.stepDown.bind(view)
    return Object.assign(view, {
      stepDown: (stream: string, successor: string | null) => {
        asked.push(`${stream} to ${successor}`)
        stepDown(stream, successor)
      },
    })
  }
  const used = { servers: nats.map(({ url }) => url), usedStreams: names }
  const random = seededRandom(1)
  const handover = new LeaderHandover({ client: used, connectTo, clock: systemClock, random, logger: silentLogger })
  t.teardown(() => handover.stop())
  handover.start()
  for (const link of [routes.get(0)?.get(1), routes.get(1)?.get(0)]) link?.stall()
  await until(
    async () => (await placements()).every((placement) => placement?.leader === third!.serverName),
    'every stream is led by one that hears both others',
    60_000,
  )
  t.ok(asked.length > 0, 'leaders were asked')
  const to = third!.takesSuccessors ? 'n2' : 'null'
  t.same(
    asked.filter((text) => !text.endsWith(` to ${to}`)),
    [],
  )
})

/** A minus at the end of a name marks a lagging follower; a number, for how many milliseconds it has not been heard. */
function followerOf(text: string): StreamPlacement['followers'][number] {
  const [, server = '', silent = '500', minus = ''] = /^([a-z]+)(\d*)(-?)$/.exec(text) ?? []
  return { server, isCurrent: minus === '', silentMs: Number(silent) }
}

/** Where each stream is stored, the leader first; null for one without a leader. */
type Streams = Map<string, readonly string[] | null>

interface Asking {
  readonly network: ServerNetwork
  readonly handover: LeaderHandover
  /** The requests: which stream, and the preferred successor. */
  readonly stepDowns: string[]
  /** Names of streams, one for each check. */
  readonly looks: string[]
  readonly pass: (ms: number) => Promise<void>
}

/** Three servers that reach each other, already watched for some seconds. */
async function asking(t: Test, streams: Streams, { takesSuccessors = true, size = 3 } = {}): Promise<Asking> {
  const clock = new VirtualClock()
  const network = new ServerNetwork(...['one', 'two', 'three'].slice(0, size))
  const stepDowns: string[] = []
  const looks: string[] = []
  const connectTo = async (server: string): Promise<HandoverView> =>
    Object.assign(network.view(server), {
      placement: async (stream: string) => {
        looks.push(stream)
        const [leader, ...followers] = streams.get(stream) ?? []
        return leader === undefined ? null : { leader, followers: followers.map(followerOf) }
      },
      stepDown: (stream: string, successor: string | null) =>
        void stepDowns.push(`${stream} to ${successor ?? 'anyone'}`),
      takesSuccessors,
    })
  const client = { servers: network.servers, usedStreams: [...streams.keys()] }
  const random = seededRandom(1)
  const handover = new LeaderHandover({ client, connectTo, clock, random, logger: silentLogger })
  t.teardown(() => handover.stop())
  handover.start()
  const pass = (ms: number): Promise<void> => clock.advanceInTurns(ms, 50)
  await pass(3_000)
  return { network, handover, stepDowns, looks, pass }
}

void t.test('only leaders that have lost a follower are asked, within two seconds', async (t) => {
  const { network, stepDowns, looks, pass } = await asking(
    t,
    new Map([
      ['A', ['one', 'two', 'three']],
      ['B', ['two', 'three', 'one']],
      ['LED WELL', ['three', 'one', 'two']],
      ['ELSEWHERE', ['one', 'three']],
      ['ALONE', ['one', 'two']],
      ['LEADERLESS', null],
    ]),
  )
  network.cut('one', 'two')
  await pass(1_000)
  t.same(looks, [], 'a second is no reason yet')
  await pass(1_000)
  t.same(stepDowns, ['A to three', 'B to three'])
})

void t.test('a follower that is behind is not named before it has everything', async (t) => {
  const streams: Streams = new Map([['A', ['one', 'two', 'three-']]])
  const { network, stepDowns, pass } = await asking(t, streams)
  network.cut('one', 'two')
  await pass(5_000)
  t.same(stepDowns, [])
  streams.set('A', ['one', 'two', 'three'])
  await pass(1_000)
  t.same(stepDowns, ['A to three'])
})

void t.test('a server that is down, stopped or unheard is not a reason to ask', async (t) => {
  const streams: Streams = new Map([['A', ['one', 'two', 'three']]])
  const harms: readonly ((network: ServerNetwork) => void)[] = [
    (network) => network.kill('two'),
    (network) => network.stop('two'),
    (network) => network.cut('one', 'two').cut('three', 'two'),
  ]
  for (const harm of harms) {
    const { network, looks, pass } = await asking(t, streams)
    harm(network)
    await pass(20_000)
    t.same(looks, [])
  }
})

void t.test('a restarted server counts once it has been heard', async (t) => {
  const { network, looks, stepDowns, pass } = await asking(t, new Map([['A', ['one', 'two', 'three']]]))
  network.kill('two')
  await pass(10_000)
  t.same(network.open, ['one', 'three'])
  network.restart('two')
  await pass(15_000)
  t.same([...network.open].sort(), ['one', 'three', 'two'])
  t.same(looks, [])
  network.cut('one', 'two')
  await pass(2_000)
  t.same(stepDowns, ['A to three'])
})

void t.test('leaders are asked every second until others lead, and then checked only occasionally', async (t) => {
  const streams: Streams = new Map([
    ['A', ['one', 'two', 'three']],
    ['B', null],
  ])
  const { network, stepDowns, looks, pass } = await asking(t, streams)
  network.cut('one', 'two')
  await pass(4_000)
  t.same(stepDowns, ['A to three', 'A to three', 'A to three'])
  // One that was elected meanwhile has to go as well.
  streams.set('A', ['three', 'one', 'two']).set('B', ['two', 'one', 'three'])
  await pass(1_000)
  t.same(stepDowns.slice(3), ['B to three'])
  streams.set('B', ['three', 'one', 'two'])
  const before = looks.length
  await pass(21_000)
  t.equal(stepDowns.length, 4)
  t.ok(looks.length - before <= 2 * 3, `${looks.length - before} looks in 21 s`)
})

void t.test('once the servers hear each other again no leader is asked, and the next cut is a new one', async (t) => {
  const { network, stepDowns, pass } = await asking(t, new Map([['A', ['one', 'two', 'three']]]))
  network.cut('one', 'two')
  await pass(2_000)
  t.equal(stepDowns.length, 1)
  network.join('one', 'two')
  await pass(10_000)
  t.equal(stepDowns.length, 1)
  network.cut('one', 'two')
  await pass(2_000)
  t.equal(stepDowns.length, 2)
})

void t.test('a leader that never hands over is asked sixty times, then rarely', async (t) => {
  const { network, stepDowns, pass } = await asking(t, new Map([['A', ['one', 'two', 'three']]]))
  network.cut('one', 'two')
  await pass(90_000)
  const asked = stepDowns.length
  t.ok(asked >= 60 && asked <= 65, `${asked} times in 90 s`)
  await pass(100_000)
  t.ok(stepDowns.length - asked <= 11, `${stepDowns.length - asked} times in another 100 s`)
})

void t.test('stopping closes the connections, and no leader is asked afterwards', async (t) => {
  const { network, handover, stepDowns, pass } = await asking(t, new Map([['A', ['one', 'two', 'three']]]))
  t.equal(network.open.length, 3)
  network.cut('one', 'two')
  await handover.stop()
  handover.start()
  await pass(5_000)
  t.same([stepDowns, network.open], [[], []])
})

void t.test(
  'an older NATS, without a preferred successor, is asked when it can only choose the server that hears all',
  async (t) => {
    const streams: Streams = new Map([['A', ['one', 'two1500', 'three500']]])
    const { network, stepDowns, looks, pass } = await asking(t, streams, { takesSuccessors: false })
    network.cut('one', 'two')
    await pass(2_000)
    t.same(stepDowns, [], 'too early: it might choose the one that it has lost')
    t.ok(looks.length > 0)
    streams.set('A', ['one', 'two3100', 'three500'])
    await pass(1_250)
    t.same(stepDowns, ['A to anyone'])
    // A new leader has heard from nobody yet, and chooses no one that it has not heard from.
    streams.set('A', ['two', 'one0', 'three200'])
    await pass(1_250)
    t.same(stepDowns.slice(1), ['A to anyone'])
  },
)

void t.test('with two servers, neither is watched', async (t) => {
  const { network, pass } = await asking(t, new Map([['A', ['one', 'two', 'three']]]), { size: 2 })
  await pass(10_000)
  t.same(network.open, [])
})

/** Tests of leaders that are asked to hand over: real servers of which two have lost each other, and the bounds of the asking. */
import t from 'tap'
import { LeaderHandover } from '../../../src/fleet/nats/leader-handover.js'
import { NatsClient, type StreamLeadership } from '../../../src/fleet/nats/nats-client.js'
import { systemClock } from '../../../src/support/clock.js'
import { silentLogger } from '../../../src/support/log.js'
import type { FaultProxy } from '../../support/fault-proxy.js'
import { startNatsCluster } from '../../support/nats-process.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'

/** So many that a server leads none of them only once in a hundred times, and two of them none never. */
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
  const lost = (leadership: StreamLeadership | null): boolean =>
    leadership?.followers.some(({ silentMs }) => silentMs > 2_500) === true
  const states = (): Promise<(StreamLeadership | null)[]> => Promise.all(names.map((name) => third!.leadership(name)))
  await until(
    async () => (await states()).every((state) => state !== null && state.followers.length === 2 && !lost(state)),
    'every stream has a leader that hears its replicas',
    30_000,
  )

  const handover = new LeaderHandover({ client: third!, clock: systemClock, logger: silentLogger })
  t.teardown(() => handover.stop())
  for (const link of [routes.get(0)?.get(1), routes.get(1)?.get(0)]) link?.stall()
  await until(async () => (await states()).some(lost), 'a leader has lost a replica', 30_000)
  if (!third!.takesSuccessors) return t.comment('this NATS takes no wish')
  // As a look does it whenever something is not answered.
  const looking = setInterval(() => handover.start(new Set(clients.map(({ serverName }) => serverName))), 1_000)
  t.teardown(() => clearInterval(looking))
  await until(
    async () => (await states()).every((state) => state !== null && !lost(state)),
    'every stream is led by one that hears both others',
    60_000,
  )
})

interface Asked {
  readonly handover: LeaderHandover
  /** The requests: which stream, to whom. */
  readonly stepDowns: string[]
  /** Names of streams, one for each look. */
  readonly looks: string[]
  readonly pass: (ms: number) => Promise<void>
}

interface Asking {
  readonly streams: readonly string[]
  readonly takesSuccessors: boolean
}

function asking(
  leaderships: ReadonlyMap<string, StreamLeadership | null>,
  { streams = [...leaderships.keys()], takesSuccessors = true }: Partial<Asking> = {},
): Asked {
  const clock = new VirtualClock()
  const stepDowns: string[] = []
  const looks: string[] = []
  const client = {
    takesSuccessors,
    usedStreams: streams,
    leadership: async (stream: string) => {
      looks.push(stream)
      return leaderships.get(stream) ?? null
    },
    stepDown: async (stream: string, successor: string) => void stepDowns.push(`${stream} to ${successor}`),
  }
  const handover = new LeaderHandover({ client, clock, logger: silentLogger })
  return { handover, stepDowns, looks, pass: (ms) => clock.advanceInTurns(ms, 100) }
}

const heard = { server: 'heard', silentMs: 400 }
const silent = { server: 'silent', silentMs: 9_000 }
const other = { server: 'other', silentMs: 9_000 }

void t.test('only a leader that has lost a server which is there, and hears another, is asked', async (t) => {
  const { handover, stepDowns, pass } = asking(
    new Map([
      ['LOST', { leader: 'one', followers: [heard, silent] }],
      ['WELL', { leader: 'one', followers: [heard, heard] }],
      ['DOWN', { leader: 'one', followers: [heard, other] }],
      ['ALONE', { leader: 'one', followers: [silent, silent] }],
      ['SINGLE', { leader: 'one', followers: [] }],
      ['LEADERLESS', null],
    ]),
  )
  handover.start(new Set(['heard', 'silent']))
  await pass(900)
  t.same(stepDowns, [], 'nobody at the first look')
  await pass(200)
  t.same(stepDowns, ['LOST to heard'])
  await handover.stop()
})

void t.test('a stream is asked five times at most, and the looks end', async (t) => {
  const { handover, stepDowns, looks, pass } = asking(
    new Map([
      ['LOST', { leader: 'one', followers: [heard, silent] }],
      ['LEADERLESS', null],
    ]),
  )
  handover.start(new Set(['silent']))
  await pass(3_000)
  handover.start(new Set(['silent']))
  await pass(60_000)
  t.equal(stepDowns.length, 5)
  t.equal(looks.filter((stream) => stream === 'LEADERLESS').length, 20, 'a start meanwhile begins no second round')
  handover.start(new Set(['silent']))
  await pass(60_000)
  t.equal(stepDowns.length, 10, 'a new start asks again')
  await handover.stop()
  handover.start(new Set(['silent']))
  await pass(10_000)
  t.equal(stepDowns.length, 10, 'nothing is asked once it was stopped')
})

void t.test('a leader of just now that has not heard its replicas yet is not asked', async (t) => {
  const leaderships = new Map<string, StreamLeadership | null>()
  const { handover, stepDowns, pass } = asking(leaderships, { streams: ['MOVED', 'A', 'B'] })
  handover.start(new Set(['heard', 'silent']))
  for (let i = 0; i < 10; i++) {
    leaderships.set('MOVED', { leader: `leader ${i}`, followers: [heard, silent] })
    await pass(1_000)
  }
  t.same(stepDowns, [])
  // Of three that have lost each other two by two, the two that most streams name are apart.
  for (const stream of ['A', 'B']) leaderships.set(stream, { leader: 'one', followers: [heard, silent] })
  leaderships.set('MOVED', { leader: 'heard', followers: [{ server: 'one', silentMs: 100 }, silent] })
  await pass(2_000)
  t.same(new Set(stepDowns), new Set(['A to heard', 'B to heard']))
  await handover.stop()
})

void t.test('an older NATS, which takes no wish, is not asked', async (t) => {
  const lost = new Map([['LOST', { leader: 'one', followers: [heard, silent] }]])
  const { handover, looks, pass } = asking(lost, { takesSuccessors: false })
  handover.start(new Set(['silent']))
  await pass(10_000)
  t.same(looks, [])
})

void t.test('a stop ends the rounds', async (t) => {
  const { handover, stepDowns, pass } = asking(new Map([['LOST', { leader: 'one', followers: [heard, silent] }]]))
  handover.start(new Set(['silent']))
  await pass(1_100)
  await handover.stop()
  await pass(60_000)
  t.equal(stepDowns.length, 1)
})

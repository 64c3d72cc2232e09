/** Tests that a candidate runs one publisher at a time, however publishing and the lease fail. */
import t from 'tap'
import { BrokerError, type KvEntry, type Leases } from '../../../src/fleet/broker.js'
import { Candidate } from '../../../src/fleet/stream/candidate.js'
import { namesOf } from '../../../src/fleet/stream/names.js'
import type { Publisher } from '../../../src/fleet/stream/publisher.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { testSeeds } from '../../support/test-seeds.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { things } from '../nats-harness.js'

const LEASE_MS = 1_000
/** `deaf` performs requests and loses the responses. */
const LINKS = ['up', 'up', 'up', 'down', 'deaf', 'late'] as const

/** A publisher that has been opened and not been stopped. */
interface Running {
  readonly end: (reason: string) => void
}

void t.test('one process never runs two publishers of a resource', async (t) => {
  let [opened, most] = [0, 0]
  for (const seed of testSeeds(60)) {
    const random = seededRandom(seed)
    const clock = new VirtualClock()
    const running = new Set<Running>()
    let link: (typeof LINKS)[number] = 'up'
    let entry: KvEntry | null = null
    const answer = async <T>(perform: () => T): Promise<T> => {
      if (link === 'down') throw new BrokerError('unavailable', 'no answer')
      const isDeaf = link === 'deaf'
      const performed = perform()
      if (link === 'late') await new Promise<void>((resolve) => void clock.setTimer(600 * random.next(), resolve))
      if (isDeaf) throw new BrokerError('unavailable', 'no answer')
      return performed
    }
    const leases: Leases = {
      kvGet: () => answer(() => entry),
      kvUpdate: (_key, value, expected) =>
        answer(() => {
          if ((entry?.revision ?? 0) !== expected) throw new BrokerError('conflict', 'taken')
          entry = { value, revision: expected + 1 }
          return entry.revision
        }),
    }
    const candidate = new Candidate({
      leases,
      onLate: () => {},
      names: namesOf('test', things),
      holder: 'it',
      leaseMs: LEASE_MS,
      clock,
      random,
      logger: silentLogger,
      onPublishing: () => {},
      openPublisher: (end) => {
        const one: Running = { end }
        running.add(one)
        opened++
        most = Math.max(most, running.size)
        const publisher: Pick<Publisher, 'start' | 'stop'> = {
          start: () => Promise.resolve(),
          stop: () => {
            running.delete(one)
            return Promise.resolve()
          },
        }
        return publisher as Publisher
      },
    })
    candidate.start()
    for (let i = 0; i < 300; i++) {
      if (random.next() < 0.1) link = LINKS[Math.floor(random.next() * LINKS.length)]!
      // Another process takes the lease, or gives it back.
      if (random.next() < 0.03 && entry !== null) {
        const value = Buffer.from(random.next() < 0.5 ? 'another' : '')
        entry = { value, revision: (entry as KvEntry).revision + 1 }
      }
      if (random.next() < 0.15) for (const { end } of running) end('it was refused')
      await clock.advanceInTurns(100, 50)
    }
    link = 'up'
    const stopped = candidate.stop()
    await clock.advanceInTurns(2_000, 100)
    await stopped
    t.equal(running.size, 0, 'none is left')
  }
  t.equal(most, 1)
  t.ok(opened > 600, `${opened} were opened`)
})

void t.test('a candidate that cannot publish lets another try, and tries again itself', async (t) => {
  const clock = new VirtualClock()
  let entry: KvEntry | null = null
  const leases: Leases = {
    kvGet: async () => entry,
    kvUpdate: async (_key, value, expected) => {
      if ((entry?.revision ?? 0) !== expected) throw new BrokerError('conflict', 'taken')
      entry = { value, revision: expected + 1 }
      return entry.revision
    },
  }
  const tried = [0, 0]
  const candidates = [0, 1].map(
    (i) =>
      new Candidate({
        leases,
        onLate: () => {},
        names: namesOf('test', things),
        holder: `c${i}`,
        leaseMs: LEASE_MS,
        clock,
        random: seededRandom(i + 1),
        logger: silentLogger,
        onPublishing: () => {},
        openPublisher: (end) => {
          tried[i]!++
          const publisher: Pick<Publisher, 'start' | 'stop'> = {
            start: async () => end('no room'),
            stop: () => Promise.resolve(),
          }
          return publisher as Publisher
        },
      }),
  )
  for (const candidate of candidates) candidate.start()
  await clock.advanceInTurns(20 * LEASE_MS, 50)
  t.ok(
    tried.every((count) => count >= 6),
    `tried ${tried.join(' and ')} times`,
  )
  const stopping = Promise.all(candidates.map((candidate) => candidate.stop()))
  await clock.advanceInTurns(2 * LEASE_MS, 50)
  await stopping
  t.equal(clock.pending, 0)
})

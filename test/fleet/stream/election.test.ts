/**
 * Tests the lease with a virtual clock: two candidates are never certain at the same time that they hold it, as long as
 * their clocks run at the same rate, and eventually one holds it.
 */
import t, { type Test } from 'tap'
import { Election } from '../../../src/fleet/stream/election.js'
import { namesOf } from '../../../src/fleet/stream/names.js'
import { BrokerError } from '../../../src/fleet/broker.js'
import type { KvEntry, Leases } from '../../../src/fleet/broker.js'

import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { things } from '../nats-harness.js'

const LEASE_MS = 1_000

/** A register with compare-and-swap, instead of a bucket. */
class Register {
  entry: KvEntry | null = null
  /** The entry that a lagging replica still has; every other read returns it. */
  lagging: KvEntry | null = null
  /** Why reads are refused; null while they are not. */
  refusal: string | null = null
  /** Whether reads are answered but writes are not. */
  isDeafForWrites = false
  /** This many further writes are neither performed nor ever answered. */
  hangs = 0
  /** Answers that arrived after the client gave up. */
  late = 0
  /** How long the response to a write takes. */
  slow: { readonly ms: number; readonly clock: VirtualClock } | null = null
  #looks = 0

  #look(): KvEntry | null {
    return this.lagging !== null && this.#looks++ % 2 === 1 ? this.lagging : this.entry
  }

  /**
   * @param link `down` cuts the link: requests are lost. With `deaf` they are performed, and the responses are lost.
   */
  leases(link: { state: 'up' | 'down' | 'deaf' }): Leases {
    const unavailable = (): Promise<never> => Promise.reject(new BrokerError('unavailable', 'no answer'))
    return {
      kvGet: () => {
        if (link.state !== 'up') return unavailable()
        return this.refusal === null
          ? Promise.resolve(this.#look())
          : Promise.reject(new BrokerError('refused', this.refusal))
      },
      kvUpdate: (_key, value, expected) => {
        if (link.state === 'down') return unavailable()
        if (this.hangs > 0) {
          this.hangs--
          return new Promise(() => {})
        }
        if ((this.entry?.revision ?? 0) !== expected) return Promise.reject(new BrokerError('conflict', 'taken'))
        this.entry = { value, revision: expected + 1 }
        if (this.slow !== null) {
          const { ms, clock } = this.slow
          return new Promise((resolve) => void clock.setTimer(ms, () => resolve(expected + 1)))
        }
        return link.state === 'deaf' || this.isDeafForWrites ? unavailable() : Promise.resolve(expected + 1)
      },
    }
  }
}

interface Candidate {
  readonly election: Election
  readonly link: { state: 'up' | 'down' | 'deaf' }
  readonly told: string[]
  readonly warnings: string[]
  readonly errors: unknown[]
}

interface World {
  readonly clock: VirtualClock
  readonly register: Register
  readonly candidates: readonly Candidate[]
  readonly leaders: () => readonly number[]
  /** Advances the clock, and checks after every step that at most one candidate is certain. */
  pass(ms: number): Promise<void>
}

/** @param bug thrown by every callback. */
function world(t: Test, count: number, bug: Error | null = null): World {
  const clock = new VirtualClock()
  const register = new Register()
  const candidates = Array.from({ length: count }, (_, i): Candidate => {
    const link: Candidate['link'] = { state: 'up' }
    const told: string[] = []
    const warnings: string[] = []
    const errors: unknown[] = []
    const error = ({ err }: { readonly err?: unknown }): void => void errors.push(err)
    const warn = ({ reason }: { readonly reason?: string }): void => void warnings.push(reason ?? '')
    const election = new Election({
      leases: register.leases(link),
      onLate: () => void register.late++,
      names: namesOf('test', things),
      holder: `c${i}`,
      leaseMs: LEASE_MS,
      clock,
      random: seededRandom(i + 1),
      logger: { ...silentLogger, warn, error } as typeof silentLogger,
      onElected: () => {
        told.push('elected')
        if (bug !== null) throw bug
      },
      onLost: (reason) => {
        told.push(reason)
        if (bug !== null) throw bug
      },
    })
    return { election, link, told, warnings, errors }
  })
  const leaders = (): number[] => candidates.flatMap(({ election }, i) => (election.isLeader ? [i] : []))
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 20) {
      await clock.advanceInTurns(20, 20)
      const certain = candidates.flatMap(({ election }, i) => (election.isCertain ? [i] : []))
      if (certain.length > 1) t.fail(`${certain.join(' and ')} are both certain that they hold the lease`)
    }
  }
  return { clock, register, candidates, leaders, pass }
}

void t.test('one of four candidates is elected within a lease, and stays elected', async (t) => {
  const w = world(t, 4)
  for (const { election } of w.candidates) election.start()
  await w.pass(LEASE_MS)
  const [leader] = w.leaders()
  t.equal(w.leaders().length, 1)
  await w.pass(20 * LEASE_MS)
  t.same(w.leaders(), [leader])
  t.same(w.candidates[leader!]!.told, ['elected'])
})

void t.test('a refused lease is logged once per reason, and an unanswered one is not logged', async (t) => {
  const all = world(t, 1)
  const { register, candidates } = all
  const [{ election, link, warnings }] = candidates as [Candidate]
  link.state = 'down'
  election.start()
  await all.pass(20_000)
  t.strictSame(warnings, [], 'whoever watches the connection reports that')
  link.state = 'up'
  register.refusal = 'no room'
  await all.pass(20_000)
  t.strictSame(warnings, ['no room'])
  register.refusal = 'no servers'
  await all.pass(20_000)
  register.refusal = null
  await all.pass(2_000)
  t.equal(election.isLeader, true)
  t.strictSame(warnings, ['no room', 'no servers'])
  await election.stop()
})

void t.test('a bug in a callback is logged as an error, and the candidate goes on', async (t) => {
  const bug = new Error('a bug')
  const all = world(t, 1, bug)
  const [{ election, told, errors }] = all.candidates as [Candidate]
  election.start()
  await all.pass(LEASE_MS)
  t.strictSame(errors, [bug])
  all.register.entry = { value: Buffer.from('another'), revision: 100 }
  await all.pass(LEASE_MS)
  t.strictSame(told, ['elected', 'another replica has taken the lease'])
  t.strictSame(errors, [bug, bug])
  await all.pass(2 * LEASE_MS)
  t.equal(told.at(-1), 'elected')
  await election.stop()
})

void t.test('a holder that stops releases the lease, and another takes it at its next check', async (t) => {
  const w = world(t, 2)
  w.candidates[0]!.election.start()
  await w.pass(LEASE_MS)
  w.candidates[1]!.election.start()
  await w.pass(LEASE_MS)
  t.same(w.leaders(), [0])
  await w.candidates[0]!.election.stop()
  await w.pass(LEASE_MS * 0.35)
  t.same(w.leaders(), [1], 'before a lease has run out')
})

void t.test('a candidate that has stopped may start again, and one candidate is elected', async (t) => {
  const w = world(t, 2)
  for (const { election } of w.candidates) election.start()
  await w.pass(LEASE_MS)
  const [first] = w.leaders()
  const { election } = w.candidates[first!]!
  await election.stop()
  t.same(w.leaders(), [])
  await w.pass(LEASE_MS)
  const [second] = w.leaders()
  t.not(second, first)
  election.start()
  await w.pass(2 * LEASE_MS)
  t.same(w.leaders(), [second])
})

void t.test('a candidate that could not release its lease may take it again', async (t) => {
  const w = world(t, 1)
  const [{ election, link }] = w.candidates as [Candidate]
  election.start()
  await w.pass(LEASE_MS)
  link.state = 'down'
  await election.stop()
  link.state = 'up'
  election.start()
  await w.pass(LEASE_MS * 0.35)
  t.ok(election.isCertain, 'before it has run out')
})

for (const state of ['down', 'deaf'] as const) {
  void t.test(`a holder that is cut off (${state}) is in doubt before another can begin, and notices it`, async (t) => {
    const w = world(t, 3)
    for (const { election } of w.candidates) election.start()
    await w.pass(2 * LEASE_MS)
    const [first] = w.leaders()
    const holder = w.candidates[first!]!
    holder.link.state = state
    await w.pass(LEASE_MS)
    t.notOk(holder.election.isCertain)
    t.same(holder.told, ['elected'], 'it stays elected')
    await w.pass(1.5 * LEASE_MS)
    const [second] = w.leaders().filter((leader) => leader !== first)
    t.equal(w.leaders().length, 2, 'another was elected')
    holder.link.state = 'up'
    await w.pass(0.5 * LEASE_MS)
    t.same(holder.told, ['elected', 'another replica has taken the lease'])
    await w.pass(3 * LEASE_MS)
    t.same(w.leaders(), [second], 'and it does not take it back')
  })
}

void t.test(
  'while NATS does not answer, the holder stays, and its lease is not taken before it is renewed',
  async (t) => {
    for (const leases of [1, 3, 5]) {
      const w = world(t, 4)
      for (const { election } of w.candidates) election.start()
      await w.pass(2 * LEASE_MS)
      const [first] = w.leaders()
      for (const { link } of w.candidates) link.state = 'down'
      await w.pass(leases * LEASE_MS)
      const { election, told } = w.candidates[first!]!
      t.equal(election.isCertain, false)
      for (const { link } of w.candidates) link.state = 'up'
      await w.pass(4 * LEASE_MS)
      t.equal(election.isCertain, true)
      t.same(told, ['elected'], `${leases} leases`)
      t.same(w.leaders(), [first])
    }
  },
)

void t.test('a lease in doubt for six times its duration is given up, and taken again later', async (t) => {
  const w = world(t, 1)
  const [{ election, link, told }] = w.candidates as [Candidate]
  election.start()
  await w.pass(2 * LEASE_MS)
  link.state = 'down'
  await w.pass(6 * LEASE_MS)
  t.same(told, ['elected'])
  await w.pass(LEASE_MS)
  t.same(told, ['elected', 'the lease could not be renewed'])
  link.state = 'up'
  await w.pass(LEASE_MS)
  t.ok(election.isCertain)
})

void t.test('a renewal that succeeded without an answer is recognized, and the holder continues', async (t) => {
  for (const candidates of [1, 3]) {
    const w = world(t, candidates)
    for (const { election } of w.candidates) election.start()
    await w.pass(2 * LEASE_MS)
    const [first] = w.leaders()
    const holder = w.candidates[first!]!
    for (let lost = 0; lost < 10; lost++) {
      const { revision } = w.register.entry!
      holder.link.state = 'deaf'
      while (w.register.entry!.revision === revision) await w.pass(20)
      holder.link.state = 'up'
      await w.pass(LEASE_MS)
    }
    t.same(w.leaders(), [first])
    t.same(holder.told, ['elected'], 'it was never taken for the renewal of another')
  }
})

void t.test('a candidate whose first claim was not answered takes the lease at its next check', async (t) => {
  const w = world(t, 1)
  const [only] = w.candidates
  only!.link.state = 'up'
  // The candidate can read, and its write is performed but not answered.
  w.register.isDeafForWrites = true
  only!.election.start()
  while (w.register.entry === null) await w.pass(20)
  w.register.isDeafForWrites = false
  await w.pass(LEASE_MS * 0.35)
  t.same(w.leaders(), [0], 'before its own lease has run out')
})

void t.test('an unanswered request to NATS costs a part of a lease, not all of it', async (t) => {
  const w = world(t, 1)
  const [only] = w.candidates
  only!.election.start()
  await w.pass(2 * LEASE_MS)
  w.register.hangs = 1
  await w.pass(LEASE_MS)
  t.equal(w.register.hangs, 0, 'one was lost')
  t.equal(w.register.late, 1, 'which is reported long before NATS itself gives up')
  t.same(w.leaders(), [0])
  t.same(only!.told, ['elected'])
})

void t.test('with a NATS that needs four tenths of a lease per answer the publisher stays', async (t) => {
  const w = world(t, 2)
  for (const { election } of w.candidates) election.start()
  await w.pass(2 * LEASE_MS)
  const [first] = w.leaders()
  w.register.slow = { ms: LEASE_MS * 0.4, clock: w.clock }
  await w.pass(20 * LEASE_MS)
  t.same(w.leaders(), [first])
  t.same(w.candidates[first!]!.told, ['elected'])
})

void t.test('a lease taken by force is lost at the next renewal', async (t) => {
  const w = world(t, 1)
  const [{ election, told }] = w.candidates as [Candidate]
  election.start()
  await w.pass(LEASE_MS)
  w.register.entry = { value: Buffer.from('thief'), revision: w.register.entry!.revision + 1 }
  await w.pass(LEASE_MS * 0.4)
  t.equal(told.at(-1), 'another replica has taken the lease')
  await w.pass(2 * LEASE_MS)
  t.ok(election.isLeader, 'the thief does not renew: it runs out')
})

void t.test('the lease still expires when a lagging NATS replica answers every other read', async (t) => {
  const w = world(t, 2)
  w.register.entry = { value: Buffer.from('dead'), revision: 2_551 }
  w.register.lagging = { value: Buffer.from('dead'), revision: 2_539 }
  for (const { election } of w.candidates) election.start()
  await w.pass(2.5 * LEASE_MS)
  t.equal(w.leaders().length, 1, 'elected within two leases and a look')
  const [first] = w.leaders()
  await w.pass(10 * LEASE_MS)
  t.same(w.leaders(), [first], 'and it stays')
})

void t.test('when NATS loses acknowledged writes, the remaining holder keeps the lease', async (t) => {
  const w = world(t, 3)
  for (const { election } of w.candidates) election.start()
  await w.pass(20 * LEASE_MS)
  t.equal(w.leaders().length, 1)
  t.ok(w.register.entry!.revision > 20)
  w.register.entry = { value: w.register.entry!.value, revision: 3 }
  const [first] = w.leaders()
  await w.pass(12 * LEASE_MS)
  t.same(w.leaders(), [first], 'its renewals are below what the others have seen, and count')
  t.ok(w.candidates[first!]!.election.isCertain)
  t.same(w.candidates.map(({ told }) => told).flat(), ['elected'], 'nobody took it from it')
})

void t.test('with links that come and go at random there are never two publishers, and one in the end', async (t) => {
  const w = world(t, 4)
  const random = seededRandom(11)
  for (const { election } of w.candidates) election.start()
  let elections = 0
  for (let i = 0; i < 60; i++) {
    const { link } = w.candidates[Math.floor(random.next() * 4)]!
    link.state = (['up', 'up', 'down', 'deaf'] as const)[Math.floor(random.next() * 4)]!
    await w.pass(LEASE_MS * random.next())
  }
  for (const { link } of w.candidates) link.state = 'up'
  await w.pass(4 * LEASE_MS)
  elections = w.candidates.reduce((sum, { told }) => sum + told.filter((word) => word === 'elected').length, 0)
  t.equal(w.leaders().length, 1)
  t.ok(elections > 3, `${elections} elections`)
})

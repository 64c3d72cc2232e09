/** Tests how far a subscriber may trust the publisher's reports about etcd, on time or late. */
import t from 'tap'
import { Confirmations } from '../../../src/fleet/stream/confirmations.js'
import type { PublisherStatus } from '../../../src/fleet/stream/publisher-status.js'

const word = (more: Partial<PublisherStatus>): PublisherStatus => ({
  epoch: 1,
  session: 1,
  sequence: 10,
  at: 0,
  ageMs: 0,
  trouble: null,
  ...more,
})

/** @returns whether the status counts. */
function hears(confirmations: Confirmations, status: PublisherStatus, nowMs: number): boolean {
  const sentMs = confirmations.note(status, nowMs)
  if (sentMs !== null && status.ageMs !== null) confirmations.expect(status, sentMs - status.ageMs)
  return sentMs !== null
}

void t.test('a status counts once every message it covers has arrived', async (t) => {
  const confirmations = new Confirmations()
  t.equal(confirmations.confirmedMs, null)
  hears(confirmations, word({ sequence: 10, at: 5_000 }), 100)
  t.notOk(confirmations.reached(9, 1))
  t.equal(confirmations.confirmedMs, null, 'a message of it is missing')
  hears(confirmations, word({ sequence: 12, at: 6_000, ageMs: 30 }), 1_100)
  t.ok(confirmations.reached(11, 1))
  t.equal(confirmations.confirmedMs, 100)
  t.ok(confirmations.reached(12, 1))
  t.equal(confirmations.confirmedMs, 1_070, 'by as much older as the publisher says')
  hears(confirmations, word({ sequence: 12, at: 7_000, ageMs: 9_000 }), 2_100)
  t.notOk(confirmations.reached(12, 1), 'what was known before stays known')
  hears(confirmations, word({ sequence: 12, at: 8_000, ageMs: null }), 3_100)
  t.notOk(confirmations.reached(12, 1), 'who knows nothing of etcd confirms nothing')
  await Promise.resolve()
})

void t.test('a status about messages that NATS has lost holds up no later one', (t) => {
  const confirmations = new Confirmations()
  hears(confirmations, word({ sequence: 12, at: 5_000 }), 100)
  // The server has restarted without its last messages, and another publisher continues.
  hears(confirmations, word({ sequence: 11, at: 8_000, epoch: 2 }), 3_100)
  t.ok(confirmations.reached(11, 2))
  t.equal(confirmations.confirmedMs, 3_100)
  t.end()
})

void t.test('nor does one of the same epoch, if NATS has lost the claim with them', (t) => {
  const confirmations = new Confirmations()
  hears(confirmations, word({ sequence: 12, at: 5_000, epoch: 2 }), 100)
  hears(confirmations, word({ sequence: 10, at: 8_000, epoch: 2 }), 3_100)
  t.ok(confirmations.reached(10, 2))
  t.equal(confirmations.confirmedMs, 3_100)
  t.end()
})

void t.test('a status of a publisher whose epoch NATS has lost holds up no later one', (t) => {
  const confirmations = new Confirmations()
  hears(confirmations, word({ sequence: 12, at: 5_000, epoch: 2 }), 100)
  // The server has restarted without the claim, and the publisher before it goes on.
  hears(confirmations, word({ sequence: 12, at: 8_000 }), 5_100)
  t.ok(confirmations.reached(12, 1))
  t.equal(confirmations.confirmedMs, 5_100)
  t.end()
})

void t.test('late statuses make no data fresher, however the clocks differ', async (t) => {
  const confirmations = new Confirmations()
  const hear = (at: number, nowMs: number, epoch = 1): number | null => {
    hears(confirmations, word({ at, epoch }), nowMs)
    confirmations.reached(10, epoch)
    return confirmations.confirmedMs
  }
  t.equal(hear(1_000_000, 50), 50)
  t.equal(hear(1_001_000, 1_050), 1_050)
  // A server that was stopped for eight seconds delivers its buffered messages.
  const late = hear(1_002_000, 10_050)
  t.ok(late !== null && late >= 2_050 && late < 2_100, `${late}`)
  t.ok(hear(1_010_000, 10_060)! >= 10_050, 'the newest of them is nearly in time')
  t.equal(hear(77, 11_000, 2), 11_000, 'another publisher has another clock')
  await Promise.resolve()
})

void t.test('a status counts once, and an epoch’s clock stays known while statuses of another arrive', async (t) => {
  const confirmations = new Confirmations()
  const hear = (at: number, nowMs: number, epoch: number): number | null => {
    if (!hears(confirmations, word({ at, epoch }), nowMs)) return null
    confirmations.reached(10, 2)
    return confirmations.confirmedMs
  }
  t.equal(hear(1_000, 50, 1), 50)
  t.equal(hear(70_000, 60, 2), 60)
  t.equal(hear(71_000, 1_060, 2), 1_060)
  t.equal(hear(71_000, 1_060, 2), null, 'the same again')
  t.equal(hear(70_000, 1_070, 2), null, 'one from before')
  t.equal(hear(1_000, 1_080, 1), null, 'one of another epoch')
  const late = hear(72_000, 600_060, 2)
  t.ok(late !== null && late >= 2_060 && late < 2_400, `one that was held back for ten minutes: ${late}`)
  const before = hear(2_000, 600_070, 1)
  t.equal(before, late, 'nor does one of the epoch before make anything younger')
  for (let epoch = 3; epoch <= 66; epoch++) hear(0, 600_080, epoch)
  t.equal(hear(2_000_000, 600_090, 2), null, 'of old epochs only so many are remembered, and the others do not count')
  await Promise.resolve()
})

void t.test('two publishers of one epoch, when the first wrote no message, each have a clock', async (t) => {
  const confirmations = new Confirmations()
  const hear = (session: number, at: number, nowMs: number): number | null => {
    if (!hears(confirmations, word({ at, session }), nowMs)) return null
    confirmations.reached(10, 1)
    return confirmations.confirmedMs
  }
  t.equal(hear(1, 3_600_000, 50), 50)
  t.equal(hear(2, 2_000, 5_050), 5_050, 'that of the next process began later')
  t.equal(hear(2, 2_000, 6_050), null, 'and what it says counts once as well')
  for (let session = 3; session <= 200; session++) {
    t.equal(hear(session, 10, 10_000 + session), 10_000 + session, 'however often one is started')
  }
  t.equal(hear(2, 9_000, 20_000), null, 'of those before only so many are remembered')
  await Promise.resolve()
})

void t.test('the number of waiting statuses is bounded, and a replica far behind still learns its age', async (t) => {
  const confirmations = new Confirmations()
  for (let i = 1; i <= 1_000; i++) hears(confirmations, word({ sequence: i, at: i * 1_000 }), i * 1_000)
  t.ok(confirmations.reached(5, 1))
  t.equal(confirmations.confirmedMs, 5_000)
  t.ok(confirmations.reached(1_000, 1))
  t.equal(confirmations.confirmedMs, 1_000_000)
  await Promise.resolve()
})

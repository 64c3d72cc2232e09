/** Tests the age that a publisher reports for its stream. */
import t, { type Test } from 'tap'
import { readPublisherStatus } from '../../../src/fleet/stream/publisher-status.js'
import { namesOf } from '../../../src/fleet/stream/names.js'
import { PublishQueue } from '../../../src/fleet/stream/publish-queue.js'
import { StatusSender } from '../../../src/fleet/stream/status-sender.js'
import { type Batch, keyFromText } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { nextTurn, VirtualClock } from '../../support/virtual-clock.js'
import { things, unsigned } from '../nats-harness.js'

const batch: Batch = { revision: toRevision(2), events: [{ type: 'delete', key: keyFromText('/registry/things/a') }] }

/** A sender whose etcd answers at once, or not at all; the stream takes a message when the test says so. */
function sender(t: Test) {
  const clock = new VirtualClock()
  const etcd = { answers: true, asked: 0, answeredMs: null as number | null, isCaughtUp: false }
  const ages: (number | null | undefined)[] = []
  const sessions = new Set<number>()
  const feed = {
    get ageMs() {
      return etcd.isCaughtUp && etcd.answeredMs !== null ? clock.monotonic() - etcd.answeredMs : null
    },
    confirm: async () => {
      if (!etcd.answers) return await new Promise<never>(() => {})
      if (etcd.answeredMs !== null && clock.monotonic() - etcd.answeredMs < 500) return
      etcd.asked++
      etcd.answeredMs = clock.monotonic()
    },
  }
  const status = new StatusSender({
    client: {
      publish: (_subject, data) => {
        const { ageMs, session } = readPublisherStatus(unsigned.open('status', '', data)!)!
        ages.push(ageMs)
        sessions.add(session)
      },
    },
    names: namesOf('test', things),
    envelope: unsigned,
    feed,
    clock,
    position: () => ({ epoch: 1, sequence: 7 }),
    prove: (requestedAtMs) => queue.addProof(requestedAtMs),
    onSent: () => {},
  })
  const queue = new PublishQueue(clock)
  let written = (): void => {}
  const run = async (): Promise<void> => {
    for (let item = await queue.next(); item !== null; item = await queue.next()) {
      if (item.kind === 'proof') status.proven(item.requestedAtMs)
      else await new Promise<void>((resolve) => (written = resolve))
    }
  }
  void run()
  t.teardown(() => {
    status.stop()
    queue.close()
    written()
  })
  const published = async (): Promise<void> => {
    written()
    await nextTurn()
  }
  const caughtUp = (): void => {
    etcd.isCaughtUp = true
    status.caughtUp()
  }
  return { clock, etcd, ages, sessions, status, caughtUp, received: () => queue.addBatches([batch]), published }
}

void t.test('the age counts from the last request to etcd, once the feed has caught up', async (t) => {
  const { clock, ages, status, caughtUp } = sender(t)
  status.start()
  await clock.advanceInTurns(3_000, 50)
  t.strictSame(new Set(ages), new Set([null]), 'it has not caught up')
  caughtUp()
  await clock.advanceInTurns(4_000, 50)
  t.ok(ages.at(-1)! <= 500, `${ages.at(-1)}`)
})

void t.test('a late event does not make the stream fresher than its last proof', async (t) => {
  const { clock, etcd, ages, status, caughtUp, received, published } = sender(t)
  status.start()
  caughtUp()
  await clock.advanceInTurns(3_000, 50)
  // As after SIGSTOP: nothing is asked or received for a while, then the event is there, and the stream has it later.
  etcd.answers = false
  await clock.advanceInTurns(6_000, 50)
  etcd.answers = true
  received()
  await clock.advanceInTurns(5_000, 50)
  t.ok(ages.at(-1)! >= 10_000, `the stream lacks what etcd had all the time, and is ${ages.at(-1)} ms old`)
  await published()
  await clock.advanceInTurns(2_000, 50)
  t.ok(ages.at(-1)! <= 500, `${ages.at(-1)}`)
})

void t.test('an answer counts once the stream has the events before it, and waits for no later ones', async (t) => {
  const { clock, ages, status, caughtUp, received, published } = sender(t)
  status.start()
  caughtUp()
  await clock.advanceInTurns(3_000, 50)
  received()
  const told = ages.length
  await clock.advanceInTurns(1_000, 50)
  received()
  await published()
  t.ok(ages.length > told)
  t.ok(ages.at(-1)! <= 1_000, `${ages.at(-1)}`)
  await clock.advanceInTurns(60_000, 50)
  t.ok(ages.at(-1)! >= 58_000, 'what came after was never written')
})

void t.test('a request from before the feed had caught up confirms no freshness', async (t) => {
  const { clock, etcd, ages, status, caughtUp } = sender(t)
  status.start()
  await clock.advanceInTurns(50, 50)
  t.equal(etcd.asked, 1)
  caughtUp()
  await clock.advanceInTurns(50, 50)
  t.equal(ages.at(-1), null)
  await clock.advanceInTurns(600, 50)
  t.equal(etcd.asked, 2)
  t.ok(ages.at(-1)! <= 100, `${ages.at(-1)}`)
})

void t.test('events that reach the stream after the regular status are reported at once', async (t) => {
  const { clock, ages, status, caughtUp, received, published } = sender(t)
  status.start()
  caughtUp()
  await clock.advanceInTurns(3_000, 50)
  received()
  // The question asked in the meantime waits for the message in flight; the regular status does not.
  const toldBefore = ages.length
  while (ages.length === toldBefore) await clock.advanceInTurns(50, 50)
  t.ok(ages.at(-1)! > 500, `${ages.at(-1)}: as old as the proof before`)
  const regular = ages.length
  await published()
  t.equal(ages.length, regular + 1)
  t.ok(ages.at(-1)! <= 500, `${ages.at(-1)}`)
})

void t.test('a pause of the machine begins a new session, and counts in the age', async (t) => {
  const { clock, etcd, ages, sessions, status, caughtUp } = sender(t)
  status.start()
  caughtUp()
  await clock.advanceInTurns(3_000, 50)
  // Small corrections of the time of day are no pause.
  for (const ms of [400, -5_000]) {
    clock.jump(ms)
    await clock.advanceInTurns(1_500, 50)
  }
  t.equal(sessions.size, 1)
  etcd.answers = false
  clock.jump(3_600_000)
  await clock.advanceInTurns(2_000, 50)
  t.equal(sessions.size, 2)
  t.ok(ages.at(-1)! >= 3_600_000, `${ages.at(-1)}`)
  etcd.answers = true
  await clock.advanceInTurns(2_000, 50)
  t.ok(ages.at(-1)! <= 500, `${ages.at(-1)}`)
  const [before, after] = [...sessions]
  t.ok(after! > before!)
})

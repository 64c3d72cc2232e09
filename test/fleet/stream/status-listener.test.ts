/** Tests what a sink learns from the publisher's statuses, and from messages that are not statuses. */
import t, { type Test } from 'tap'
import { StatusListener } from '../../../src/fleet/stream/status-listener.js'
import { namesOf } from '../../../src/fleet/stream/names.js'
import { takenAtOf } from '../../../src/fleet/stream/snapshot-store.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { things, unsigned } from '../nats-harness.js'
import { RecordingSink } from '../../engine/feed/recording-sink.js'

/** A listener at message 7 of epoch 1; the test supplies its messages. */
function listen(t: Test): {
  readonly clock: VirtualClock
  readonly sink: RecordingSink
  readonly listener: StatusListener
  /** The confirmed ages in milliseconds, in order. */
  readonly ages: readonly number[]
  /** The times from which they are counted. */
  readonly asOf: readonly number[]
  /** When the server was doubted. */
  readonly doubtedMs: readonly number[]
  /** The source of each confirmation of the content. */
  readonly confirmedBy: readonly string[]
  /** The last message that has arrived. */
  readonly place: { sequence: number }
  /** Why the stream was found not to deliver. */
  readonly stuck: readonly string[]
  readonly hear: (data: Buffer) => void
  /** A status with the current time. */
  readonly status: (epoch: number, sequence: number, ageMs?: number | null) => Buffer
} {
  const clock = new VirtualClock()
  const ages: number[] = []
  const asOf: number[] = []
  const confirmedBy: string[] = []
  const doubtedMs: number[] = []
  const stuck: string[] = []
  const place = { sequence: 7, epoch: 1 }
  const confirmed = (ageMs: number): void => {
    ages.push(ageMs)
    asOf.push(clock.monotonic() - ageMs)
  }
  const sink = Object.assign(new RecordingSink(), { confirmed, etcd: null })
  let hear: (data: Buffer) => void = () => {}
  const listener = new StatusListener({
    client: {
      subscribe: (_subject, onMessage) => {
        hear = onMessage
        return { close: () => {} }
      },
      doubt: () => doubtedMs.push(clock.monotonic()),
    },
    names: namesOf('test', things),
    envelope: unsigned,
    sink,
    clock,
    position: () => place,
    isCurrent: () => true,
    onStuck: (reason) => stuck.push(reason),
    onConfirmed: () => {},
    onReached: () => confirmedBy.push('the publisher'),
  })
  t.teardown(() => listener.stop())
  listener.start()
  listener.following()
  const status = (epoch: number, sequence: number, ageMs: number | null = 0): Buffer =>
    Buffer.from(JSON.stringify({ epoch, session: 1, sequence, at: clock.monotonic(), ageMs, trouble: null }))
  return { clock, sink, listener, ages, asOf, doubtedMs, confirmedBy, place, stuck, hear: (data) => hear(data), status }
}

void t.test('messages other than statuses are ignored, and the next status counts', async (t) => {
  const { sink, hear, status } = listen(t)
  const others = ['hello', '', 'null', '3', '[]', '{}', '{"epoch":"1","sequence":7,"trouble":null}']
  others.push('{"epoch":1,"sequence":7,"at":{},"trouble":null}', '{"epoch":1,"sequence":7,"trouble":"gone"}')
  for (const other of others) {
    t.doesNotThrow(() => hear(Buffer.from(other)), other)
    t.equal(sink.isSynced, false, other)
  }
  hear(status(1, 7))
  t.equal(sink.isSynced, true)
  await Promise.resolve()
})

for (const { what, writtenAgoMs, told } of [
  { what: 'what was written an hour ago is served as an hour old', writtenAgoMs: 3_600_000, told: [3_604_000] },
  { what: 'content of an unknown age is never called fresh', writtenAgoMs: null, told: [] },
]) {
  void t.test(`without a publisher, ${what}`, (t) => {
    const { clock, listener, ages } = listen(t)
    listener.moved({ sequence: 7, epoch: 1 }, writtenAgoMs === null ? null : clock.now() - writtenAgoMs)
    listener.following()
    for (let i = 0; i < 8; i++) clock.advance(500)
    t.strictSame(ages, told)
    t.end()
  })
}

void t.test('without a publisher, setting the clock back does not make data younger', (t) => {
  for (const jumpMs of [-3_600_000, 3_600_000]) {
    const { clock, listener } = listen(t)
    listener.moved({ sequence: 7, epoch: 1 }, clock.now() - 60_000)
    clock.jump(jumpMs)
    clock.advance(1_000)
    t.equal(listener.writtenMs, 61_000)
  }
  t.end()
})

void t.test('once the next publisher is heard, the previous one is ignored', (t) => {
  const { clock, ages, hear, status } = listen(t)
  const say = (epoch: number, sequence: number, ageMs: number | null = 0): void => hear(status(epoch, sequence, ageMs))
  say(1, 7)
  t.same(ages, [0])
  clock.advance(400)
  say(2, 8, null)
  say(1, 7)
  t.same(ages, [0], 'what message 8 brings has not come, and the stream refuses what the first publisher writes')
  for (let i = 0; i < 8; i++) clock.advance(500)
  say(1, 7)
  t.same(ages, [0, 0], 'the epoch of one that has fallen silent may be gone, with the end of the stream')
  t.end()
})

void t.test('a broker that withholds the stream and replays the last statuses of two epochs hides no age', (t) => {
  const { clock, sink, listener, asOf, hear, status } = listen(t)
  const startedMs = clock.monotonic()
  hear(status(1, 7))
  t.equal(sink.isSynced, true)
  clock.advance(1_000)
  const last = status(1, 7)
  hear(last)
  clock.advance(2_000)
  const next = status(2, 7, null)
  hear(next)
  for (let i = 0; i < 150; i++) {
    clock.advance(4_000)
    hear(i % 2 === 0 ? last : next)
  }
  t.equal(Math.max(...asOf) - startedMs, 1_000, 'nothing younger than the last true status was ever reported')
  t.equal(listener.ageMs, clock.monotonic() - startedMs - 1_000, 'ten minutes later the age is ten minutes')
  t.ok(listener.ageMs! > 600_000)
  t.end()
})

void t.test('a status that is replayed does not end a wait for the publisher, whatever its epoch', async (t) => {
  const { clock, listener, hear, status } = listen(t)
  const heard = async (data: Buffer): Promise<boolean> => {
    const signal = new AbortController()
    let isHeard = false
    const waiting = listener.nextFreshStatus(signal.signal).then(() => (isHeard = !signal.signal.aborted))
    hear(data)
    await Promise.resolve()
    signal.abort()
    await waiting
    return isHeard
  }
  const [of0, of1] = [status(0, 9), status(1, 9)]
  t.equal(await heard(of1), true)
  t.equal(await heard(of0), true, 'a stream that was recreated begins with lower epochs')
  clock.advance(10_000)
  t.equal(await heard(of1), false)
  t.equal(await heard(of0), false)
  t.equal(await heard(status(1, 9)), true)
})

void t.test('a publisher that was never heard is not a reason to leave a server', (t) => {
  const { clock, listener, doubtedMs, hear, status } = listen(t)
  listener.moved({ sequence: 7, epoch: 1 }, null)
  listener.following()
  for (let i = 0; i < 600; i++) clock.advance(500)
  t.strictSame(doubtedMs, [], 'a resource without a publisher leaves the connection of all others alone')
  hear(status(1, 7))
  for (let i = 0; i < 20; i++) clock.advance(500)
  t.ok(doubtedMs.length > 0, 'one that was heard may be behind another server')
  t.end()
})

void t.test('a publisher that is silent at every server is not a reason to leave one server after another', (t) => {
  const { clock, doubtedMs, hear, status } = listen(t)
  hear(status(1, 7))
  const silence = (): number => {
    const before = doubtedMs.length
    for (let i = 0; i < 7_200; i++) clock.advance(500)
    return doubtedMs.length - before
  }
  t.ok(silence() > 100, 'each server is tried')
  const endedMs = doubtedMs.at(-1)!
  t.ok(clock.monotonic() - endedMs > 50 * 60_000, 'and then none is doubted for the rest of an hour')
  hear(status(1, 7))
  t.ok(silence() > 100, 'one that was heard since may have been lost with this server')
  t.end()
})

void t.test('only a status of the publisher counts as its confirmation', async (t) => {
  const { clock, listener, sink, confirmedBy, hear, status } = listen(t)
  listener.confirmed(0)
  listener.consider()
  t.ok(sink.isSynced)
  t.same(confirmedBy, [], 'etcd has confirmed it')
  clock.advance(100)
  hear(status(1, 7))
  t.same(confirmedBy, ['the publisher'])
  clock.advance(100)
  hear(status(1, 8))
  t.same(confirmedBy, ['the publisher'], 'the message of this one has not come')
  await Promise.resolve()
})

void t.test('what etcd has left is as old as etcd’s last answer', (t) => {
  const { clock, listener, ages } = listen(t)
  clock.advance(9_000)
  listener.confirmed(8_000)
  t.same(ages, [8_000])
  t.equal(listener.ageMs, 8_000)
  t.end()
})

void t.test('a snapshot without an age in the index has the age of its name', (t) => {
  const name = namesOf('default', things).snapshot(3, 77, 1_700_000_000_000)
  t.equal(takenAtOf({ name, takenAt: 5 }), 5)
  t.equal(takenAtOf({ name }), 1_700_000_000_000)
  t.equal(takenAtOf({ name: 'something else' }), null)
  t.end()
})

void t.test('statuses of a stream that has lost its end confirm nothing, and soon it is reread', (t) => {
  // The next publisher has the same number, because its predecessor's claim is lost as well.
  const { clock, ages, stuck, hear, status } = listen(t)
  for (let i = 0; i < 6; i++) {
    hear(status(1, 4 + (i % 3)))
    clock.advance(1_000)
  }
  t.same(ages, [0], 'message 7 may have overtaken the first status')
  t.same(stuck, ['message 7 has arrived, but the stream ends with message 5'])
  t.end()
})

void t.test('nor does the first of them, if the message had arrived a while before it was sent', (t) => {
  const { clock, ages, hear, status } = listen(t)
  clock.advance(3_000)
  hear(status(1, 4))
  t.same(ages, [])
  clock.advance(1_000)
  hear(status(1, 7))
  t.same(ages, [0])
  t.end()
})

void t.test('messages may always overtake the statuses of a busy stream', (t) => {
  const { clock, ages, place, stuck, hear, status } = listen(t)
  for (let i = 0; i < 20; i++) {
    place.sequence += 10
    hear(status(1, place.sequence - 3))
    clock.advance(1_000)
  }
  t.same(stuck, [])
  t.equal(ages.length, 20)
  t.end()
})

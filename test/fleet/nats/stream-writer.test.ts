/**
 * The outcome of writes that NATS loses or answers late, on a connection controlled by the test and over a real
 * nats-server.
 */
import { connect, type Msg, type NatsConnection } from 'nats'
import t, { type Test } from 'tap'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { StreamWriter } from '../../../src/fleet/nats/stream-writer.js'
import { systemClock } from '../../../src/support/clock.js'
import { startNats } from '../../support/nats-process.js'
import { VirtualClock } from '../../support/virtual-clock.js'

interface Sent {
  readonly data: string
  readonly expected: string
  readonly reply: string
}

/** A connection that records what is sent, and gives the test's answers. */
function quietConnection() {
  const sent: Sent[] = []
  let hear: (error: null, message: Msg) => void = () => {}
  const connection = {
    isClosed: () => false,
    subscribe: (_subject: string, options: { callback: typeof hear }) => {
      hear = options.callback
      return { unsubscribe: () => {} }
    },
    publish: (_subject: string, data: Buffer, { headers, reply }: { headers: Headers; reply: string }) => {
      sent.push({ data: data.toString(), expected: String(headers.get('Nats-Expected-Last-Sequence')), reply })
    },
  } as unknown as NatsConnection
  const answer = (subject: string, json: object): void => hear(null, { subject, json: () => json } as unknown as Msg)
  const refuse = (subject: string): void => hear(null, { subject, headers: { code: 503 } } as unknown as Msg)
  return { connection, sent, answer, refuse }
}

void t.test('one write is in flight, and the next follows its answer', async (t) => {
  const clock = new VirtualClock()
  const { connection, sent, answer } = quietConnection()
  const writer = new StreamWriter(connection, 'log', clock, () => {})
  const writes = Array.from({ length: 5 }, (_, i) => writer.write(Buffer.from('a'), i))
  for (let i = 0; i < 5; i++) {
    t.equal(sent.length, i + 1)
    clock.advance(900)
    answer(sent[i]!.reply, { seq: i + 1 })
  }
  t.same(await Promise.all(writes), [1, 2, 3, 4, 5])
  clock.advance(10_000)
  t.equal(sent.length, 5, 'nothing is sent again to a NATS that answers, however slowly')
  writer.close()
})

void t.test('a write that is not answered for a second is resent', async (t) => {
  const clock = new VirtualClock()
  const { connection, sent, answer } = quietConnection()
  const writer = new StreamWriter(connection, 'log', clock, () => {})
  const writes = [writer.write(Buffer.from('a'), 7), writer.write(Buffer.from('b'), 8)]
  clock.advance(999)
  t.equal(sent.length, 1)
  clock.advance(1)
  t.same(sent[1], sent[0])
  answer(sent[0]!.reply, { seq: 8 })
  t.equal(await writes[0], 8)
  t.match(sent[2], { data: 'b', expected: '8' })
  clock.advance(500)
  answer(sent[0]!.reply, { error: { err_code: 10_071, description: 'wrong last sequence: 8' } })
  clock.advance(499)
  t.equal(sent.length, 3, 'a late answer to the second copy says nothing')
  answer(sent[2]!.reply, { seq: 9 })
  t.equal(await writes[1], 9)
  writer.close()
})

void t.test('after the first rejection nothing is written any more', async (t) => {
  const { connection, sent, answer } = quietConnection()
  const writer = new StreamWriter(connection, 'log', new VirtualClock(), () => {})
  const writes = [7, 8, 9].map((expected) => writer.write(Buffer.from('a'), expected))
  answer(sent[0]!.reply, { error: { err_code: 10_071, description: 'wrong last sequence: 8' } })
  for (const write of writes) await t.rejects(write, { code: 'conflict', message: 'wrong last sequence: 8' })
  await t.rejects(writer.write(Buffer.from('a'), 8), { code: 'conflict' })
  t.equal(sent.length, 1)
})

void t.test('the answer to a copy proves nothing about the original, which is still being written', async (t) => {
  const clock = new VirtualClock()
  const { connection, sent, answer } = quietConnection()
  const writer = new StreamWriter(connection, 'log', clock, () => {})
  const write = writer.write(Buffer.from('a'), 7)
  clock.advance(1_000)
  answer(sent[0]!.reply, { error: { code: 409, err_code: 10_158, description: 'duplicate message id is in process' } })
  answer(sent[0]!.reply, { seq: 0, duplicate: true })
  answer(sent[0]!.reply, { seq: 8 })
  t.equal(await write, 8)
  writer.close()
})

void t.test('a write that is never answered fails after five seconds, whatever was resent', async (t) => {
  const clock = new VirtualClock()
  const { connection, sent } = quietConnection()
  const startMs = clock.monotonic()
  const unanswered: number[] = []
  const writer = new StreamWriter(connection, 'log', clock, () => unanswered.push(clock.monotonic() - startMs))
  const failed = t.rejects(writer.write(Buffer.from('a'), 7), { code: 'unavailable', message: /within 5000 ms/ })
  for (let i = 0; i < 5; i++) clock.advance(1_000)
  await failed
  t.equal(sent.length, 3, 'after one second and after three')
  t.same(unanswered, [1_000, 3_000, 5_000], 'each wait without an answer is reported')
  writer.close()
})

void t.test('a write that no stream accepts is resent soon, and accepted once the stream has a leader', async (t) => {
  const clock = new VirtualClock()
  const { connection, sent, answer, refuse } = quietConnection()
  let unanswered = 0
  const writer = new StreamWriter(connection, 'log', clock, () => unanswered++)
  const write = writer.write(Buffer.from('a'), 7)
  for (let i = 0; i < 4; i++) {
    t.equal(sent.length, i + 1)
    refuse(sent[i]!.reply)
    clock.advance(200)
  }
  t.equal(unanswered, 0, 'within a second nothing is doubted')
  clock.advance(1_000)
  t.equal(sent.length, 6, 'a copy that is lost then is sent again after the usual second')
  t.equal(unanswered, 1)
  answer(sent[0]!.reply, { seq: 8 })
  t.equal(await write, 8)
  writer.close()
})

void t.test('a write that no stream accepts for five seconds has failed', async (t) => {
  const clock = new VirtualClock()
  const { connection, sent, refuse } = quietConnection()
  const startMs = clock.monotonic()
  const writer = new StreamWriter(connection, 'log', clock, () => {})
  let failedMs = 0
  const failed = t.rejects(
    writer.write(Buffer.from('a'), 7).catch((error: unknown) => {
      failedMs = clock.monotonic() - startMs
      throw error
    }),
    { code: 'unavailable', message: 'no stream takes it' },
  )
  for (let i = 0; i < 100; i++) {
    refuse(sent.at(-1)!.reply)
    await clock.advanceInTurns(100, 100)
  }
  await failed
  t.ok(failedMs >= 5_000 && failedMs <= 5_200, `after ${failedMs} ms`)
  t.ok(sent.length <= 26, `${sent.length} times`)
})

/** A real connection that loses the first copy of a write, or its answer. */
async function losing(t: Test, what: 'write' | 'answer') {
  const nats = await startNats(t)
  const client = await NatsClient.connect({ servers: [nats.url], name: 'losing' }, systemClock)
  t.teardown(() => client.close())
  await client.ensureStream('S', 'log', { replicas: 1, maxBytes: 2 ** 20, maxAgeMs: 60_000 })
  const connection = await connect({ servers: nats.url })
  t.teardown(() => connection.close())
  let isFirst = true
  const lossy = new Proxy(connection, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      if (name !== 'publish') return value.bind(target) as unknown
      return (subject: string, data: Uint8Array, options: { headers: never; reply: string }) => {
        const wasFirst = isFirst
        isFirst = false
        if (!wasFirst) target.publish(subject, data, options)
        else if (what === 'answer') target.publish(subject, data, { ...options, reply: 'nowhere' })
      }
    },
  })
  const writer = new StreamWriter(lossy, 'log', systemClock, () => {})
  t.teardown(() => writer.close())
  return { client, writer }
}

void t.test('a write that NATS lost is in the stream a second later', async (t) => {
  const { client, writer } = await losing(t, 'write')
  t.equal(await writer.write(Buffer.from('a'), 0), 1)
  t.equal(await writer.write(Buffer.from('b'), 1), 2)
  t.match(await client.streamState('S'), { first: 1, last: 2 })
})

void t.test('a write whose answer was lost is in the stream once, and acknowledged or rejected', async (t) => {
  const { client, writer } = await losing(t, 'answer')
  // The server remembers ids for as long as we wait: it either knows the copy or rejects its sequence.
  const outcome = await writer.write(Buffer.from('a'), 0).catch((error: { code: string }) => error.code)
  t.ok(outcome === 1 || outcome === 'conflict', String(outcome))
  t.match(await client.streamState('S'), { first: 1, last: 1 })
})

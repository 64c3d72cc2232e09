/**
 * The outcome of writes that NATS loses or answers late, on a stream controlled by the test and over a real
 * nats-server.
 */
import { jetstream, type JetStreamClient, JetStreamApiError, type PubAck } from '@nats-io/jetstream'
import { connect, errors } from 'nats'
import t, { type Test } from 'tap'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { StreamWriter } from '../../../src/fleet/nats/stream-writer.js'
import { systemClock } from '../../../src/support/clock.js'
import { startNats } from '../../support/nats-process.js'
import { nextTurn, VirtualClock } from '../../support/virtual-clock.js'

interface Sent {
  readonly id: string
  readonly data: string
  readonly expected: number
  answer(seq: number): void
  fail(error: Error): void
}

const apiError = (code: number, err_code: number, description: string): JetStreamApiError =>
  new JetStreamApiError({ code, err_code, description })
const wrongSequence = apiError(400, 10_071, 'wrong last sequence: 8')
const noStream = new errors.RequestError('no responders', { cause: new errors.NoRespondersError('log') })

/** A writer whose copies are recorded, and answered by the test. */
function quietWriter(onUnanswered: (passedMs: number) => void = () => {}) {
  const clock = new VirtualClock()
  const startMs = clock.monotonic()
  const sent: Sent[] = []
  const publish: JetStreamClient['publish'] = (_subject, data, { msgID, expect } = {}) =>
    new Promise((resolve, reject) => {
      const answer = (seq: number): void => resolve({ seq } as PubAck)
      sent.push({ id: msgID!, data: String(data), expected: expect!.lastSequence!, answer, fail: reject })
    })
  const passedMs = (): number => clock.monotonic() - startMs
  const writer = new StreamWriter({
    jetStream: { publish },
    subject: 'log',
    clock,
    onNoResponse: () => onUnanswered(passedMs()),
  })
  /** @returns what was sent by then. */
  const after = async (ms: number): Promise<readonly Sent[]> => {
    await nextTurn()
    await clock.advanceInTurns(ms, 100)
    return sent
  }
  const write = (expected: number): Promise<number> => writer.write(Buffer.from(`after ${expected}`), expected)
  return { writer, write, after, passedMs }
}

void t.test('one write is in flight, and the next follows its answer', async (t) => {
  const { write, after } = quietWriter()
  const writes = Array.from({ length: 5 }, (_, i) => write(i))
  for (let i = 0; i < 5; i++) {
    const sent = await after(900)
    t.equal(sent.length, i + 1)
    sent[i]!.answer(i + 1)
  }
  t.same(await Promise.all(writes), [1, 2, 3, 4, 5])
  t.equal((await after(10_000)).length, 5, 'nothing is sent again to a NATS that answers, however slowly')
})

void t.test('a write that is not answered for a second is resent', async (t) => {
  const { write, after } = quietWriter()
  const writes = [write(7), write(8)]
  t.equal((await after(900)).length, 1)
  const sent = await after(200)
  t.match(sent[1], { id: sent[0]!.id, data: 'after 7', expected: 7 })
  sent[0]!.answer(8)
  t.equal(await writes[0], 8)
  await after(500)
  t.match(sent[2], { data: 'after 8', expected: 8 })
  sent[1]!.fail(wrongSequence)
  t.equal((await after(300)).length, 3, 'a late answer to the second copy says nothing')
  sent[2]!.answer(9)
  t.equal(await writes[1], 9)
})

void t.test('after the first rejection no more messages are written', async (t) => {
  const { write, after } = quietWriter()
  const writes = [7, 8, 9].map(write)
  const sent = await after(0)
  sent[0]!.fail(wrongSequence)
  for (const written of writes) await t.rejects(written, { code: 'conflict', message: 'wrong last sequence: 8' })
  await t.rejects(write(8), { code: 'conflict' })
  t.equal((await after(10_000)).length, 1)
})

void t.test('a closed writer sends no message, not even a copy', async (t) => {
  const { writer, write, after } = quietWriter()
  const writes = [write(7), write(8)]
  const sent = await after(500)
  writer.close()
  for (const written of [...writes, write(8)]) await t.rejects(written, { code: 'unavailable', message: 'given up' })
  sent[0]!.fail(noStream)
  t.equal((await after(10_000)).length, 1)
})

void t.test('a writer that is closed before its first write sends no message', async (t) => {
  const { writer, write, after } = quietWriter()
  const written = write(7)
  writer.close()
  await t.rejects(written, { code: 'unavailable', message: 'given up' })
  t.equal((await after(10_000)).length, 0)
})

void t.test('the answer to a copy does not count for the original, which is still being written', async (t) => {
  const { write, after } = quietWriter()
  const written = write(7)
  const sent = await after(3_100)
  sent[1]!.fail(apiError(409, 10_158, 'duplicate message id is in process'))
  sent[2]!.answer(0)
  await after(100)
  sent[0]!.answer(8)
  t.equal(await written, 8)
})

void t.test('a write that is never answered fails after five seconds, whatever was resent', async (t) => {
  const unanswered: number[] = []
  const { write, after } = quietWriter((passedMs) => unanswered.push(passedMs))
  const failed = t.rejects(write(7), { code: 'unavailable', message: /within 5000 ms/ })
  const sent = await after(5_100)
  await failed
  t.equal(sent.length, 3, 'after one second and after three')
  t.same(unanswered, [1_000, 3_000, 5_000], 'each wait without an answer is reported')
})

void t.test('a write that no stream accepts is resent soon, and accepted once the stream has a leader', async (t) => {
  let unanswered = 0
  const { write, after } = quietWriter(() => unanswered++)
  const written = write(7)
  let sent = await after(0)
  for (let i = 0; i < 4; i++) {
    t.equal(sent.length, i + 1)
    sent[i]!.fail(noStream)
    sent = await after(200)
  }
  t.equal(unanswered, 0, 'within a second nothing is doubted')
  t.equal((await after(1_000)).length, 6, 'a copy that is lost then is sent again after the usual second')
  t.equal(unanswered, 1)
  sent[5]!.answer(8)
  t.equal(await written, 8)
})

void t.test('a write that no stream accepts for five seconds has failed', async (t) => {
  const { write, after, passedMs } = quietWriter()
  let failedMs = 0
  const failed = t.rejects(
    write(7).catch((error: unknown) => {
      failedMs = passedMs()
      throw error
    }),
    { code: 'unavailable', message: 'no stream accepts messages on this subject' },
  )
  let sent = await after(0)
  for (let i = 0; i < 100; i++) {
    sent.at(-1)!.fail(noStream)
    sent = await after(100)
  }
  await failed
  t.ok(failedMs >= 5_000 && failedMs <= 5_200, `after ${failedMs} ms`)
  t.ok(sent.length <= 26, `${sent.length} times`)
})

/** A real connection that loses the first copy of a write, or its response. */
async function losing(t: Test, what: 'write' | 'answer') {
  const nats = await startNats(t)
  const client = await NatsClient.connect({ servers: [nats.url], name: 'losing' }, systemClock)
  t.teardown(() => client.close())
  await client.ensureStream('S', 'log', { replicas: 1, maxBytes: 2 ** 20, maxAgeMs: 60_000 })
  const connection = await connect({ servers: nats.url })
  t.teardown(() => connection.close())
  const publish = connection.publish.bind(connection)
  let isFirst = true
  connection.publish = (subject, data, options) => {
    const wasFirst = isFirst
    isFirst = false
    if (!wasFirst) publish(subject, data, options)
    else if (what === 'answer') publish(subject, data, { ...options, reply: 'nowhere' })
  }
  const jetStream = jetstream(connection)
  const writer = new StreamWriter({ jetStream, subject: 'log', clock: systemClock, onNoResponse: () => {} })
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

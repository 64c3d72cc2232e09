/**
 * Which answers of JetStream's API are believed. The servers are other clients of a real nats-server without JetStream,
 * and give the answers observed from nats-server 2.15 while its servers could not reach each other.
 */
import { connect, type NatsConnection } from 'nats'
import t, { type Test } from 'tap'
import { NatsClient } from '../../../src/fleet/nats/nats-client.js'
import { systemClock } from '../../../src/support/clock.js'
import { startNats } from '../../support/nats-process.js'

const NO_LEADER = { error: { code: 503, err_code: 10_008, description: 'JetStream system temporarily unavailable' } }
const NO_STREAM = { error: { code: 404, err_code: 10_059, description: 'stream not found' } }

interface Server {
  /** Its answer, and after how long. */
  readonly says: object
  readonly afterMs: number
}

async function asking(t: Test, subject: string, servers: readonly Server[]) {
  const { url } = await startNats(t, { config: 'jetstream: disabled' })
  const client = await NatsClient.connect({ servers: [url], name: 'a test' }, systemClock)
  t.teardown(() => client.close())
  const doubted: string[] = []
  client.onDoubt((stream) => doubted.push(stream))
  let asked = 0
  for (const [index, { says, afterMs }] of servers.entries()) {
    const server: NatsConnection = await connect({ servers: url })
    t.teardown(() => server.close())
    server.subscribe(subject, {
      callback: (_error, message) => {
        if (index === 0) asked++
        setTimeout(() => message.respond(JSON.stringify(says)), afterMs)
      },
    })
    await server.flush()
  }
  return { client, doubted, timesAsked: () => asked }
}

const INFO = '$JS.API.STREAM.INFO.S'
const state = { first_seq: 3, last_seq: 9 }
const info = (cluster: object): object => ({ config: { name: 'S' }, state, created: '2026-01-01T00:00:00Z', cluster })

void t.test('a server that sees no leader does not speak for one that does', async (t) => {
  const { client, doubted } = await asking(t, INFO, [
    { says: NO_LEADER, afterMs: 0 },
    { says: info({ leader: 'n0', replicas: [{ name: 'n1', current: true, active: 5e6 }] }), afterMs: 300 },
  ])
  t.same(await client.streamState('S'), { first: 3, last: 9, created: '2026-01-01T00:00:00Z' })
  t.same(await client.placement('S'), { leader: 'n0', followers: [{ server: 'n1', isCurrent: true, silentMs: 5 }] })
  t.same(doubted, [])
})

void t.test('nor does it report the state of a stream whose leader it has lost', async (t) => {
  const stale = { ...info({ replicas: [] }), state: { first_seq: 1, last_seq: 2 } }
  const { client } = await asking(t, INFO, [
    { says: stale, afterMs: 0 },
    { says: info({ leader: 'n0', replicas: [] }), afterMs: 100 },
  ])
  t.match(await client.streamState('S'), { first: 3, last: 9 })
})

void t.test('a message can be read from the leader', async (t) => {
  const text = (value: string): string => Buffer.from(value).toString('base64')
  const message = { subject: '$KV.B.key', seq: 7, time: '2026-01-01T00:00:00Z', data: text('a value') }
  const { client } = await asking(t, '$JS.API.STREAM.MSG.GET.S', [
    { says: NO_LEADER, afterMs: 0 },
    { says: { message }, afterMs: 100 },
  ])
  t.equal(String(await client.message('S', 7)), 'a value')
})

void t.test('an error from the leader is an answer, and is returned at once', async (t) => {
  const { client, timesAsked } = await asking(t, INFO, [
    { says: NO_STREAM, afterMs: 0 },
    { says: NO_LEADER, afterMs: 0 },
  ])
  t.equal(await client.streamState('S'), null)
  t.equal(timesAsked(), 1)
})

void t.test('if no server sees a leader, that is reported, and investigated', async (t) => {
  const { client, doubted } = await asking(t, INFO, [
    { says: NO_LEADER, afterMs: 0 },
    { says: info({ replicas: [] }), afterMs: 0 },
  ])
  await t.rejects(client.streamState('S'), { code: 'unavailable', message: /see no leader/ })
  t.same(doubted, ['S'])
  t.equal(await client.placement('S'), null)
})

void t.test('without an answer, the request is repeated', async (t) => {
  const { client, doubted, timesAsked } = await asking(t, INFO, [{ says: info({ leader: 'n0' }), afterMs: 1_500 }])
  t.match(await client.streamState('S'), { last: 9 })
  t.ok(timesAsked() >= 2, `${timesAsked()} times`)
  t.same(doubted, [])
})

void t.test('requests outside the API are sent as usual', async (t) => {
  const { url } = await startNats(t)
  const client = await NatsClient.connect({ servers: [url], name: 'a test' }, systemClock)
  t.teardown(() => client.close())
  await client.ensureStream('S', 's', { replicas: 1, maxBytes: 1e6, maxAgeMs: 60_000 })
  const writer = client.openWriter('S', 's')
  t.equal(await writer.write(Buffer.from('one'), 0), 1)
  t.equal(String(await client.message('S', 1)), 'one')
  t.equal(await client.message('S', 2), null)
  t.equal(await client.buckets.kvUpdate('B', 'key', Buffer.from('two'), 0, 1), 1)
  t.match(await client.buckets.kvGet('B', 'key', 1), { revision: 1 })
  writer.close()
})

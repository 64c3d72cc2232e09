/** Tests a publisher's responses to edges, without NATS in between. */
import t from 'tap'
import type { Broker } from '../../../src/fleet/broker.js'
import { edgeRequestHandler, RemoteReader } from '../../../src/fleet/stream/remote-reader.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import type { Page, StateReader } from '../../../src/engine/upstream/upstream.js'
import { until } from '../../support/until.js'
import { things, unsigned } from '../nats-harness.js'

const unused = (): never => {
  throw new Error('not asked for')
}

void t.test('many edges that request pages at once are answered eight at a time, all of them', async (t) => {
  const pending: ((page: Page) => void)[] = []
  const upstream: StateReader = {
    read: () => new Promise((resolve) => pending.push(resolve)),
    readKey: unused,
    currentRevision: unused,
  }
  const answer = edgeRequestHandler({
    upstream,
    prefix: things.etcdPrefix,
    envelope: unsigned,
    maxBytes: 1_000_000,
    onOneWay: { progress: unused, snapshot: unused, word: unused },
  })
  const page: Page = { revision: toRevision(5), currentRevision: toRevision(5), more: false, count: 0, keyValues: [] }
  const question = Buffer.from(
    JSON.stringify({ kind: 'page', startKey: null, revision: null, limit: null, keysOnly: false }),
  )
  const answers = Array.from({ length: 20 }, () => answer(question))
  await until(() => pending.length > 0, 'the first reads are made')
  let most = 0
  for (let answered = 0; answered < 20;) {
    await new Promise((resolve) => setImmediate(resolve))
    most = Math.max(most, pending.length)
    for (const resolve of pending.splice(0)) {
      resolve(page)
      answered++
    }
  }
  t.equal(most, 8)
  t.same([...new Set((await Promise.all(answers)).map((bytes) => bytes?.[0]))], [1], 'every answer says that it is one')
})

void t.test('a malformed request, or one for a key of another resource, is rejected', async (t) => {
  const answer = edgeRequestHandler({
    upstream: { read: unused, readKey: unused, currentRevision: unused },
    prefix: things.etcdPrefix,
    envelope: unsigned,
    maxBytes: 1_000_000,
    onOneWay: { progress: unused, snapshot: unused, word: unused },
  })
  for (const question of [
    'hello',
    'null',
    '{"kind":"dance"}',
    '{"kind":"key","key":"/registry/secrets/a","revision":null}',
    '{"kind":"page","startKey":"/registry/secrets/","revision":null,"limit":null,"keysOnly":false}',
  ]) {
    const bytes = await answer(Buffer.from(question))
    t.equal(bytes?.[0], 0, question)
    t.match(bytes?.toString('latin1'), 'protocol', question)
  }
})

void t.test('an answer that cannot be read is an error of the upstream', async (t) => {
  const answers = [
    '',
    '01',
    '02',
    `01${'00'.repeat(16)}`,
    `01${'00'.repeat(25)}00000001`,
    '0001',
    `01${'ff'.repeat(8)}`,
  ]
  for (const hex of answers) {
    const request = async (): Promise<Buffer> => Buffer.from(hex, 'hex')
    const reader = new RemoteReader(() => ({ request }) as unknown as Broker, 'subject', unsigned)
    const error = { name: 'UpstreamError', code: 'protocol' }
    await t.rejects(reader.read({ prefix: things.etcdPrefix }), error, `a page: ${hex}`)
    // Zeros are the revision 0, and no key.
    if (hex.startsWith('0100')) continue
    await t.rejects(reader.currentRevision(), error, `a revision: ${hex}`)
    await t.rejects(reader.readKey(things.etcdPrefix), error, `a key: ${hex}`)
  }
})

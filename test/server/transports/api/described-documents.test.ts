import t, { type Test } from 'tap'
import { RemoteApiServer } from '../../../../src/kubernetes/upstream/remote-api-server.js'
import { nodeTransport } from '../../../../src/client/node/node-transport.js'
import { DescribedDocuments } from '../../../../src/server/transports/api/described-documents.js'
import { startApiServer } from '../../../support/api-server-stand-in.js'
import { until } from '../../../support/until.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

async function scene(t: Test) {
  const behind = await startApiServer(t)
  const clock = new VirtualClock()
  const server = new RemoteApiServer({ transport: nodeTransport({ server: behind.url }), url: behind.url, clock })
  t.teardown(() => server.close())
  return { behind, clock, documents: new DescribedDocuments(server, clock) }
}

void t.test('equal requests share one download, and an unchanged document stays one buffer', async (t) => {
  const { behind, clock, documents } = await scene(t)
  const read = () => documents.openApi({ path: '/openapi/v2', accept: 'application/json' })
  const all = await Promise.all(Array.from({ length: 500 }, read))
  t.equal(behind.seen.length, 1)
  clock.advance(2_000)
  const later = await read()
  t.equal(behind.seen.length, 2, 'it is read again after a moment')
  t.ok(all.every((one) => one !== null && one.body === later?.body))
  behind.answer = (_request, response) => response.end('{"kind":"Changed"}')
  clock.advance(2_000)
  t.equal((await read())?.body.toString(), '{"kind":"Changed"}')
})

void t.test('few documents are downloaded at once, and a queue that is full is refused', async (t) => {
  const { behind, documents } = await scene(t)
  const held: (() => void)[] = []
  behind.answer = (_request, response) => void held.push(() => void response.end('{}'))
  const outcomes: string[] = []
  const all = Array.from({ length: 300 }, async (_, i) => {
    const read = documents.openApi({ path: `/openapi/v3/apis/g${i}/v1` })
    outcomes.push(await read.then(() => 'read', String))
  })
  await until(() => held.length === 4 && outcomes.length === 40, 'four are on their way, 256 wait')
  t.match(outcomes[0], /too many OpenAPI documents/)
  const answering = setInterval(() => held.splice(0).forEach((answer) => answer()), 1)
  await Promise.all(all)
  clearInterval(answering)
  t.equal(outcomes.filter((outcome) => outcome === 'read').length, 260)
})

void t.test('a document that is too long is not read to its end', async (t) => {
  const { behind, documents } = await scene(t)
  let sent = 0
  behind.answer = (_request, response) => {
    const piece = Buffer.alloc(2 ** 20)
    const send = (): void => {
      while (!response.destroyed) {
        sent += piece.length
        if (!response.write(piece)) return void response.once('drain', send)
      }
    }
    send()
  }
  t.equal(await documents.openApi({ path: '/openapi/v2' }), null)
  t.ok(sent < 128 * 2 ** 20, `${sent} bytes`)
  await until(() => behind.connections === 0, 'the connection is closed')
})

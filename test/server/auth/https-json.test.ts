/** Tests the HTTP client for issuers and webhooks. */
import t from 'tap'
import { JsonClient } from '../../../src/server/auth/https-json.js'
import { startOneAnswerServer } from '../../support/one-answer-server.js'

void t.test('a connection that the server closes just as it is reused loses no answer', async (t) => {
  const server = await startOneAnswerServer(t)
  const client = new JsonClient({ server: server.url })
  t.teardown(() => client.close())
  for (let i = 0; i < 3; i++) {
    t.same(await client.post('/review', {}), { status: 200, body: { kind: 'Answer' } })
    t.same(await client.get(server.url), { status: 200, body: { kind: 'Answer' } })
  }
  t.same(server.asked, ['POST', 'GET', 'GET', 'POST', 'POST', 'GET', 'GET', 'POST', 'POST', 'GET', 'GET'])
})

void t.test('a server that never answers is not retried continuously', async (t) => {
  const client = new JsonClient({ server: 'http://127.0.0.1:1' })
  t.teardown(() => client.close())
  await t.rejects(client.post('/review', {}), { code: 'ECONNREFUSED' })
})

/** Tests the HTTP client for issuers and webhooks. */
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import t from 'tap'
import { JsonClient } from '../../../src/server/auth/https-json.js'
import { startOneAnswerServer } from '../../support/one-answer-server.js'
import { checkCertificate } from '../../../src/cli/doctor/checks.js'
import { issue } from './fixtures.js'

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

void t.test('each certificate of the CA file is an authority, also an intermediate without its root', async (t) => {
  const middle = issue('middle', issue('root'), { isAuthority: true })
  const server = createServer(issue('webhook', middle, { altNames: ['127.0.0.1'] }), (_asked, answer) =>
    answer.end('{"kind":"Answer"}'),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = new JsonClient({ server: url, ca: middle.cert })
  t.teardown(() => client.close())
  t.same(await client.get('/'), { status: 200, body: { kind: 'Answer' } })
  t.same((await checkCertificate(url, middle.cert, '127.0.0.1')).outcome, 'ok', 'doctor agrees')
})

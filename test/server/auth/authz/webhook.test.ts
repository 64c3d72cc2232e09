/** The Webhook mode over a real API server's protocol. */
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { pathAttributes } from '../../../../src/server/auth/authz/authorizer.js'
import { webhook } from '../../../../src/server/auth/authz/webhook.js'
import { JsonClient } from '../../../../src/server/auth/https-json.js'
import { ANONYMOUS } from '../../../../src/server/auth/user.js'
import { systemClock } from '../../../../src/support/clock.js'
import { until } from '../../../support/until.js'

void t.test("one user's reviews leave connections for the reviews of others", async (t) => {
  const held: http.ServerResponse[] = []
  const allow = (response: http.ServerResponse): void => {
    response.writeHead(201, { 'content-type': 'application/json' }).end('{"status":{"allowed":true}}')
  }
  const server = http.createServer((request, response) => {
    let text = ''
    request.on('data', (piece: Buffer) => (text += piece.toString()))
    request.on('end', () => {
      const { spec } = JSON.parse(text) as { spec: { user: string } }
      if (spec.user === 'mallory') held.push(response)
      else allow(response)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = new JsonClient({ server: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
  const authorizer = webhook({ client, authorizedMs: 60_000, unauthorizedMs: 0, clock: systemClock })
  t.teardown(() => {
    authorizer.close()
    server.close()
  })
  const ask = (name: string, path: string) =>
    authorizer.authorize({ ...ANONYMOUS, name }, pathAttributes('GET', path)).then(
      ({ allowed }) => allowed,
      () => null,
    )
  const flood = Array.from({ length: 1_500 }, (_, i) => ask('mallory', `/metrics/${i}`))
  await until(() => held.length >= 6, "mallory's first reviews have arrived")
  t.equal(await ask('ann', '/metrics'), true)
  t.equal(await ask('bob', '/metrics'), true)
  t.equal(held.length, 6)
  const answering = setInterval(() => held.splice(0).forEach(allow), 1)
  const outcomes = await Promise.all(flood)
  clearInterval(answering)
  t.ok(outcomes.filter((allowed) => allowed === null).length >= 1_500 - 6 - 1_024, 'a full queue is refused')
})

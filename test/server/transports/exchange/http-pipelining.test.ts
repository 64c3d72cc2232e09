/** Pipelined requests over plain HTTP/1.1. */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t from 'tap'
import { limitPipelined } from '../../../../src/server/transports/exchange/http-pipelining.js'
import { startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'

const MAX_PIPELINED = 100

const objects = { 'pods/a/p': pod('p', { namespace: 'a' }) }
const get = 'GET /api/v1/namespaces/a/pods/p HTTP/1.1\r\nHost: localhost\r\n\r\n'

/** Sends all requests at once. @returns the number of answers once there are `enough`, or the connection has ended. */
async function pipelined(url: string, requests: number, enough: number): Promise<{ answers: number; isOpen: boolean }> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let heard = ''
  let isOpen = true
  const ended = new Promise<void>((resolve) => {
    // Sent but unread bytes end the connection with a reset.
    socket.on('error', () => undefined).on('close', () => resolve((isOpen = false) as unknown as void))
  })
  const answers = (): number => heard.split('HTTP/1.1 200').length - 1
  const isEnough = new Promise<void>((resolve) => {
    socket.on('data', (bytes: Buffer) => {
      heard += bytes.toString('latin1')
      if (answers() >= enough) resolve()
    })
  })
  socket.write(get.repeat(requests))
  await Promise.race([ended, isEnough])
  const result = { answers: answers(), isOpen }
  socket.destroy()
  return result
}

void t.test('the allowed number is answered on one connection, which stays open', async (t) => {
  const { url } = await startApp(t, { objects })
  t.same(await pipelined(url, MAX_PIPELINED, MAX_PIPELINED), { answers: MAX_PIPELINED, isOpen: true })
})

void t.test('beyond that, the first are answered, the others are not started, and the connection ends', async (t) => {
  const { url } = await startApp(t, { objects })
  const { answers, isOpen } = await pipelined(url, 2_000, Number.POSITIVE_INFINITY)
  t.notOk(isOpen)
  t.ok(answers <= MAX_PIPELINED, `${answers} answers`)
  const metrics = await (await fetch(`${url}/metrics`)).text()
  const sample = (name: string): number => Number(new RegExp(`^${name} (.*)$`, 'm').exec(metrics)?.[1] ?? 0)
  t.equal(sample('distributary_http_rejected_total\\{limit="pipelined"\\}'), 1, 'counted once')
  const begun = [...metrics.matchAll(/^distributary_http_requests_total\{.*code="200".*\} (\d+)$/gm)]
  const total = begun.reduce((sum, [, value]) => sum + Number(value), 0)
  t.ok(total <= MAX_PIPELINED + 1, `${total} were answered`)
  t.equal((await fetch(`${url}/api/v1/namespaces/a/pods/p`)).status, 200, 'others are served')
})

void t.test('the parser stops at the limit, although the packet has more requests', async (t) => {
  let parsed = 0
  const begun: ServerResponse[] = []
  const handler = limitPipelined(
    (_, response) => void begun.push(response),
    () => {},
  )
  const server = createServer((request, response) => {
    parsed++
    handler(request, response)
  })
  server.on('upgrade', (_, socket) => socket.destroy())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  let heard = ''
  client.on('error', () => {}).on('data', (bytes: Buffer) => (heard += bytes.toString('latin1')))
  client.write(
    get.repeat(MAX_PIPELINED + 1) +
      get.replace('\r\n\r\n', '\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n').repeat(200),
  )
  await until(() => parsed > MAX_PIPELINED, 'the limit is reached')
  for (const response of begun) response.end()
  await once(client, 'close')
  t.equal(parsed, MAX_PIPELINED + 1)
  t.equal(heard.split('HTTP/1.1 200').length - 1, MAX_PIPELINED, 'all within the limit are answered')
})

void t.test('watches that wait behind another on their connection end with it', async (t) => {
  const h = await startApp(t, { objects })
  const socket = connect(h.port, '127.0.0.1')
  socket.on('data', () => {})
  const watch = 'GET /api/v1/pods?watch=1&resourceVersion=0 HTTP/1.1\r\nHost: localhost\r\n\r\n'
  socket.write(watch.repeat(5))
  await until(() => h.watchers === 5, 'all have begun')
  socket.destroy()
  await until(() => h.watchers === 0, 'none is left', 10_000)
})

/** Thousands of connections without a credential, at a server with little memory. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, get } from 'node:https'
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { until } from '../support/until.js'
import { setStage, type Stage, TOKENS } from './support/stage.js'

const MiB = 2 ** 20
/** The address of both the attackers and an honest client. */
const CROWD = '127.0.0.9'

function stranger(t: Test, { server }: Stage, overTls: boolean, request = '\r\n'): Promise<unknown> {
  const port = overTls ? server.securePort : server.port
  const tcp = connect({ port, host: '127.0.0.1', localAddress: CROWD })
  tcp.on('error', () => {})
  const socket = overTls ? connectTls({ socket: tcp, rejectUnauthorized: false }) : tcp
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  socket.resume()
  // An empty line may precede a request. The connection of a client that sends nothing at all would count for less.
  socket.write(request)
  return once(tcp, 'connect')
}

/** Sends a request with a token. @returns null for a connection that was closed. */
async function ask(stage: Stage, agent: Agent): Promise<IncomingMessage | null> {
  return await new Promise((resolve) => {
    const { securePort: port } = stage.server
    const headers = { authorization: `Bearer ${TOKENS.honest}` }
    const path = '/api/v1/namespaces/open/pods/p1'
    get({ host: '127.0.0.1', port, path, agent, headers, localAddress: CROWD }, (response) => {
      response.resume().on('end', () => resolve(response))
    }).on('error', () => resolve(null))
  })
}

async function rejected(stage: Stage): Promise<number> {
  const headers = { authorization: `Bearer ${TOKENS.admin}` }
  const text = await (await fetch(`${stage.server.url}/metrics`, { headers })).text()
  return Number(/^distributary_http_rejected_total\{limit="connections"\} (\d+)/m.exec(text)?.[1] ?? 0)
}

void t.test(
  'connections without a credential have a share of the memory target, and those with one are safe',
  async (t) => {
    const stage = await setStage(t, ['--memory-target', String(256 * MiB)])
    const before = stage.descriptors()
    const agent = new Agent({ ca: stage.ca, keepAlive: true, maxSockets: 1 })
    t.teardown(() => agent.destroy())
    const first = await ask(stage, agent)
    t.equal(first?.statusCode, 200)
    const workers = Math.max(1, stage.server.pids().length - 1)
    for (let i = 0; i < 40 * workers; i++)
      await Promise.all(Array.from({ length: 25 }, () => stranger(t, stage, i % 4 === 3)))
    // A quarter of each process's target, at 96 KiB per connection.
    const most = (workers * (256 * 1024)) / 4 / 96
    await until(async () => (await rejected(stage)) >= 1_000 * workers - most, 'those beyond it are closed')
    await until(() => stage.descriptors() - before < most + 20, 'and let go')
    const again = await ask(stage, agent)
    t.equal(again?.statusCode, 200)
    t.equal(again?.socket, first?.socket, 'on the same connection')
    await until(async () => {
      const newcomer = new Agent({ ca: stage.ca })
      const answer = await ask(stage, newcomer)
      newcomer.destroy()
      return answer?.statusCode === 200
    }, 'a new client of the same address gets in')
  },
)

void t.test('when the memory is almost full, they are closed sooner than they would end', async (t) => {
  // The server alone needs almost as much.
  const stage = await setStage(t, ['--memory-target', String(128 * MiB)])
  for (let i = 0; i < 10; i++) await stranger(t, stage, i % 2 === 1, 'GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n')
  const agent = new Agent({ ca: stage.ca, keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  await until(async () => {
    // Something to collect: memory is only freed again after a collection.
    await ask(stage, agent)
    return (await rejected(stage)) >= 10
  }, 'they are closed')
  t.ok([200, 429].includes((await ask(stage, agent))!.statusCode!))
})

void t.test('waiting connections of a known client have a share of the memory target too', async (t) => {
  const stage = await setStage(t, ['--memory-target', String(128 * MiB)])
  const before = stage.descriptors()
  const workers = Math.max(1, stage.server.pids().length - 1)
  const request = `GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKENS.honest}\r\n\r\n`
  for (let i = 0; i < 40 * workers; i++)
    await Promise.all(Array.from({ length: 25 }, () => stranger(t, stage, i % 4 === 3, request)))
  // A quarter of the target of each process, at 48 KiB each.
  const most = (workers * (128 * 1024)) / 4 / 48
  await until(() => stage.descriptors() - before < most + 20, 'those beyond it are closed')
})

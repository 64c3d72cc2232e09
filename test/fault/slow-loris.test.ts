/** Tests clients that stop in the middle, or send one byte at a time, to hold a connection as long as they can. */
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import { startServer } from '../support/server-process.js'
import { pause } from '../support/until.js'
import { secureFlags } from '../support/secure-flags.js'

/** Every stage at which a client can stop in the middle: what it has sent by then, and what it drips after that. */
const stages: Record<string, { port: 'plain' | 'tcp' | 'tls'; sent: string; drip: string }> = {
  'sends nothing': { port: 'plain', sent: '', drip: '' },
  'sends the beginning of what HTTP/2 begins with': { port: 'plain', sent: 'PR', drip: '' },
  'sends the beginning of a method': { port: 'plain', sent: 'GE', drip: '' },
  'sends its headers a byte at a time': { port: 'plain', sent: 'GET /api/v1/pods HTTP/1.1\r\nHo', drip: 'x' },
  'begins no TLS': { port: 'tcp', sent: '', drip: '' },
  'begins TLS a byte at a time': { port: 'tcp', sent: '\x16\x03\x01\x02\x00\x01', drip: '\x00' },
  'sends its headers over TLS a byte at a time': { port: 'tls', sent: 'GET /api/v1/pods HTTP/1.1\r\nHo', drip: 'x' },
  'sends nothing over TLS': { port: 'tls', sent: '', drip: '' },
}
const EACH = 20

void t.test(
  'a client that stalls or drips its request is cut off at every stage, and no other client waits',
  async (t) => {
    const flags = ['--port', '0', ...secureFlags()]
    const server = await startServer(t, { flags })
    const startedAt = performance.now()
    const sockets: Socket[] = []
    t.teardown(() => sockets.forEach((socket) => socket.destroy()))
    const open = new Map<string, number>()
    for (const [stage, { port, sent, drip }] of Object.entries(stages)) {
      open.set(stage, EACH)
      for (let i = 0; i < EACH; i++) {
        const socket =
          port === 'plain'
            ? connect(server.port, '127.0.0.1')
            : port === 'tcp'
              ? connect(server.securePort, '127.0.0.1')
              : connectTls({ port: server.securePort, host: '127.0.0.1', rejectUnauthorized: false })
        socket.on('error', () => {})
        socket.on('close', () => {
          open.set(stage, open.get(stage)! - 1)
          if (open.get(stage) === 0) t.comment(`${stage}: ${Math.round(performance.now() - startedAt)} ms`)
        })
        socket.resume()
        socket.write(sent, 'latin1')
        if (drip === '') {
          sockets.push(socket)
          continue
        }
        const timer = setInterval(() => socket.writable && socket.write(drip, 'latin1'), 1_000)
        socket.once('close', () => clearInterval(timer))
        sockets.push(socket)
      }
    }
    let slowest = 0
    const left = (): number => [...open.values()].reduce((sum, count) => sum + count, 0)
    while (left() > 0 && performance.now() - startedAt < 60_000) {
      const askedAt = performance.now()
      const answer = await fetch(`${server.url}/api/v1/pods`)
      t.equal(answer.status === 200, true)
      await answer.arrayBuffer()
      slowest = Math.max(slowest, performance.now() - askedAt)
      await pause(500)
    }
    const metrics = await server.metrics()
    for (const limit of ['request-time', 'handshake-time']) {
      t.ok((metrics.get(`distributary_http_rejected_total{limit="${limit}"}`) ?? 0) > 0, `${limit} is counted`)
    }
    for (const [stage, count] of open) t.equal(count, 0, `who ${stage} is ended`)
    t.comment(`all were ended in ${Math.round(performance.now() - startedAt)} ms`)
    t.comment(`others were answered in ${Math.round(slowest)} ms at the most`)
  },
)

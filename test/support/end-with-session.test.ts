import { once } from 'node:events'
import { createServer, type ServerHttp2Session } from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import t from 'tap'
import { endWithSession } from '../../src/support/end-with-session.js'

void t.test(
  'a session that is destroyed again and again after its connection waits for the end only once',
  async (t) => {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    t.teardown(() => server.close())
    await once(server, 'listening')
    const begun = once(server, 'session') as Promise<[ServerHttp2Session]>
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
    t.teardown(() => client.destroy())
    client.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0')
    const [session] = await begun
    endWithSession(session)
    // As in `end-with-session.ts`, the socket itself instead of a proxy.
    const socket = session.socket.once('close', () => {})
    const closed = once(session, 'close')
    const before = socket.listenerCount('close')
    socket.destroy()
    for (let i = 0; i < 20; i++) session.destroy()
    t.equal(socket.listenerCount('close'), before + 1)
    await closed
    t.ok(session.destroyed)
  },
)

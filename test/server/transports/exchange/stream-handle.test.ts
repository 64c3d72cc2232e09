/**
 * Tests writes that bypass `socket.write`: which sockets allow them, in which order bytes leave, and what happens when
 * the socket does not accept them.
 */
import { once } from 'node:events'
import { type ServerHttp2Stream, connect as connectHttp2, createServer as createHttp2Server } from 'node:http2'
import { type AddressInfo, type Socket, connect, createServer } from 'node:net'
import t, { type Test } from 'tap'
import {
  handleOf,
  type WriteOwner,
  setHandleUse,
  writeTo,
} from '../../../../src/server/transports/exchange/stream-handle.js'

setHandleUse({ sockets: true, http2: true })

/** Returns both ends of a connection whose client does not read. */
async function pair(t: Test): Promise<{ server: Socket; client: Socket }> {
  const listener = createServer().listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const client = connect((listener.address() as AddressInfo).port, '127.0.0.1')
  const [server] = (await once(listener, 'connection')) as [Socket]
  client.pause()
  client.on('error', () => {})
  server.on('error', () => {})
  t.teardown(() => {
    client.destroy()
    server.destroy()
    listener.close()
  })
  return { server, client }
}

const never: WriteOwner = {
  taken() {
    throw new Error('nothing was queued')
  },
}

async function received(client: Socket, length: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let seen = 0
  for await (const chunk of client as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    seen += chunk.length
    if (seen >= length) break
  }
  return Buffer.concat(chunks)
}

void t.test('this Node provides a handle for a plain socket without waiting bytes', async (t) => {
  const { server } = await pair(t)
  t.ok(handleOf(server))
  server.write(Buffer.alloc(32 << 20))
  t.ok(server.writableLength > 0)
  t.equal(handleOf(server), null, 'bytes wait in the socket')
  t.equal(handleOf(Object.assign(server, { encrypted: true })), null, 'bytes would go out in the clear')
})

void t.test('a full peer is reported once, and both directions keep their order', async (t) => {
  const { server, client } = await pair(t)
  const handle = handleOf(server)!
  const expected: Buffer[] = []
  const taken: number[] = []
  const owner: WriteOwner = { taken: (_bytes, status) => void taken.push(status) }
  let result = ''
  for (let i = 0; result !== 'queued' && i < 1_000; i++) {
    const bytes = Buffer.alloc(100_000, i)
    expected.push(bytes)
    result = writeTo(handle, bytes, owner)
  }
  t.equal(result, 'queued')
  const last = [Buffer.from('by the socket'), Buffer.from('by the handle'), Buffer.from('by the socket again')]
  server.write(last[0]!)
  t.equal(writeTo(handle, last[1]!, owner), 'queued')
  server.write(last[2]!)
  const all = Buffer.concat([...expected, ...last])
  const seen = await received(client, all.length)
  t.ok(seen.equals(all), `${seen.length} of ${all.length} bytes, in order`)
  t.same(taken, [0, 0])
})

void t.test('bytes queued when the connection dies are returned, and nothing is accepted afterwards', async (t) => {
  const { server, client } = await pair(t)
  const handle = handleOf(server)!
  const ended = new Promise<number>((resolve) => {
    for (let i = 0; i < 1_000; i++)
      if (writeTo(handle, Buffer.alloc(100_000), { taken: (_, status) => resolve(status) }) === 'queued') return
  })
  client.destroy()
  server.destroy()
  t.ok((await ended) < 0)
  t.equal(writeTo(handle, Buffer.from('too late'), never), 'failed')
})

void t.test(
  'this Node provides a handle for an HTTP/2 stream once the headers are sent, and both ways keep their order',
  async (t) => {
    const server = createHttp2Server().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const client = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    t.teardown(() => {
      client.destroy()
      server.close()
    })
    const request = client.request({ ':path': '/' })
    const [stream] = (await once(server, 'stream')) as [ServerHttp2Stream]
    stream.respond({ ':status': 200 })
    const handle = handleOf(stream)!
    t.ok(handle)
    const taken: [string, number][] = []
    const owner: WriteOwner = { taken: (bytes, status) => void taken.push([bytes.toString(), status]) }
    t.equal(writeTo(handle, Buffer.from('one '), owner), 'queued')
    t.equal(writeTo(handle, Buffer.from('two '), owner), 'queued')
    stream.end('three')
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    t.equal(Buffer.concat(chunks).toString(), 'one two three')
    t.same(taken, [
      ['one ', 0],
      ['two ', 0],
    ])
    t.equal(writeTo(handle, Buffer.from('late'), never), 'failed')
  },
)

import { once } from 'node:events'
import net from 'node:net'
import t, { type Test } from 'tap'
import { type FaultProxy, startFaultProxy } from './fault-proxy.js'
import { until } from './until.js'

/** An echo server behind a proxy. */
async function setUp(t: Test) {
  const sockets: net.Socket[] = []
  const server = net.createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    socket.pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const proxy = await startFaultProxy({ targetPort: (server.address() as net.AddressInfo).port })
  t.teardown(async () => {
    await proxy.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { proxy, sockets }
}

class Client {
  readonly socket: net.Socket
  received = Buffer.alloc(0)
  /** How it ended: `end` for a FIN, an error code for an RST. */
  ended: string | null = null

  constructor(proxy: FaultProxy) {
    this.socket = net.connect(proxy.port, '127.0.0.1')
    this.socket.on('data', (chunk: Buffer) => {
      this.received = Buffer.concat([this.received, chunk])
    })
    this.socket.on('end', () => (this.ended ??= 'end'))
    this.socket.on('error', (error: NodeJS.ErrnoException) => (this.ended ??= error.code ?? 'error'))
  }

  async receives(bytes: number): Promise<number> {
    while (this.received.length < bytes) await once(this.socket, 'data')
    return this.received.length
  }

  async ends(): Promise<string | null> {
    if (!this.socket.closed) await closed(this.socket)
    return this.ended
  }
}

async function connect(t: Test, proxy: FaultProxy): Promise<Client> {
  const client = new Client(proxy)
  t.teardown(() => client.socket.destroy())
  client.socket.write('hello')
  await client.receives(5)
  return client
}

/** Resolves on close, with an error or without. */
function closed(socket: net.Socket): Promise<void> {
  return new Promise((resolve) => socket.on('close', () => resolve()))
}

/** Long enough for loopback to deliver what is in flight. */
const shortWhile = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 50))

void t.test('bytes pass both ways unchanged, many at once and in order', async (t) => {
  const { proxy } = await setUp(t)
  const client = await connect(t, proxy)
  const bytes = Buffer.from(Array.from({ length: 4_000_000 }, (_, i) => i % 251))
  client.socket.write(bytes)
  await client.receives(bytes.length + 5)
  t.ok(client.received.subarray(5).equals(bytes))
  client.socket.end()
  t.equal(await client.ends(), 'end', 'and an end goes through')
  await until(() => proxy.connectionCount === 0, 'the proxy has closed both connections')
})

void t.test('a stall holds bytes without closing the connection, and then delivers them all', async (t) => {
  const { proxy } = await setUp(t)
  const client = await connect(t, proxy)
  for (const direction of ['to-server', 'to-client'] as const) {
    const before = client.received.length
    proxy.stall(direction)
    client.socket.write('stalled')
    await shortWhile()
    t.equal(client.received.length, before, direction)
    t.equal(client.ended, null)
    proxy.release(direction)
    await client.receives(before + 7)
  }
  proxy.stall()
  const late = new Client(proxy)
  t.teardown(() => late.socket.destroy())
  late.socket.write('late')
  await shortWhile()
  t.equal(late.received.length, 0, 'a new connection stalls as well')
  proxy.release()
  t.equal(await late.receives(4), 4)
})

void t.test('an end on one side of a stall is not seen on the other until it is released', async (t) => {
  const { proxy, sockets } = await setUp(t)
  const client = await connect(t, proxy)
  proxy.stall()
  sockets[0]?.destroy()
  await shortWhile()
  t.equal(client.ended, null)
  proxy.release()
  t.not(await client.ends(), null)
})

void t.test('a cut ends every connection, and a new one works', async (t) => {
  const { proxy, sockets } = await setUp(t)
  for (const [how, seen] of [
    ['rst', 'ECONNRESET'],
    ['fin', 'end'],
  ] as const) {
    const [one, two] = [await connect(t, proxy), await connect(t, proxy)]
    const serverSide = Promise.all(sockets.slice(-2).map(closed))
    proxy.cut(how)
    t.equal(await one.ends(), seen)
    t.equal(await two.ends(), seen)
    await serverSide
    await connect(t, proxy)
  }
})

void t.test('a cut after N bytes lets exactly those through', async (t) => {
  const { proxy } = await setUp(t)
  for (const how of ['rst', 'fin'] as const) {
    const client = await connect(t, proxy)
    proxy.cutAfter(1_234, 'to-client', how)
    client.socket.write(Buffer.alloc(1_000))
    await client.receives(1_005)
    t.equal(client.ended, null)
    client.socket.write(Buffer.alloc(1_000))
    // libuv reports an RST right behind data as an end, so how it ended is not distinguished here.
    t.not(await client.ends(), null)
    t.equal(client.received.length, 5 + 1_234)
  }
})

void t.test('latency delays bytes each way, and they do not overtake each other when it falls', async (t) => {
  const { proxy } = await setUp(t)
  const client = await connect(t, proxy)
  proxy.setLatency(60)
  const start = performance.now()
  client.socket.write('first')
  await shortWhile()
  proxy.setLatency(0)
  client.socket.write('second')
  await client.receives(16)
  t.ok(performance.now() - start >= 60)
  t.equal(client.received.toString(), 'hellofirstsecond')
})

void t.test(
  'while it refuses, open connections stay and new ones are refused, until it accepts again on the same port',
  async (t) => {
    const { proxy } = await setUp(t)
    const client = await connect(t, proxy)
    const { port } = proxy
    await proxy.refuse()
    const refused = new Client(proxy)
    t.equal(await refused.ends(), 'ECONNREFUSED')
    client.socket.write('still here')
    await client.receives(15)
    await proxy.accept()
    t.equal(proxy.port, port)
    await connect(t, proxy)
  },
)

void t.test('a blackhole accepts connections and never answers', async (t) => {
  const { proxy } = await setUp(t)
  const client = await connect(t, proxy)
  proxy.setBlackhole(true)
  const lost = new Client(proxy)
  t.teardown(() => lost.socket.destroy())
  lost.socket.write('anybody?')
  await shortWhile()
  t.equal(proxy.acceptedCount, 2)
  t.equal(lost.received.length, 0)
  t.equal(lost.ended, null)
  client.socket.write('still here')
  await client.receives(15)
  proxy.setBlackhole(false)
  await connect(t, proxy)
})

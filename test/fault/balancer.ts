/**
 * A TCP load balancer like a Kubernetes Service: it polls each replica's `/readyz`, gives new connections to those that
 * are ready, in turn or at random, and leaves existing connections alone. A Service leaves it to the replica to refuse a connection;
 * this has accepted it already, and so gives it to another replica.
 */
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import net from 'node:net'
import type { Test } from 'tap'
import type { Random } from '../../src/support/random.js'

export interface Balancer {
  readonly port: number
  /** Ports of the replicas that receive new connections. */
  readonly ready: ReadonlySet<number>
  /** The number of connections to a replica. */
  connections(port: number): number
  /** Picks a replica at random from now on. */
  pickBy(random: Random): void
  /** @param healthPort of plain HTTP, for `/readyz`. Default: `port`. */
  add(port: number, healthPort?: number): void
  remove(port: number): void
}

export async function startBalancer(t: Test, pollMs: number): Promise<Balancer> {
  /** The health ports, by connection port. */
  const replicas = new Map<number, number>()
  const ready = new Set<number>()
  const sockets = new Set<net.Socket>()
  const connections = new Map<number, number>()
  let random: Random | null = null
  let turn = 0
  const serve = (client: net.Socket): void => {
    const ports = [...ready]
    const next = random === null ? turn++ : Math.floor(random.next() * ports.length)
    const port = ports[next % Math.max(ports.length, 1)]
    if (port === undefined) {
      client.destroy()
      return
    }
    const replica = net.connect(port, '127.0.0.1')
    sockets.add(replica)
    replica.once('close', () => sockets.delete(replica))
    const refuse = (): void => {
      ready.delete(port)
      serve(client)
    }
    replica.once('error', refuse)
    replica.once('connect', () => {
      replica.off('error', refuse)
      connections.set(port, (connections.get(port) ?? 0) + 1)
      replica.once('close', () => connections.set(port, connections.get(port)! - 1))
      replica.once('error', () => client.destroy())
      // Also without an error: a client may leave without having read everything.
      client.once('close', () => replica.destroy())
      client.pipe(replica)
      replica.pipe(client)
    })
  }
  const server = net.createServer((client) => {
    sockets.add(client)
    client.on('error', () => client.destroy())
    client.once('close', () => sockets.delete(client))
    serve(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const poll = setInterval(() => {
    for (const [port, healthPort] of replicas) {
      void isReady(healthPort).then((is) => (is && replicas.has(port) ? ready.add(port) : ready.delete(port)))
    }
  }, pollMs)
  t.teardown(() => {
    clearInterval(poll)
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as net.AddressInfo
  return {
    port,
    ready,
    connections: (replica) => connections.get(replica) ?? 0,
    pickBy: (given) => void (random = given),
    add: (port, healthPort = port) => void replicas.set(port, healthPort),
    remove: (port) => void (replicas.delete(port), ready.delete(port)),
  }
}

async function isReady(port: number): Promise<boolean> {
  try {
    const request = get({ port, host: '127.0.0.1', path: '/readyz', agent: false })
    const [answer] = (await once(request, 'response')) as [IncomingMessage]
    answer.resume()
    return answer.statusCode === 200
  } catch {
    return false
  }
}

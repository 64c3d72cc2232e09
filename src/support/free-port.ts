/**
 * Ports for those that are told a port, and bind it later.
 *
 * A port of `listen(0)` does not stay free: it lies among those that the system gives to outgoing connections, to
 * anybody's, and to a client that tries again and again to reach a server that is down it may give that server's own.
 * Those here lie below (Linux begins at 32768, others at 49152), and below Kubernetes' node ports, which begin at 30000.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'

const FIRST = 16_384
const COUNT = 13_600

/** Processes that run at the same time begin far from each other, and a process has each port once. */
let next = process.pid * 101

/** @throws Error when the host is none of this machine's, or has no port left. */
export async function freePort(host: string): Promise<number> {
  for (let tries = 0; tries < COUNT; tries++) {
    const port = FIRST + (next++ % COUNT)
    if (await isFree(host, port)) return port
  }
  throw new Error(`${host} has no port left`)
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = createServer().listen(port, host)
  try {
    await once(server, 'listening')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false
    throw error
  }
  server.close()
  await once(server, 'close')
  return true
}

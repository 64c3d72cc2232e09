/**
 * Finds free ports for programs that bind their port later.
 *
 * A port from `listen(0)` may not stay free, because the system can assign it to any outgoing connection. That includes
 * connections of a client that keeps trying to reach the server for which the port is meant. The ports here are below
 * the range for outgoing connections, which begins at 32768 on Linux and at 49152 on other systems. They are also below
 * Kubernetes' node ports, which begin at 30000.
 */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

export interface PortRange {
  readonly first: number
  readonly count: number
}

const OWN: PortRange = { first: 26_384, count: 3_600 }

/**
 * @returns a random port of the range.
 * @throws Error when the host is not an address of this machine, or has no free port left.
 */
export async function freePort(host: string, { first, count }: PortRange = OWN): Promise<number> {
  const start = randomInt(count)
  for (let tries = 0; tries < count; tries++) {
    const port = first + ((start + tries) % count)
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

/**
 * Free ports for programs that are given a port and bind it later.
 *
 * A port from `listen(0)` does not stay free: the system may assign it to any outgoing connection, even one from a
 * client that keeps trying to reach the server that should have it. Ports here lie below that range (Linux begins at
 * 32768, others at 49152), and below Kubernetes' node ports, which begin at 30000.
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
 * @returns a random port of the range. @throws Error when the host is not one of this machine's, or has no port left.
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

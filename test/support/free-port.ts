/**
 * Ports for the servers that a test starts. Many tests run at once, and a server that is started again needs the port it had:
 * so a port is the test's until its process ends, in use or not. It is held by a Unix socket of that number in Linux's
 * abstract namespace, which the system closes whatever ends the process.
 */
import { createServer } from 'node:net'
import { freePort as freePortOf, type PortRange } from '../../src/support/free-port.js'

/** Apart from those that a server chooses for itself. */
const OF_TESTS: PortRange = { first: 16_384, count: 10_000 }

export async function freePort(): Promise<number> {
  while (true) {
    const port = await freePortOf('127.0.0.1', OF_TESTS)
    if (await reserve(port)) return port
  }
}

/** None is given twice. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) ports.push(await freePort())
  return ports
}

/** @returns whether nobody had reserved it. */
function reserve(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = createServer()
      .once('listening', () => resolve(true))
      .once('error', (error: NodeJS.ErrnoException) => {
        if (error.code === 'EADDRINUSE') resolve(false)
        else reject(error)
      })
    socket.listen(`\0distributary-test-port-${port}`).unref()
  })
}

/**
 * Ports for the servers that a test starts. Many tests run at once, and a restarted server needs its old port: a port
 * is therefore reserved until the test process ends, used or not. The reservation is a Unix socket of that number in
 * Linux's abstract namespace, which the system closes however the process ends.
 */
import { createServer } from 'node:net'
import { freePort as freePortOf, type PortRange } from '../../src/server/wiring/free-port.js'

/** Outside the range from which servers choose ports themselves. */
const OF_TESTS: PortRange = { first: 16_384, count: 10_000 }

export async function freePort(): Promise<number> {
  while (true) {
    const port = await freePortOf('127.0.0.1', OF_TESTS)
    if (await reserve(port)) return port
  }
}

/** No port is returned twice. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) ports.push(await freePort())
  return ports
}

/** @returns whether it was free. */
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

/** Ports for the servers that a test starts. */
import { freePort as freePortOf } from '../../src/support/free-port.js'

export async function freePort(): Promise<number> {
  return await freePortOf('127.0.0.1')
}

/** None is given twice. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) ports.push(await freePort())
  return ports
}

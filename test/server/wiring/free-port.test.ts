/** Tests ports for servers that are given a port and bind it later. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import t from 'tap'
import { freePort } from '../../../src/server/wiring/free-port.js'
import { freePorts } from '../../support/free-port.js'

/** The ports that the system assigns to `listen(0)` and outgoing connections. */
const [firstOfSystem = 0] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split('\t').map(Number)

void t.test('the port can be listened on, and the system assigns it to no other process', async (t) => {
  for (let i = 0; i < 50; i++) {
    const port = await freePort('127.0.0.1')
    t.ok(port < 30_000, 'it is not a node port')
    t.ok(port < firstOfSystem, 'and none of an outgoing connection')
    const server = createServer().listen(port, '127.0.0.1')
    await once(server, 'listening')
    server.close()
  }
})

void t.test('a port in use is skipped', async (t) => {
  const isFree = (port: number): Promise<boolean> =>
    new Promise((resolve) => {
      const server = createServer().once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
    })
  let first = 0
  do first = await freePort('127.0.0.1')
  while (!(await isFree(first + 1)))
  const server = createServer().listen(first, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const range = { first, count: 2 }
  for (let i = 0; i < 10; i++) t.equal(await freePort('127.0.0.1', range), first + 1)
  await t.rejects(freePort('127.0.0.1', { first, count: 1 }), { message: '127.0.0.1 has no port left' })
})

void t.test('an address of another machine has none', async (t) => {
  await t.rejects(freePort('192.0.2.1'), { code: 'EADDRNOTAVAIL' })
})

void t.test('a port belongs to one test process until that ends, whether it is in use or not', async (t) => {
  const program = `
    import { freePorts } from ${JSON.stringify(new URL('../../support/free-port.js', import.meta.url).href)}
    console.log(JSON.stringify(await freePorts(1000)))
    process.stdin.resume()`
  const processes = [0, 1, 2].map(() =>
    spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['pipe', 'pipe', 'inherit'] }),
  )
  const lines = await Promise.all(processes.map(({ stdout }) => once(createInterface(stdout), 'line')))
  const ports = [...lines.flatMap(([line]) => JSON.parse(String(line)) as number[]), ...(await freePorts(100))]
  t.equal(new Set(ports).size, 3_100)
  for (const process of processes) {
    const closed = once(process, 'close')
    process.stdin.end()
    t.same(await closed, [0, null], 'nothing keeps the process')
  }
})

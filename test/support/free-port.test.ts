/** Ports for those that are told a port, and bind it later. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import t from 'tap'
import { freePort } from '../../src/support/free-port.js'

/** What the system gives to `listen(0)` and to outgoing connections. */
const [firstOfSystem = 0] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split('\t').map(Number)

void t.test('a port can be listened on, and is given to nobody else', async (t) => {
  const ports = new Set<number>()
  for (let i = 0; i < 50; i++) ports.add(await freePort('127.0.0.1'))
  t.equal(ports.size, 50, 'each is given once')
  t.ok(Math.max(...ports) < 30_000, 'none is a node port')
  t.ok(Math.max(...ports) < firstOfSystem, 'none is given to an outgoing connection')
})

void t.test('a port that is in use is left out', async (t) => {
  const first = await freePort('127.0.0.1')
  const server = createServer().listen(first + 1, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  t.not(await freePort('127.0.0.1'), first + 1)
})

void t.test('an address of another machine has none', async (t) => {
  await t.rejects(freePort('192.0.2.1'), { code: 'EADDRNOTAVAIL' })
})

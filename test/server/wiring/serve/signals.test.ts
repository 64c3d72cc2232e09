/** Signals that arrive while a server starts, before anybody can have waited for it to be ready (issue 22). */
import t from 'tap'
import { until } from '../../../support/until.js'
import { startServer } from '../../../support/server-process.js'

/** Node options that run `code` before the program. */
const before = (code: string): { readonly NODE_OPTIONS: string } => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}`,
})

/**
 * Sends the process the signal once, when the first of its ports is open. Listeners that it opens for self-checks do
 * not count.
 */
const whenItListens = (signal: NodeJS.Signals): string => `
  import { Server } from 'node:net'
  const { listen } = Server.prototype
  Server.prototype.listen = function (...args) {
    if (typeof args[0] === 'object' && !globalThis.isPortOpen) {
      globalThis.isPortOpen = true
      this.once('listening', () => process.kill(process.pid, '${signal}'))
    }
    return listen.apply(this, args)
  }`

void t.test('SIGTERM drains from the moment when the first port is open', async (t) => {
  for (const flags of [[], ['--shutdown-delay-duration=100ms'], ['--metrics-bind-address=127.0.0.1:0']]) {
    const server = await startServer(t, { flags, environment: before(whenItListens('SIGTERM')), ready: false })
    t.equal(await server.exited, 0, flags.join(' '))
    t.match(server.log(), /"msg":"draining"[^]*"msg":"stopped"/)
  }
})

void t.test('a signal that arrives while the program loads ends it', async (t) => {
  for (const flags of [[], ['--workers=2']]) {
    for (const signal of ['SIGTERM', 'SIGINT']) {
      const whenListenedFor = `
        process.on('newListener', function send(event) {
          if (event !== '${signal}') return
          process.off('newListener', send)
          setImmediate(() => process.kill(process.pid, event))
        })`
      const started = startServer(t, { flags, environment: before(whenListenedFor), ready: false })
      await t.rejects(started, { message: /^the server ended \(0\): \s*$/ }, `${signal} ${flags.join()}`)
    }
  }
})

void t.test('signals of a whole unit that arrive while its processes load end none of them', async (t) => {
  // Before it does anything else, the primary listens for SIGTERM, and a worker reads what the primary tells it.
  const whileItLoads = `
    import cluster from 'node:cluster'
    import fs from 'node:fs'
    import { syncBuiltinESMExports } from 'node:module'
    const send = (...signals) => { for (const signal of signals) process.kill(process.pid, signal) }
    if (cluster.isPrimary) {
      process.on('newListener', function sendOnce(event) {
        if (event !== 'SIGTERM') return
        process.off('newListener', sendOnce)
        setImmediate(send, 'SIGHUP', 'SIGUSR2')
      })
    } else {
      const { readFileSync } = fs
      fs.readFileSync = (file, ...more) => {
        if (file === 0) {
          console.error('signalled a worker')
          send('SIGHUP', 'SIGUSR2', 'SIGINT')
        }
        return readFileSync(file, ...more)
      }
      syncBuiltinESMExports()
    }`
  for (const flags of [[], ['--workers=2']]) {
    const server = await startServer(t, { flags, environment: before(whileItLoads) })
    t.equal((await fetch(`${server.url}/readyz`)).status, 200, flags.join())
    t.notMatch(server.log(), 'worker ended')
    t.equal(server.log().split('signalled a worker').length - 1, flags.length * 2)
    t.equal(await server.kill('SIGTERM'), 0)
  }
})

void t.test('SIGHUP is handled from the same moment', async (t) => {
  const server = await startServer(t, { flags: [], environment: before(whenItListens('SIGHUP')) })
  await until(() => server.log().includes('configuration reloaded'), 'it is loaded again')
  t.equal((await fetch(`${server.url}/readyz`)).status, 200)
})

void t.test('SIGHUP does not end a worker that is still starting, which reloads when it serves', async (t) => {
  const signalThePrimary = `
    import cluster from 'node:cluster'
    if (cluster.isWorker) {
      process.kill(process.ppid, 'SIGHUP')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
    }`
  const server = await startServer(t, { flags: ['--workers=2'], environment: before(signalThePrimary) })
  const reloadedBy = (): ReadonlySet<number> =>
    new Set(
      server
        .log()
        .split('\n')
        .filter((line) => line.includes('configuration reloaded'))
        .map((line) => (JSON.parse(line) as { worker?: number }).worker ?? 0),
    )
  await until(() => reloadedBy().size === 3, 'the primary and both workers have loaded it again')
  t.notMatch(server.log(), 'worker ended')
})

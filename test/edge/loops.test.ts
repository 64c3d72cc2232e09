/**
 * Issue 57: the documented loop of long polls, through real caches as `deploy/edge/` configures them. A quiet resource
 * must not make it spin, neither while the server drains nor after its restart, and no answer is older than it may be.
 */
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname } from 'node:path'
import t, { type Test } from 'tap'
import { startHttpFaults } from '../client/reflector/http-faults.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { freePort } from '../support/free-port.js'
import { startHttpCache } from '../support/http-cache.js'
import { startServer } from '../support/server-process.js'
import { pause, until } from '../support/until.js'
import { FLAGS } from './poller.js'

interface Document {
  readonly metadata: { readonly resourceVersion: string; readonly history: string; readonly cursor?: string }
  readonly events: readonly unknown[]
}

/** The loop of the documentation. A poll that fails is repeated after a second, as Retry-After says. */
class Loop {
  empty = 0
  failed = 0
  /** Answers that let the next poll be the same request again. */
  repeated = 0
  lists = 0
  events = 0
  position = ''
  #isStopped = false
  readonly #running: Promise<void>

  constructor(
    private readonly flags: string,
    private readonly wait: string,
  ) {
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
  }

  async #run(): Promise<void> {
    let history = ''
    let cursor: string | undefined
    while (!this.#isStopped) {
      try {
        if (this.position === '') {
          const list = await fetch(`${this.flags}?history=${history}`)
          await list.arrayBuffer()
          this.position = list.headers.get('x-distributary-position') ?? ''
          if (!list.ok || this.position === '') throw new Error(`a list: ${list.status}`)
          this.lists++
          cursor = undefined
        }
        const [resourceVersion] = this.position.split('.')
        const url = `${this.flags}?watch=1&resourceVersion=${resourceVersion}&wait=${this.wait}&history=${this.position}`
        const poll = await fetch(cursor === undefined ? url : `${url}&cursor=${cursor}`)
        if (poll.status === 410) {
          history = poll.headers.get('x-distributary-history') ?? ''
          this.position = ''
        }
        const { metadata, events } = (await poll.json()) as Document
        if (!poll.ok) throw new Error(`a poll: ${poll.status}`)
        if (events.length === 0) this.empty++
        this.events += events.length
        if (metadata.history === this.position && metadata.cursor === cursor) this.repeated++
        this.position = metadata.history
        cursor = metadata.cursor
      } catch {
        this.failed++
        if (!this.#isStopped) await pause(1_000)
      }
    }
  }
}

async function listening(t: Test, answer: http.RequestListener): Promise<number> {
  const origin = http.createServer(answer)
  t.teardown(() => {
    origin.closeAllConnections()
    origin.close()
  })
  await once(origin.listen(0, '127.0.0.1'), 'listening')
  return (origin.address() as AddressInfo).port
}

for (const name of ['nginx', 'varnish'] as const) {
  void t.test(`through ${name} a plain loop on a quiet resource waits, through a drain and a restart`, async (t) => {
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    await writer.put('/config/flags/a', '1')
    const port = await freePort()
    // prettier-ignore
    const flags = [
      '--etcd-servers', etcd.url, '--port', String(port), '--resource', 'flags=/config/flags/',
      '--public-caching', 'flags.distributary.io=5s/30s', '--shutdown-delay-duration', '4s',
    ]
    const server = await startServer(t, { flags, isSurrounded: false })
    // The position of the list is ahead of the cache, whose etcd cannot be asked for progress.
    await writer.put('/elsewhere/k', '1')
    const origin = await startHttpFaults(t, port)
    const cache = await startHttpCache(t, name, origin.port)
    const loops = Array.from({ length: 20 }, () => new Loop(cache.url + FLAGS, '2s'))
    t.teardown(async () => await Promise.all(loops.map(async (loop) => await loop.stop())))
    const began = performance.now()
    await until(() => loops.every(({ empty }) => empty >= 3), 'three empty answers for each', 60_000)
    t.equal(Math.max(...loops.map(({ failed }) => failed)), 0, 'none was refused')

    const ended = server.kill('SIGTERM')
    const before = Math.max(...loops.map(({ empty }) => empty))
    await until(() => loops.every(({ empty }) => empty > before), 'polls wait on during the delay', 60_000)
    await ended
    await pause(2_000)
    await startServer(t, { flags, isSurrounded: false })
    const last = Math.max(...loops.map(({ empty }) => empty))
    await until(() => loops.every(({ empty }) => empty > last), 'empty answers again', 60_000)
    const seconds = (performance.now() - began) / 1_000
    await writer.put('/config/flags/a', '2')
    await until(() => loops.every(({ events }) => events === 1), 'the event, once for each', 60_000)

    t.equal(Math.max(...loops.map(({ repeated }) => repeated)), 0, 'no answer led to the same request')
    // One that is shared while it is kept may take a second less than its wait.
    const most = Math.max(...loops.map(({ empty }) => empty))
    t.ok(most <= seconds + 1, `${most} empty answers in ${seconds.toFixed()} s`)
    t.ok(Math.max(...loops.map(({ failed }) => failed)) <= seconds)
    t.same(new Set(loops.map(({ lists }) => lists)), new Set([1]), 'nobody listed again')
    const polls = origin.requests.filter(({ isWatch }) => isWatch).length
    t.ok(polls <= seconds * 4, `${polls} polls of 20 loops reached the server in ${seconds.toFixed()} s`)
  })

  for (const [durations, most] of [
    ['1s/2s', 3_000],
    ['1s', 1_000],
  ] as const) {
    void t.test(`${name} serves no list that is older than --public-caching=${durations} allows`, async (t) => {
      const etcd = await startEtcd(t)
      const writer = new EtcdWriter([etcd])
      const flags = ['--etcd-servers', etcd.url, '--resource', 'flags=/config/flags/']
      const { port } = await startServer(t, {
        flags: [...flags, '--public-caching', `flags.distributary.io=${durations}`],
        isSurrounded: false,
      })
      const cache = await startHttpCache(t, name, port)
      for (const query of ['', '?history=']) {
        const list = async (): Promise<string> => await (await fetch(cache.url + FLAGS + query)).text()
        await writer.put('/config/flags/a', '"first"')
        t.match(await list(), 'first')
        await writer.put('/config/flags/a', '"second"')
        // nginx counts whole seconds.
        await pause(most + 1_100)
        t.match(await list(), 'second', `of the list${query}`)
      }
    })
  }

  void t.test(`${name} caches the refusal of a poll for all clients, for one second`, async (t) => {
    let requests = 0
    let sent = 0
    const port = await listening(t, (_request, response) => {
      if (++requests > 1) return void response.writeHead(200, { 'cache-control': 'public, max-age=1' }).end('{}')
      const refuse = (): unknown =>
        response.writeHead(504, { 'x-accel-expires': '1', 'cache-control': 'no-store', 'retry-after': '1' }).end('{}')
      void until(() => sent === 5, 'all polls have reached the cache').then(refuse)
    })
    const cache = await startHttpCache(t, name, port)
    const poll = async (): Promise<number | undefined> => {
      const asked = http.get(`${cache.url}${FLAGS}?watch=1&resourceVersion=7&wait=2s&history=7.x`, { agent: false })
      // The request is written as soon as the connection is open.
      asked.once('socket', (socket) => socket.once('connect', () => setImmediate(() => sent++)))
      const [response] = (await once(asked, 'response')) as [http.IncomingMessage]
      response.resume()
      return response.statusCode
    }
    t.same(await Promise.all(Array.from({ length: 5 }, poll)), [504, 504, 504, 504, 504])
    t.equal(requests, 1)
    await pause(2_100)
    t.equal(await poll(), 200, 'the server has recovered')
  })
}

void t.test('the files start beside the packages of Debian, on a port of their own', (t) => {
  const read = (file: string): string => readFileSync(new URL(`../../../deploy/edge/${file}`, import.meta.url), 'utf8')
  const nginx = read('nginx.conf')
  const paths = [...nginx.matchAll(/^ *(?:pid|access_log|error_log|proxy_cache_path) (\/[^ ;]+)/gm)].map(
    ([, path]) => path!,
  )
  t.equal(paths.length, 4)
  // nginx creates the last folder of a path, but none above it.
  for (const path of paths) t.ok(existsSync(dirname(path)), path)
  t.notOk(paths.includes('/run/nginx.pid'), "the package's own nginx writes there")
  for (const text of [nginx, read('varnish.vcl')]) {
    // The example page of docs/guide/plain-prefixes.md is served on 8080.
    t.match(text, '127.0.0.1:8090')
    t.notMatch(text, '127.0.0.1:8080')
    t.match(text, '--allowed-hosts')
  }
  t.end()
})

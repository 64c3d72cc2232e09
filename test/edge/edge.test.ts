/**
 * Long polls through real caches, as `deploy/edge/` configures them: many pollers behind nginx and Varnish, one server, one etcd. What each
 * poller saw is compared with what was written, and what the server was asked with what it had to be asked.
 */
import http from 'node:http'
import t, { type Test } from 'tap'
import { fetchTransport, type KubeObject, pollTransport, SharedInformer } from '../../src/client/index.js'
import { startHttpFaults, type HttpFaults } from '../client/reflector/http-faults.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { freePort } from '../support/free-port.js'
import { type HttpCache, startHttpCache } from '../support/http-cache.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const FLAGS = '/apis/distributary.io/v1/flags'
/** For each cache. */
const POLLERS = 1_000

interface Seen {
  readonly type: string
  readonly object: { readonly metadata: { readonly name: string; readonly resourceVersion: string } }
}

interface Answer {
  readonly code: number
  readonly history: string
  readonly body: string
}

/** Lists, then polls from where the list ends, again and again; after a 410 it lists again. */
class Poller {
  /** Revisions of events since the last list, which ends `from`. */
  seen: number[] = []
  from = 0
  position = 0
  lists = 0
  readonly problems: string[] = []
  #history: string | null = null
  #isStopped = false
  readonly #url: string
  readonly #agent: http.Agent
  readonly #running: Promise<void>
  #request: http.ClientRequest | null = null
  readonly #onSegment: (poller: Poller) => void

  constructor(url: string, agent: http.Agent, onSegment: (poller: Poller) => void) {
    this.#url = url
    this.#agent = agent
    this.#onSegment = onSegment
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#request?.destroy()
    await this.#running
    this.#onSegment(this)
  }

  async #run(): Promise<void> {
    let mustList = true
    while (!this.#isStopped) {
      try {
        mustList = mustList ? !(await this.#list()) : !(await this.#poll())
      } catch {
        // The cache is being restarted.
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
  }

  async #list(): Promise<boolean> {
    const answer = await this.#get(this.#history === null ? FLAGS : `${FLAGS}?history=${this.#history}`)
    if (answer.code !== 200) throw new Error(`a list: ${answer.code}`)
    const list = JSON.parse(answer.body) as { readonly metadata: { readonly resourceVersion: string } }
    if (this.lists++ > 0) this.#onSegment(this)
    this.seen = []
    this.#history = answer.history
    this.from = this.position = Number(list.metadata.resourceVersion)
    return true
  }

  /** @returns false when it has to list again. */
  async #poll(): Promise<boolean> {
    const answer = await this.#get(
      `${FLAGS}?watch=1&resourceVersion=${this.position}&wait=50s&history=${this.#history ?? ''}`,
    )
    if (answer.code === 410) {
      this.#history = answer.history
      return false
    }
    if (answer.code !== 200) throw new Error(`a poll: ${answer.code}`)
    const { metadata, events } = JSON.parse(answer.body) as {
      readonly metadata: { readonly resourceVersion: string; readonly history: string }
      readonly events: readonly Seen[]
    }
    if (metadata.history !== this.#history) this.problems.push('an answer of another history')
    for (const { object } of events) this.seen.push(Number(object.metadata.resourceVersion))
    this.position = Number(metadata.resourceVersion)
    return true
  }

  #get(path: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#request = http.get(
        this.#url + path,
        { agent: this.#agent, headers: { accept: 'application/json' } },
        (response) => {
          let body = ''
          response.setEncoding('utf8')
          response.on('data', (text: string) => (body += text))
          response.on('end', () =>
            resolve({
              code: response.statusCode ?? 0,
              history: String(response.headers['x-distributary-history'] ?? ''),
              body,
            }),
          )
          response.on('error', reject)
        },
      )
      this.#request.on('error', reject)
    })
  }
}

interface Edge {
  readonly cache: HttpCache
  readonly pollers: readonly Poller[]
  /** What the cache asks the server. */
  readonly origin: HttpFaults
}

async function openEdge(
  t: Test,
  name: HttpCache['name'],
  port: number,
  onSegment: (poller: Poller) => void,
): Promise<Edge> {
  const origin = await startHttpFaults(t, port)
  const cache = await startHttpCache(t, name, origin.port)
  const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity })
  t.teardown(() => agent.destroy())
  const pollers = Array.from({ length: POLLERS }, () => new Poller(cache.url, agent, onSegment))
  return { cache, pollers, origin }
}

for (const name of ['nginx', 'varnish'] as const) {
  void t.test(`${name} answers ${POLLERS} pollers from one request a revision, through restarts`, async (t) => {
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    const port = await freePort()
    // prettier-ignore
    const flags = [
      '--etcd-servers', etcd.url, '--port', String(port), '--resource', 'flags=/config/flags/',
      '--public-caching', 'flags.distributary.io=5s/10s',
    ]
    let server = await startServer(t, { flags })
    const written: number[] = [await writer.put('/config/flags/a', '0')]
    let at = 0
    const write = async (): Promise<number> => {
      const revision = await writer.put(`/config/flags/${'abc'[at % 3]}`, String(++at))
      written.push(revision)
      return revision
    }
    const wrong: string[] = []
    // Exactly what was written after the list, up to where the poller is.
    const check = ({ seen, from, position }: Poller): void => {
      const expected = written.filter((revision) => revision > from && revision <= position)
      if (seen.join() !== expected.join()) wrong.push(`after ${from}: ${seen.join()}, not ${expected.join()}`)
    }
    const { cache, pollers, origin } = await openEdge(t, name, port, check)
    const informer = new SharedInformer<KubeObject & { value: number }>({
      transport: pollTransport(fetchTransport({ server: cache.url }), { waitSeconds: 50 }),
      path: FLAGS,
      backoff: { firstMs: 20, capMs: 200 },
    })
    t.teardown(() => informer.stop())
    informer.start()
    const reach = async (revision: number): Promise<void> =>
      await until(
        () => pollers.every(({ position }) => position >= revision),
        () => `${pollers.filter(({ position }) => position >= revision).length} have ${revision}`,
        120_000,
      )

    await reach(written.at(-1)!)
    const before = origin.requests.length
    for (let i = 0; i < 10; i++) await reach(await write())
    const polls = origin.requests.slice(before).filter(({ isWatch }) => isWatch)
    const byRevision = new Map<string, number>()
    for (const { query } of polls) {
      const revision = query.get('resourceVersion') ?? ''
      byRevision.set(revision, (byRevision.get(revision) ?? 0) + 1)
    }
    t.ok(byRevision.size >= 9, `${byRevision.size} revisions were asked for`)
    t.same(
      new Set(byRevision.values()),
      new Set([1]),
      `each once: ${polls.length} for ${POLLERS} pollers and 10 events`,
    )

    await cache.restart()
    for (let i = 0; i < 3; i++) await reach(await write())
    t.ok(
      pollers.every(({ lists }) => lists === 1),
      'no client lists again after a restart of the cache',
    )

    await server.kill('SIGKILL')
    for (let i = 0; i < 3; i++) await write()
    server = await startServer(t, { flags })
    await reach(await write())
    t.ok(
      pollers.every(({ lists }) => lists === 2),
      'a restarted server has a new history',
    )
    const after = origin.requests.length
    await reach(await write())
    t.ok(origin.requests.length - after < 20, `${origin.requests.length - after} requests for the next event`)

    await until(() => informer.store.list().some(({ value }) => value === at), 'the informer has it, too')
    t.equal(informer.store.list().length, 3)
    await Promise.all(pollers.map(async (poller) => await poller.stop()))
    t.same(wrong.slice(0, 5), [], 'each event came once and in order')
    t.same(
      pollers.flatMap(({ problems }) => problems),
      [],
    )
  })
}

/**
 * A rolling update as a Deployment does it: before each old replica ends, a new one is ready, and the balancer learns
 * of both only from `/readyz`. No client may notice: no request fails, no watch relists, and every change arrives.
 */
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import { Agent as SecureAgent, request as requestSecurely } from 'node:https'
import { KubeConfig, CoreV1Api, makeInformer } from '@kubernetes/client-node'
import t, { type Test } from 'tap'
import { pod } from '../support/pod.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { only } from '../support/only.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { pause, until } from '../support/until.js'
import { type Balancer, startBalancer } from './balancer.js'
import { secureFlags } from '../support/secure-flags.js'

const POLL_MS = 100
const KEPT_ALIVE = 4

interface Ask {
  readonly url: string
  readonly method: string
  readonly path: string
  readonly body: string | undefined
}

/** Sends requests on a kept-alive connection. */
interface Sender {
  /** Returns the status. @throws Error when there is no complete answer. */
  send(ask: Ask): Promise<number | undefined>
  close(): void
}

const PATCH = { 'content-type': 'application/merge-patch+json' }

/** HTTP/1.1, with TLS or without, as `url` says. */
function http1(): Sender {
  const [plain, secure] = [
    new Agent({ keepAlive: true, maxSockets: 1 }),
    new SecureAgent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false }),
  ]
  return {
    async send({ url, method, path, body }) {
      const options = { method, headers: body === undefined ? {} : PATCH }
      const target = new URL(path, url)
      const asked =
        target.protocol === 'https:'
          ? requestSecurely(target, { ...options, agent: secure })
          : request(target, { ...options, agent: plain })
      asked.end(body)
      const [answer] = (await once(asked, 'response')) as [IncomingMessage]
      answer.resume()
      await once(answer, 'end')
      return answer.statusCode
    },
    close: () => {
      plain.destroy()
      secure.destroy()
    },
  }
}

/**
 * HTTP/2 with TLS, like client-go: after a GOAWAY it opens another connection, and resends there what the first one
 * refused.
 */
function http2(): Sender {
  let session: ClientHttp2Session | null = null
  const open = (url: string): ClientHttp2Session => {
    if (session === null || session.closed || session.destroyed) {
      const opened = connect(url, { rejectUnauthorized: false })
      opened.on('error', () => {})
      opened.on('goaway', () => opened.close())
      session = opened
    }
    return session
  }
  const send = async ({ url, method, path, body }: Ask, attempt = 0): Promise<number | undefined> => {
    const headers = { ':method': method, ':path': path, ...(body === undefined ? {} : PATCH) }
    let stream: ClientHttp2Stream | null = null
    try {
      stream = open(url).request(headers)
      stream.end(body)
      const [answer] = (await once(stream, 'response')) as [{ ':status'?: number }]
      stream.resume()
      if (!stream.readableEnded) await once(stream, 'end')
      return answer[':status']
    } catch (error) {
      const wasRefused = stream === null || stream.rstCode === constants.NGHTTP2_REFUSED_STREAM
      if (!wasRefused || attempt > 2) throw error
      return await send({ url, method, path, body }, attempt + 1)
    }
  }
  return { send, close: () => session?.destroy() }
}

/** Sends requests continuously on a kept-alive connection, and records failures. */
class Asker {
  answered = 0
  readonly failures: string[] = []
  readonly #sender: Sender
  #isStopped = false
  readonly done: Promise<void>

  constructor(sender: Sender, url: string, method: string, path: string, body?: () => string) {
    this.#sender = sender
    this.done = this.#askOn(url, method, path, body)
  }

  async #askOn(url: string, method: string, path: string, body?: () => string): Promise<void> {
    while (!this.#isStopped) {
      try {
        const status = await this.#sender.send({ url, method, path, body: body?.() })
        if (status === 200) this.answered++
        else this.failures.push(`${method} ${path}: ${status}`)
      } catch (error) {
        this.failures.push(`${method} ${path}: ${String(error)}`)
      }
      await pause(60)
    }
    this.#sender.close()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.done
  }
}

/** client-node's own informer; `lists` counts its lists. */
function follow(t: Test, url: string) {
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'c', server: url, skipTLSVerify: true }, { name: 'u' })
  const api = config.makeApiClient(CoreV1Api)
  const seen = { lists: 0 }
  const informer = makeInformer(config, '/api/v1/pods', async () => {
    seen.lists++
    return await api.listPodForAllNamespaces()
  })
  // The end of a watch is not a failure: it resumes.
  let isStopped = false
  informer.on('error', () => void setTimeout(() => void (isStopped || informer.start()), 50))
  t.teardown(() => {
    isStopped = true
    return informer.stop()
  })
  return { informer, seen }
}

interface Replica {
  readonly process: ServerProcess
  /** Where the balancer sends connections. */
  readonly port: number
}

async function startReplica(t: Test, etcd: string, balancer: Balancer, isSecure: boolean): Promise<Replica> {
  const process = await startServer(t, {
    flags: [
      `--etcd-servers=${etcd}`,
      ...only('pods', 'namespaces', 'poddisruptionbudgets.policy'),
      ...(isSecure ? secureFlags() : []),
      '--enable-writes',
      '--shutdown-delay-duration=4s',
      '--shutdown-watch-termination-grace-period=1s',
    ],
  })
  const port = isSecure ? process.securePort : process.port
  balancer.add(port, process.port)
  await until(() => balancer.ready.has(port), 'the balancer knows the replica')
  return { process, port }
}

const WIRES = [
  { wire: 'HTTP/1.1', isSecure: false, open: http1 },
  { wire: 'HTTP/1.1 with TLS', isSecure: true, open: http1 },
  { wire: 'HTTP/2 with TLS', isSecure: true, open: http2 },
] as const

for (const { wire, isSecure, open } of WIRES) {
  void t.test(`a rolling update over ${wire} loses no request and makes no client relist`, async (t) => {
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    for (let i = 0; i < 20; i++) await writer.put(`/registry/pods/default/p${i}`, pod(`p${i}`))
    const balancer = await startBalancer(t, POLL_MS)
    const start = async (): Promise<Replica> => await startReplica(t, etcd.url, balancer, isSecure)
    const old = [await start(), await start()]
    const url = `${isSecure ? 'https' : 'http'}://127.0.0.1:${balancer.port}`

    let turns = 0
    const patch = (): string => JSON.stringify({ metadata: { annotations: { turn: String(turns++) } } })
    const pods = '/api/v1/namespaces/default/pods'
    const askers = [
      ...Array.from({ length: KEPT_ALIVE }, (_, i) => new Asker(open(), url, 'GET', `${pods}/p${i}`)),
      new Asker(open(), url, 'GET', pods),
      new Asker(open(), url, 'PATCH', `${pods}/p19`, patch),
    ]
    const followers = Array.from({ length: 4 }, () => follow(t, url))
    for (const { informer } of followers) await informer.start()
    let written = 0
    let isWriting = true
    const writing = (async () => {
      while (isWriting) {
        await writer.put(
          `/registry/pods/default/p${written % 10}`,
          pod(`p${written % 10}`, { labels: { n: `${written}` } }),
        )
        written++
        await pause(60)
      }
    })()

    let newest = old[0]!
    for (const replica of old) {
      newest = await start()
      const before = askers.map(({ answered }) => answered)
      t.equal(await replica.process.kill('SIGTERM'), 0, 'the old one ends in peace')
      t.ok(
        askers.every(({ answered }, i) => answered > before[i]!),
        'each was answered while it ended',
      )
      balancer.remove(replica.port)
    }
    isWriting = false
    await writing
    for (const asker of askers) {
      await asker.stop()
      t.same(asker.failures, [])
    }
    const answer = (await (await fetch(newest.process.url + pods)).json()) as { items: { metadata: object }[] }
    const wanted = new Map(answer.items.map(({ metadata }) => [nameOf(metadata), versionOf(metadata)]))
    for (const { informer, seen } of followers) {
      await until(() => {
        const held = new Map(informer.list().map(({ metadata = {} }) => [nameOf(metadata), versionOf(metadata)]))
        return held.size === wanted.size && [...wanted].every(([name, version]) => held.get(name) === version)
      }, 'the informer holds what the server lists')
      t.equal(seen.lists, 1, 'listed once, at the start')
    }
  })
}

const nameOf = (metadata: { name?: string }): string => metadata.name ?? ''
const versionOf = (metadata: { resourceVersion?: string }): string => metadata.resourceVersion ?? ''

/**
 * A rolling update as a Deployment makes one: before each old replica ends, a new one is ready, and the balancer learns of
 * both only by `/readyz`. No client may notice: no request fails, no watch relists, and every change arrives.
 */
import { type OutgoingHttpHeaders, Agent, type IncomingMessage, request } from 'node:http'
import { once } from 'node:events'
import { KubeConfig, CoreV1Api, makeInformer } from '@kubernetes/client-node'
import t, { type Test } from 'tap'
import { pod } from '../support/pod.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { pause, until } from '../support/until.js'
import { type Balancer, startBalancer } from './balancer.js'

const POLL_MS = 100
const KEPT_ALIVE = 4

/** Asks again and again on a connection that is kept alive; what fails is noted. */
class Asker {
  answered = 0
  readonly failures: string[] = []
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  #isStopped = false
  readonly done: Promise<void>

  constructor(url: string, method: string, path: string, body?: () => string) {
    this.done = this.#askOn(url, method, path, body)
  }

  async #askOn(url: string, method: string, path: string, body?: () => string): Promise<void> {
    const headers: OutgoingHttpHeaders = body === undefined ? {} : { 'content-type': 'application/merge-patch+json' }
    while (!this.#isStopped) {
      try {
        const asked = request(new URL(path, url), { method, headers, agent: this.#agent })
        asked.end(body?.())
        const [answer] = (await once(asked, 'response')) as [IncomingMessage]
        answer.resume()
        await once(answer, 'end')
        if (answer.statusCode === 200) this.answered++
        else this.failures.push(`${method} ${path}: ${answer.statusCode}`)
      } catch (error) {
        this.failures.push(`${method} ${path}: ${String(error)}`)
      }
      await pause(5)
    }
    this.#agent.destroy()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.done
  }
}

/** client-node's own informer; `lists` counts how often it had to list. */
function follow(t: Test, url: string) {
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'c', server: url, skipTLSVerify: true }, { name: 'u' })
  const api = config.makeApiClient(CoreV1Api)
  const seen = { lists: 0 }
  const informer = makeInformer(config, '/api/v1/pods', async () => {
    seen.lists++
    return await api.listPodForAllNamespaces()
  })
  // The end of a watch is no fault: it goes on from where it was.
  let isStopped = false
  informer.on('error', () => void setTimeout(() => void (isStopped || informer.start()), 50))
  t.teardown(() => {
    isStopped = true
    return informer.stop()
  })
  return { informer, seen }
}

async function startReplica(t: Test, etcd: string, balancer: Balancer): Promise<ServerProcess> {
  const replica = await startServer(t, {
    flags: [
      `--etcd-servers=${etcd}`,
      '--enable-writes',
      '--shutdown-delay-duration=4s',
      '--shutdown-watch-termination-grace-period=1s',
    ],
  })
  balancer.add(replica.port)
  await until(() => balancer.ready.has(replica.port), 'the balancer knows the replica')
  return replica
}

void t.test('a rolling update loses no request and relists nobody', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  for (let i = 0; i < 20; i++) await writer.put(`/registry/pods/default/p${i}`, pod(`p${i}`))
  const balancer = await startBalancer(t, POLL_MS)
  const old = [await startReplica(t, etcd.url, balancer), await startReplica(t, etcd.url, balancer)]

  let turns = 0
  const patch = (): string => JSON.stringify({ metadata: { annotations: { turn: String(turns++) } } })
  const pods = '/api/v1/namespaces/default/pods'
  const askers = [
    ...Array.from({ length: KEPT_ALIVE }, (_, i) => new Asker(balancer.url, 'GET', `${pods}/p${i}`)),
    new Asker(balancer.url, 'GET', pods),
    new Asker(balancer.url, 'PATCH', `${pods}/p19`, patch),
  ]
  const followers = Array.from({ length: 4 }, () => follow(t, balancer.url))
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
      await pause(20)
    }
  })()

  for (const replica of old) {
    await startReplica(t, etcd.url, balancer)
    t.equal(await replica.kill('SIGTERM'), 0, 'the old one ends in peace')
    balancer.remove(replica.port)
  }
  isWriting = false
  await writing
  for (const asker of askers) {
    await asker.stop()
    t.ok(asker.answered > 100, 'it was asked all the time')
    t.same(asker.failures, [])
  }
  const answer = (await (await fetch(balancer.url + pods)).json()) as { items: { metadata: object }[] }
  const wanted = new Map(answer.items.map(({ metadata }) => [nameOf(metadata), versionOf(metadata)]))
  for (const { informer, seen } of followers) {
    await until(() => {
      const held = new Map(informer.list().map(({ metadata = {} }) => [nameOf(metadata), versionOf(metadata)]))
      return held.size === wanted.size && [...wanted].every(([name, version]) => held.get(name) === version)
    }, 'the informer holds what the server lists')
    t.equal(seen.lists, 1, 'listed once, at the start')
  }
})

const nameOf = (metadata: { name?: string }): string => metadata.name ?? ''
const versionOf = (metadata: { resourceVersion?: string }): string => metadata.resourceVersion ?? ''

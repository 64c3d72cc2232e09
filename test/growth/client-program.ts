/**
 * The process in which the published client is measured. It does one activity of the client whenever the harness asks,
 * against the server that `GROWTH_SERVER` names. What lives long in an application, such as a transport, an informer or
 * the signal that ends the process, lives long here too.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  itemExponentialFailureRateLimiter,
  fetchTransport,
  fileStore,
  type KubeObject,
  LeaderElection,
  LiveList,
  loadKubeconfig,
  nodeTransport,
  pollTransport,
  RestMapper,
  SharedInformer,
  SharedInformerFactory,
  type Transport,
  watch,
  WorkQueue,
} from '../../src/client/index.js'
import { commands } from './probe.js'

export const SERVER_VARIABLE = 'GROWTH_SERVER'

const server = process.env[SERVER_VARIABLE] ?? ''
const PODS = '/api/v1/pods'
const path = PODS
// Node keeps the timings of 250 requests of `fetch`: here of one, so that they do not look like growth.
performance.setResourceTimingBufferSize(1)
const logger = { debug() {}, info() {}, warn() {}, error() {} }
const folder = mkdtempSync(join(tmpdir(), 'distributary-client-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

const transports: Readonly<Record<string, Transport>> = {
  'node:http': nodeTransport({ server }),
  fetch: fetchTransport({ server }),
  polls: pollTransport(fetchTransport({ server }), { waitSeconds: 1 }),
}
const transport = transports['node:http']!
/** Nothing listens there. */
const nowhere = fetchTransport({ server: 'http://127.0.0.1:1' })
/** As one that a signal of the operating system aborts. */
const wholeLife = new AbortController().signal

/** An informer that everything else of the application uses. */
let shared: SharedInformer | null = null
async function sharedInformer(): Promise<SharedInformer> {
  if (shared === null) {
    shared = new SharedInformer<KubeObject>({ transport, path })
    shared.start()
  }
  await shared.whenSynced()
  return shared
}

/** The first state, and then nothing more of this transport. */
const firstState = async (over: Transport): Promise<void> => {
  const stop = new AbortController()
  for await (const item of watch({ transport: over, path, signal: stop.signal })) {
    if (item.type === 'STATE') stop.abort()
  }
}

/** By name; the argument counts all repetitions. */
export const clientActivities: Readonly<Record<string, (i: number) => Promise<unknown>>> = {
  ...Object.fromEntries(
    Object.entries(transports).map(([name, over]) => [`watches over ${name}`, () => firstState(over)]),
  ),
  async 'informers started and stopped'() {
    const informer = new SharedInformer({ transport, path })
    informer.start()
    await informer.whenSynced(wholeLife)
    await informer.stop()
  },
  async 'informers that never sync'() {
    const informer = new SharedInformer({ transport: nowhere, path, logger })
    informer.start()
    await informer.whenSynced(AbortSignal.timeout(20)).catch(() => {})
    await informer.stop()
  },
  async 'waits for the first state that are aborted'() {
    unsynced ??= new SharedInformer({ transport: nowhere, path, logger })
    const stop = new AbortController()
    const waiting = unsynced.whenSynced(stop.signal).catch(() => {})
    stop.abort()
    await waiting
  },
  async 'handlers added and removed'() {
    const informer = await sharedInformer()
    const registration = informer.addHandler({ added() {}, updated() {}, deleted() {} })
    await registration.synced
    registration.remove()
  },
  async 'handlers that throw'() {
    const informer = new SharedInformer({ transport, path, onHandlerError() {} })
    informer.addHandler({
      added() {
        throw new Error('wrong')
      },
    })
    informer.start()
    await informer.whenSynced()
    await informer.stop()
  },
  async 'events read as an iterator'() {
    const informer = await sharedInformer()
    for await (const event of informer.events({ signal: wholeLife })) {
      void event
      break
    }
  },
  async 'states saved and loaded'() {
    const saved = { store: fileStore(join(folder, 'states')), server, user: 'me' }
    const informer = new SharedInformer({ transport, path, saved })
    informer.start()
    await informer.whenSynced()
    await informer.stop()
  },
  async 'informers of a factory'() {
    const factory = new SharedInformerFactory({ transport })
    factory.informer({ plural: 'pods', version: 'v1' })
    factory.start()
    await factory.whenSynced(wholeLife)
    await factory.stop()
  },
  async 'a page that shows a list'() {
    const list = new LiveList({ transport, path, lingerMs: 5 })
    const leave = list.subscribe(() => {})
    await new Promise((resolve) => setTimeout(resolve, 30))
    leave()
    await list.close()
  },
  async 'readers of one list'(i) {
    live ??= new LiveList({ transport, path, lingerMs: 5 })
    const leave = live.subscribe(() => {})
    live.reader(`p${i}`, 'default')()
    await new Promise((resolve) => setTimeout(resolve, 20))
    leave()
    await new Promise((resolve) => setTimeout(resolve, 20))
  },
  async 'work on distinct keys'(i) {
    queue ??= new WorkQueue({ rateLimiter: itemExponentialFailureRateLimiter() })
    queue.add(`key-${i}`)
    for (const isLast of [false, true]) {
      const key = (await queue.take(wholeLife))!
      if (isLast) queue.forget(key)
      else queue.addRateLimited(key)
      queue.done(key)
    }
  },
  async 'waits for work that are aborted'() {
    idle ??= new WorkQueue()
    const stop = new AbortController()
    const taking = idle.take(stop.signal)
    stop.abort()
    await taking
  },
  async 'elections won and given up'(i) {
    const election = new LeaderElection({
      transport,
      namespace: 'default',
      name: `lease-${i % 3}-${process.pid}`,
      identity: `me-${i}`,
    })
    await election.run(() => {}, { signal: wholeLife })
  },
  async 'leadership of one election after another'() {
    const own = (election ??= new LeaderElection({
      transport,
      namespace: 'default',
      name: `own-${process.pid}`,
      identity: 'me',
    }))
    // A candidate that is running cannot run again.
    campaigns = campaigns.then(() => own.run(() => {}, { signal: wholeLife }))
    await campaigns
  },
  async 'elections that cannot reach the server'(i) {
    const stop = new AbortController()
    const lost = new LeaderElection({ transport: nowhere, namespace: 'default', name: `n${i}`, identity: 'me', logger })
    const running = lost.run(() => {}, { signal: AbortSignal.any([stop.signal]) })
    await new Promise((resolve) => setTimeout(resolve, 5))
    stop.abort()
    await running
  },
  async 'kinds found by discovery'() {
    const mapper = new RestMapper({ transport })
    await mapper.find('pods')
  },
  async 'kubeconfigs loaded, and their transports'(i) {
    const file = join(folder, 'kubeconfig')
    const context = { name: 'c', context: { cluster: 'k', user: 'u' } }
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'c',
      contexts: [context],
      clusters: [{ name: 'k', cluster: { server } }],
      users: [{ name: 'u', user: { token: `t${i}` } }],
    }
    writeFileSync(file, JSON.stringify(config))
    const over = nodeTransport(await loadKubeconfig(file))
    await firstState(over)
    over.close()
  },
}

let unsynced: SharedInformer | null = null
let live: LiveList | null = null
let queue: WorkQueue | null = null
let idle: WorkQueue | null = null
let election: LeaderElection | null = null
let campaigns: Promise<unknown> = Promise.resolve()

commands['once'] = async (argument) => {
  const [, i = '0', name = ''] = /^(\d+) (.*)$/.exec(argument) ?? []
  await clientActivities[name]!(Number(i))
}
// The harness runs it until it ends it.
if (server !== '') setInterval(() => {}, 1_000_000)

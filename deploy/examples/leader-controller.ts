// Gives every pod the label `node-seen` with the node it runs on: it uses an informer, a work queue, and a Lease that lets only one of
// several copies of this program work. `node leader-controller.js [SERVER]`, or with KUBECONFIG.
import { hostname } from 'node:os'
import {
  kubeconfigFiles,
  LeaderElection,
  loadKubeconfig,
  nodeTransport,
  requestJson,
  resourcePath,
  SharedInformerFactory,
  WatchFailure,
  WorkQueue,
} from 'distributary/client'
import type { Pod } from 'kubernetes-types/core/v1.js'

const stop = new AbortController()
process.once('SIGINT', () => stop.abort()).once('SIGTERM', () => stop.abort())

const [server] = process.argv.slice(2)
const transport = nodeTransport(server === undefined ? await loadKubeconfig(kubeconfigFiles()) : { server })
const election = new LeaderElection({
  transport,
  name: 'node-seen',
  namespace: 'default',
  identity: `${hostname()}-${process.pid}`,
})

const outcome = await election.run(work, { signal: stop.signal })
console.log(`ended: ${outcome}`)
transport.close()
process.exitCode = outcome === 'lost' ? 1 : 0 // the supervisor restarts the process, which waits to be elected again

async function work(signal: AbortSignal): Promise<void> {
  const queue = new WorkQueue()
  const factory = new SharedInformerFactory({ transport })
  const pods = factory.informer<Pod>({ plural: 'pods' })
  const add = ({ metadata }: Pod): void => queue.add(`${metadata?.namespace}/${metadata?.name}`)
  pods.addHandler({ added: add, updated: add })
  const running = factory.run(signal)
  try {
    await factory.whenSynced(signal)
    await queue.run((key) => label(pods.store.get(key)), { concurrency: 4, signal, onError: console.error })
  } finally {
    await running
  }
}

async function label(pod: Pod | undefined): Promise<void> {
  const node = pod?.spec?.nodeName
  if (pod?.metadata === undefined || node === undefined || pod.metadata.labels?.['node-seen'] === node) return
  if (!election.isLeader) return // this process was paused, and another one leads now
  const { name = '', namespace = '', resourceVersion } = pod.metadata
  const body = { metadata: { labels: { 'node-seen': node }, resourceVersion } } // the server refuses the write if the object has changed
  try {
    await requestJson(transport, { method: 'PATCH', path: resourcePath({ plural: 'pods', namespace, name }), body })
  } catch (error) {
    // It was deleted or changed in the meantime, which the informer reports. Anything else is retried with back-off.
    if (!(error instanceof WatchFailure && (error.code === 404 || error.code === 409))) throw error
  }
}

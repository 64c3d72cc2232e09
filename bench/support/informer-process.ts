/**
 * Runs one informer in a separate process: it prints `ready`, waits for a line, and prints the costs of its first
 * state. The arguments are the informer, how it lists, and the server. Needs `--expose-gc`.
 */
import { once } from 'node:events'
import { fetchTransport, nodeTransport, SharedInformer, type KubeObject } from '../../src/client/index.js'

const [who = '', way = '', server = ''] = process.argv.slice(2)
const PATH = '/api/v1/pods'

interface Running {
  /** Resolves when the first state is in the store. */
  readonly synced: Promise<void>
  readonly size: () => number
  readonly stop: () => Promise<void>
}

const starters: Readonly<Record<string, () => Promise<() => Running>>> = {
  'distributary-client': async () => () => {
    const transport = way.endsWith('fetch') ? fetchTransport({ server }) : nodeTransport({ server })
    const informer = new SharedInformer<KubeObject>({ transport, path: PATH, watchList: way.startsWith('watch-list') })
    informer.start()
    return { synced: informer.whenSynced(), size: () => informer.store.size, stop: () => informer.stop() }
  },
  'client-node': async () => {
    const k8s = await import('@kubernetes/client-node')
    const config = new k8s.KubeConfig()
    config.loadFromClusterAndUser({ name: 'bench', server, skipTLSVerify: true }, { name: 'bench' })
    const api = config.makeApiClient(k8s.CoreV1Api)
    return () => {
      const informer = k8s.makeInformer(config, PATH, () => api.listPodForAllNamespaces())
      // `start` resolves when the list is in its store and the watch has been requested.
      const synced = informer.start()
      const size = (): number => informer.list().length
      return { synced, size, stop: () => informer.stop() }
    }
  },
}

function heldBytes(): number {
  for (let i = 0; i < 3; i++) globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const starter = await starters[who]!()
process.stdout.write('ready\n')
await once(process.stdin, 'data')
const before = heldBytes()
const cpuBefore = process.cpuUsage()
const startedAt = performance.now()
const running = starter()
await running.synced
const syncMs = performance.now() - startedAt
const cpu = process.cpuUsage(cpuBefore)
// Garbage that has not been collected yet is not held.
await new Promise((resolve) => setTimeout(resolve, 500))
const cpuMs = (cpu.user + cpu.system) / 1_000
const figures = {
  objects: running.size(),
  syncMs,
  cpuMs,
  peakResidentBytes: process.resourceUsage().maxRSS * 1024,
  heldBytes: heldBytes() - before,
}
process.stdout.write(`${JSON.stringify(figures)}\n`)
await running.stop()
process.exit(0)

// Keeps a file for each node with the pods on it: `node controller.js SERVER FOLDER`. Run it as often as you like:
// it brings the files up to date, whatever happened while it was not running.
import { writeFile } from 'node:fs/promises'
import { nodeTransport, SharedInformer, WorkQueue } from 'distributary/client'

const [server = 'http://127.0.0.1:8001', folder = '.'] = process.argv.slice(2)
const stop = new AbortController()
process.once('SIGINT', () => stop.abort()).once('SIGTERM', () => stop.abort())

const nodeOf = (pod) => pod.spec?.nodeName ?? 'unscheduled'
const queue = new WorkQueue()
const informer = new SharedInformer({
  transport: nodeTransport({ server }),
  path: '/api/v1/pods',
  indexes: { node: (pod) => [nodeOf(pod)] },
  transform: ({ metadata, spec }) => ({ metadata, spec: { nodeName: spec?.nodeName } }), // keep only these fields
})
informer.addHandler({
  added: (pod) => queue.add(nodeOf(pod)),
  updated: (pod, before) => [pod, before].forEach((one) => queue.add(nodeOf(one))),
  deleted: (pod) => queue.add(nodeOf(pod)),
})
const running = informer.run(stop.signal)
await informer.whenSynced(stop.signal) // before that, a file would be too short
await queue.run(
  async (node) => {
    const names = informer.store.byIndex('node', node).map(({ metadata }) => `${metadata.namespace}/${metadata.name}\n`)
    await writeFile(`${folder}/${node}.txt`, names.sort().join('')) // failures are retried with back-off
  },
  { concurrency: 4, signal: stop.signal },
)
await running

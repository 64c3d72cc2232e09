/**
 * Question: how much time and memory does a client need for a copy of 100,000 objects? Our informer and the one of
 * `@kubernetes/client-node` run against one of our servers, each in its own process on the load generator's core. It
 * measures the time until the first state is in the store, the CPU time, and the memory after a garbage collection,
 * minus the process's memory before.
 *
 * The raw size is the size of the objects as JSON. Everything above it is the cost of the informer.
 */
import { fileURLToPath } from 'node:url'
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { pods } from './support/objects.js'
import { sleep, start } from './support/processes.js'
import { withScene } from './support/scene.js'

/** By default, our informer uses WatchList, or reads pages from an older server. */
const CLIENTS = ['client-node/list', 'distributary-client/watch-list', 'distributary-client/list'] as const

const program = fileURLToPath(new URL('support/informer-process.js', import.meta.url))

export interface InformerFigures {
  readonly objects: number
  readonly syncMs: number
  /** User and system time of the process until then. */
  readonly cpuMs: number
  readonly peakResidentBytes: number
  /** Memory on and off the heap after a garbage collection, minus the memory before the informer started. */
  readonly heldBytes: number
}

export const informer: Question = async (choice) => {
  const { subjects } = choice
  const clients =
    subjects.length === 0 ? CLIENTS : CLIENTS.filter((one) => subjects.some((name) => one.startsWith(name)))
  // The choice of server does not affect the ratio. The objects have the bench's usual size.
  const [target] = targets({ ...choice, subjects: [] }, ['distributary/http1'])
  if (target === undefined) return
  const objects = { count: choice.watchers[0] ?? (choice.quick ? 2_000 : 100_000), nodes: 100, bytes: 1024 }
  const row = { question: 'informer', subject: 'all', wire: target.wire }
  await attempt(choice, row, () => measureAll(choice, target, objects, clients))
}

async function measureAll(
  choice: Choice,
  target: Target,
  objects: { readonly count: number; readonly nodes: number; readonly bytes: number },
  clients: readonly string[],
): Promise<void> {
  // The clients' informers follow pods.
  await withScene({ ...choice, ...target, resource: pods, watchers: 0, objects }, async ({ subject }) => {
    const { port, path } = subject.watch({})
    const url = `http://127.0.0.1:${port}`
    const list = await (await fetch(`${url}${path.replace(/\?.*$/, '')}?limit=100`)).text()
    const rawBytes = list.length / 100
    // This request makes the server create its first list, so that no client is charged for it.
    await (await fetch(`${url}${path.replace(/\?.*$/, '')}?resourceVersion=0`)).arrayBuffer()
    for (const client of clients) {
      const [name = '', way = ''] = client.split('/')
      await attempt(choice, { question: 'informer', subject: name, wire: way }, async () => {
        const child = start(client, 'load', [process.execPath, '--expose-gc', program, name, way, url])
        try {
          await child.line((text) => (text === 'ready' ? true : undefined), 30_000)
          await sleep(choice.quick ? 100 : 1_000)
          child.send('go')
          const parse = (text: string): InformerFigures | undefined =>
            text.startsWith('{') ? (JSON.parse(text) as InformerFigures) : undefined
          const figures = await child.line(parse, 300_000)
          if (figures.objects !== objects.count) throw new Error(`${figures.objects} of ${objects.count} objects`)
          const heldBytes = figures.heldBytes / objects.count
          choice.recorder.row({
            question: 'informer',
            subject: name,
            wire: way,
            resource: pods.name,
            objects: objects.count,
            rawBytesPerObject: rawBytes,
            syncMs: figures.syncMs,
            cpuMs: figures.cpuMs,
            heldBytesPerObject: heldBytes,
            aboveRawBytesPerObject: heldBytes - rawBytes,
            peakResidentMb: figures.peakResidentBytes / 2 ** 20,
          })
        } finally {
          await child.end()
        }
      })
    }
  })
}

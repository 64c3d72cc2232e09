/**
 * Question: what does a list of 200,000 objects cost at its source, as one stream and in pages? The stream requires
 * etcd 3.7 or newer, and therefore `--peers reference`. The bench measures the time, and the CPU time and peak memory
 * of etcd and of the reading process. The two ways alternate on one etcd.
 */
import { fileURLToPath } from 'node:url'
import { etcdSubject } from './subjects/etcd.js'
import { attempt, type Choice, type Question } from './support/choice.js'
import { resetPeak, sleep, start, usage } from './support/processes.js'
import { withScene } from './support/scene.js'

const program = fileURLToPath(new URL('support/source-list-process.js', import.meta.url))
const WAYS = ['pages', 'stream'] as const
const OBJECT_BYTES = 1_024
const ROUNDS = 3
/** In this time, etcd collects the garbage of the previous list. */
const SETTLE_MS = 5_000

export interface SourceListFigures {
  readonly keys: number
  readonly requests: Readonly<Record<string, number>>
  readonly listedMs: number
  readonly cpuSeconds: number
  readonly peakResidentBytes: number
}

export const sourceList: Question = async (choice) => {
  await attempt(choice, { question: 'source-list', subject: 'etcd', wire: 'grpc' }, () => measureAll(choice))
}

async function measureAll(choice: Choice): Promise<void> {
  const objects = { count: choice.quick ? 20_000 : 200_000, nodes: 100, bytes: OBJECT_BYTES }
  const options = { ...choice, kind: etcdSubject, wire: 'grpc', watchers: 0, objects }
  await withScene(options, async ({ etcd }) => {
    const { port, child } = etcd!
    for (let round = 0; round < ROUNDS; round++) {
      for (const way of WAYS) {
        await sleep(choice.quick ? 500 : SETTLE_MS)
        resetPeak(child.pid)
        const before = usage(child.pid)
        const prefix = choice.resource.prefix
        const reader = start(way, 'load', [process.execPath, program, way, prefix, `http://127.0.0.1:${port}`])
        const figures = await reader.line(
          (text) => (text.startsWith('{') ? (JSON.parse(text) as SourceListFigures) : undefined),
          120_000,
        )
        const after = usage(child.pid)
        await reader.end()
        if (figures.keys !== objects.count) throw new Error(`${figures.keys} of ${objects.count} objects listed`)
        if ((way === 'stream') !== 'range-stream' in figures.requests) throw new Error('this etcd has no streams')
        choice.recorder.row({
          question: 'source-list',
          subject: way,
          wire: 'grpc',
          objects: objects.count,
          objectBytes: OBJECT_BYTES,
          round,
          listedMs: figures.listedMs,
          readerCpuSeconds: figures.cpuSeconds,
          readerPeakMb: figures.peakResidentBytes / 2 ** 20,
          etcdCpuSeconds: after.cpuSeconds - before.cpuSeconds,
          etcdResidentMb: before.residentBytes / 2 ** 20,
          etcdPeakMb: after.peakResidentBytes / 2 ** 20,
        })
      }
    }
  })
}

/**
 * Question: what does an object cost that no client watches? It measures the time until a server with 200,000 objects
 * of 1 KiB is ready, and the memory per object. The memory is the difference between the resident memory of two
 * servers, so that the program itself does not count.
 *
 * The same is measured for values of a declared prefix, with and without etcd's own API, for which each value is kept a
 * second time as etcd has it: the subjects `values` and `values-etcd-api`.
 */
import { values } from './etcd-api.js'
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { sleep, usage } from './support/processes.js'
import { withScene } from './support/scene.js'

const OBJECT_BYTES = 1_024
const FEW = 1_000
const MANY = 200_000
/** After this time, a garbage collection after the start has settled the heap. */
const SETTLE_MS = 10_000

const VALUES = `--resource=${values.name}=${values.prefix}`
/** The flags of the subjects that hold values of a declared prefix. */
const OF_VALUES: Readonly<Record<string, readonly string[]>> = {
  values: [VALUES],
  'values-etcd-api': [VALUES, `--etcd-api=${values.name}`],
}

export const objects: Question = async (choice) => {
  const isAll = choice.subjects.length === 0
  const subjects = choice.subjects.filter((name) => OF_VALUES[name] === undefined)
  if (isAll || subjects.length > 0) {
    for (const target of targets({ ...choice, subjects }, ['distributary/http1', 'apiserver/http1-tls'])) {
      await attempt(choice, { question: 'objects', subject: target.kind.name, wire: target.wire }, () =>
        both(choice, target, target.kind.name),
      )
    }
  }
  for (const [subject, flags] of Object.entries(OF_VALUES)) {
    if (!isAll && !choice.subjects.includes(subject)) continue
    const serverFlags = [...flags, ...choice.serverFlags]
    const [target] = targets({ ...choice, subjects: [] }, ['distributary/http1'])
    await attempt(choice, { question: 'objects', subject, wire: target!.wire }, () =>
      both({ ...choice, serverFlags, resource: values }, target!, subject),
    )
  }
}

interface Started {
  readonly startedMs: number
  readonly cpuSeconds: number
  readonly residentBytes: number
}

async function both(choice: Choice, target: Target, subject: string): Promise<void> {
  const count = choice.quick ? MANY / 10 : MANY
  const few = await started(choice, target, FEW)
  const many = await started(choice, target, count)
  choice.recorder.row({
    question: 'objects',
    subject,
    wire: target.wire,
    objects: count,
    objectBytes: OBJECT_BYTES,
    startedMs: many.startedMs,
    startCpuSeconds: many.cpuSeconds,
    bytesPerObject: (many.residentBytes - few.residentBytes) / (count - FEW),
    residentMb: many.residentBytes / 2 ** 20,
    startedMsWithFew: few.startedMs,
    startCpuSecondsWithFew: few.cpuSeconds,
  })
}

async function started(choice: Choice, target: Target, count: number): Promise<Started> {
  const objects = { count, nodes: 100, bytes: OBJECT_BYTES }
  return await withScene({ ...choice, ...target, watchers: 0, objects }, async ({ subject, startedMs }) => {
    const { cpuSeconds } = usage(subject.pid)
    await sleep(choice.quick ? 1_000 : SETTLE_MS)
    return { startedMs, cpuSeconds, residentBytes: usage(subject.pid).residentBytes }
  })
}

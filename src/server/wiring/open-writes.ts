/** Opens the writes of one process, with the threads for larger writes. */
import { ThreadPool } from '../../support/thread-pool.js'
import { OffLoopWriter } from '../../kubernetes/writes/off-loop-writer.js'
import type { ServerDeps } from './server-deps.js'
import { memoryTargetOf } from './memory-target.js'
import type { Limits } from './open-limits.js'
import { type ResourceStage } from './open-resources.js'
import { MAX_VALUE_BYTES, MAX_WRITE_HEAP_MB, MIN_WRITE_HEAP_MB, WRITE_CPU_MS } from '../limits/fixed-limits.js'

/** The share of the memory target for the heap of one thread. */
const HEAP_SHARE = 1 / 4

/** Returns megabytes. */
function heapUnder(targetBytes: number | null): number {
  const share = targetBytes === null ? MAX_WRITE_HEAP_MB : Math.floor((targetBytes / 2 ** 20) * HEAP_SHARE)
  return Math.min(MAX_WRITE_HEAP_MB, Math.max(MIN_WRITE_HEAP_MB, share))
}

export function openWrites(
  { config, live, clock, random, metrics, logger, closing }: ServerDeps,
  { registry, views, schema, upstream }: ResourceStage,
  limits: Limits,
): OffLoopWriter {
  const heapMegabytes = (): number => heapUnder(memoryTargetOf(live.current))
  const threads = new ThreadPool({
    program: new URL('../../kubernetes/writes/writer-thread.js', import.meta.url),
    deadlineMs: WRITE_CPU_MS,
    get maxHeapMegabytes() {
      return heapMegabytes()
    },
    clock,
    onReplaced: (reason) => {
      metrics.process.writeThreadReplaced(reason)
      logger.warn({ reason }, 'a write exceeded the limits of its thread; replacing the thread')
    },
  })
  closing.add(() => threads.close())
  return new OffLoopWriter({
    threads,
    semaphore: limits.writeThreads,
    deadlineMs: WRITE_CPU_MS,
    admit: (bytes) => limits.memory.admit(Math.min(bytes, heapMegabytes() * 2 ** 20)),
    onJob: (seconds) => metrics.process.writeJob(seconds),
    upstream,
    clock,
    random,
    jsonOf: (served, object) => views.json(served, object),
    maxValueBytes: MAX_VALUE_BYTES,
    schema,
    etcdPrefix: config.etcdPrefix,
    find: (group, version, plural) => registry.find(group, version, plural),
    resources: () => registry.list(),
    isAnyFieldSelectable: config.selectAnyField,
    onUnusable: (problem) => logger.warn({ problem }, 'a pattern in the schema of a custom resource cannot be checked'),
  })
}

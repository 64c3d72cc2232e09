/** Opens the writes of one process, with the threads for larger writes. */
import { ThreadPool } from '../../support/thread-pool.js'
import { OffLoopWriter } from '../../kubernetes/writes/off-loop-writer.js'
import type { Basis } from './basis.js'
import type { Limits } from './open-limits.js'
import { MAX_VALUE_BYTES, type ResourceStage } from './open-resources.js'

/** How long a write may compute in its thread. The largest intended writes take a second or two. */
const DEADLINE_MS = 10_000
/** The heap of a thread. A body of 3 MB takes a third of it, including the copies of the body. */
const MAX_HEAP_MEGABYTES = 256

export function openWrites(
  { config, clock, random, metrics, logger, closing }: Basis,
  { registry, views, schema, upstream }: ResourceStage,
  limits: Limits,
): OffLoopWriter {
  const threads = new ThreadPool({
    program: new URL('../../kubernetes/writes/writer-thread.js', import.meta.url),
    deadlineMs: DEADLINE_MS,
    maxHeapMegabytes: MAX_HEAP_MEGABYTES,
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
    deadlineMs: DEADLINE_MS,
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

/** Opens the threads that read large definitions and build OpenAPI documents. */
import { DocumentThreads } from '../served/document-threads.js'
import { ThreadPool } from '../../support/thread-pool.js'
import type { Basis } from './basis.js'

/** The documents of a thousand large definitions take some seconds. */
const DEADLINE_MS = 60_000
const MAX_HEAP_MEGABYTES = 1_024

export function openDocuments({ config, clock, logger, closing }: Basis): DocumentThreads {
  const threads = new ThreadPool({
    program: new URL('../served/document-thread.js', import.meta.url),
    deadlineMs: DEADLINE_MS,
    maxHeapMegabytes: MAX_HEAP_MEGABYTES,
    clock,
    onReplaced: (reason) =>
      logger.warn(
        { reason },
        'the thread that builds an OpenAPI document or reads a definition was replaced before it finished',
      ),
  })
  const { etcdPrefix, enableWrites: writable } = config
  closing.add(() => threads.close())
  return new DocumentThreads({ threads, etcdPrefix, writable })
}

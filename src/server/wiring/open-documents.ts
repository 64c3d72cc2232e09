/** Opens the threads that read large definitions and build OpenAPI documents. */
import { DocumentThreads } from '../served/document-threads.js'
import { ThreadPool } from '../../support/thread-pool.js'
import type { ServerDeps } from './server-deps.js'
import { DOCUMENT_CPU_MS, DOCUMENT_HEAP_MB } from '../limits/fixed-limits.js'

export function openDocuments({ config, clock, logger, closing }: ServerDeps): DocumentThreads {
  const threads = new ThreadPool({
    program: new URL('../served/document-thread.js', import.meta.url),
    deadlineMs: DOCUMENT_CPU_MS,
    maxHeapMegabytes: DOCUMENT_HEAP_MB,
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

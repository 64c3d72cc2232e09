/**
 * Waits for the last events of a resource whose definition has been deleted. The API server deletes the objects before
 * the definition, but objects and definitions arrive on different watches. Without the wait, watches might end before
 * they have reported all deletions, and could not be resumed afterwards.
 */
import type { WatchCache } from '../../engine/cache/watch-cache.js'
import type { Revision } from '../../engine/model/revision.js'

/**
 * @param revision a revision at which the definition had been deleted.
 * @returns undefined if there is nothing to wait for. Resolves when each cache is empty or has reached the revision, or
 * after the time that any read waits for a revision. If etcd's progress notifications cannot be trusted and objects
 * outlive their definition, only the time limit ends the wait.
 */
export function whenEmptied(caches: Iterable<WatchCache>, revision: Revision): Promise<unknown> | undefined {
  const waiting = [...caches].filter(
    (cache) => cache.contents.size > 0 && cache.revision < revision && cache.readiness.kind === 'ready',
  )
  return waiting.length === 0 ? undefined : Promise.all(waiting.map((cache) => emptied(cache, revision)))
}

async function emptied(cache: WatchCache, revision: Revision): Promise<void> {
  let stop = (): void => {}
  const isEmpty = new Promise<void>((resolve) => {
    const look = (): void => {
      if (cache.contents.size === 0) resolve()
    }
    stop = cache.listen({ onBatch: look, onReset: look })
  })
  await Promise.race([isEmpty, cache.reads.waitUntil(revision).catch(() => {})])
  stop()
}

/**
 * Watches from a revision that the cache has not reached, or before it has its first state. As in etcd, such a watch
 * waits, however long, even if etcd itself has not reached the revision. If the source refuses the cache, or it is no
 * longer served, the watch is opened, and thereby ended.
 */
import type { WatchCache } from '../../engine/cache/watch-cache.js'

interface Held {
  readonly afterRevision: number
  readonly open: () => void
}

interface OfCache {
  readonly held: Set<Held>
  readonly stopListening: () => void
  /** Nothing needs to be looked at before the cache reaches this. */
  lowest: number
}

export class HeldWatches {
  readonly #caches = new Map<WatchCache, OfCache>()

  /**
   * Calls `open` once the cache is ready and has everything up to `afterRevision`, or nothing more will arrive; never
   * from within this call.
   * @returns a function that gives up.
   */
  hold(cache: WatchCache, afterRevision: number, open: () => void): () => void {
    const of = this.#caches.get(cache) ?? this.#listen(cache)
    const one: Held = { afterRevision, open }
    of.held.add(one)
    of.lowest = Math.min(of.lowest, afterRevision)
    return () => {
      of.held.delete(one)
      this.#tidy(cache, of)
    }
  }

  #listen(cache: WatchCache): OfCache {
    const check = (): void => this.#check(cache)
    const openAll = (): void => this.#open(cache, of, [...of.held])
    const stopListening = cache.listen({
      onBatch: () => {},
      onAdvance: check,
      onReset: () => {},
      onReady: check,
      onRefused: openAll,
      onRetired: openAll,
    })
    const of: OfCache = { held: new Set(), stopListening, lowest: Infinity }
    this.#caches.set(cache, of)
    return of
  }

  #check(cache: WatchCache): void {
    const of = this.#caches.get(cache)
    if (of === undefined || cache.revision < of.lowest || cache.readiness.kind !== 'ready') return
    of.lowest = Infinity
    const due: Held[] = []
    for (const one of of.held) {
      if (one.afterRevision <= cache.revision) due.push(one)
      else of.lowest = Math.min(of.lowest, one.afterRevision)
    }
    this.#open(cache, of, due)
  }

  #open(cache: WatchCache, of: OfCache, due: readonly Held[]): void {
    for (const one of due) of.held.delete(one)
    this.#tidy(cache, of)
    for (const one of due) one.open()
  }

  #tidy(cache: WatchCache, of: OfCache): void {
    if (of.held.size > 0) return
    of.stopListening()
    this.#caches.delete(cache)
  }
}

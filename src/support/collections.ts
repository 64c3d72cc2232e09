/** Counts full garbage collections, because resident memory shows only after one what was released. */
import { type PerformanceEntry, PerformanceObserver, constants } from 'node:perf_hooks'

/** Node's entries say which kind of collection it was, but its types do not declare that. */
type CollectionEntry = PerformanceEntry & { readonly detail?: { readonly kind?: number } }

export interface Collections {
  /** The number of collections since counting began. */
  readonly count: number
  stop(): void
}

export function countCollections(): Collections {
  let count = 0
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as readonly CollectionEntry[]) {
      if (entry.detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR) count++
    }
  })
  observer.observe({ entryTypes: ['gc'] })
  return {
    get count() {
      return count
    },
    stop: () => observer.disconnect(),
  }
}

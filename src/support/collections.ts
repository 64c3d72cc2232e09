/** How often the garbage collector has gone through the whole heap: only then does resident memory show what was let go. */
import { type PerformanceEntry, PerformanceObserver, constants } from 'node:perf_hooks'

/** Node's entries say which kind of collection it was; its types do not. */
type CollectionEntry = PerformanceEntry & { readonly detail?: { readonly kind?: number } }

export interface Collections {
  /** Since the counting began. */
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

/** Whether a replica whose sources are away is still fit to serve: `--max-staleness`. */
import type { ResourcePipeline } from '../pipeline/resource-pipeline.js'

/** What to say of the stalest source when it is over the limit, null when none is. */
export function staleness(sources: Iterable<Pick<ResourcePipeline, 'cache'>>, limitMs: number): string | null {
  let worst: ResourcePipeline['cache'] | null = null
  for (const { cache } of sources) if (worst === null || cache.stalenessMs > worst.stalenessMs) worst = cache
  if (worst === null || worst.stalenessMs <= limitMs) return null
  const seconds = Math.round(worst.stalenessMs / 1_000)
  return `${worst.name} was last confirmed ${seconds} s ago: ${worst.disconnectedReason ?? 'the source is away'}`
}

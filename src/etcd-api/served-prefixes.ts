/** The declared prefixes that are served in etcd's own protocol (`--etcd-api`). */
import type { LiveResource } from '../engine/pipeline/live-resource.js'
import type { Served } from '../engine/model/served.js'
import { isWithin, type KeyRange } from './key-range.js'

export type ServedPrefix = LiveResource<Served>

export class ServedPrefixes {
  /** @param list the prefixes that are cached now. No two of them overlap. */
  constructor(readonly list: () => Iterable<ServedPrefix>) {}

  /** Returns the prefix that has all keys of the range; null if there is none. */
  covering(range: KeyRange): ServedPrefix | null {
    for (const prefix of this.list()) if (isWithin(range, prefix.served.resource.etcdPrefix)) return prefix
    return null
  }

  /** Returns the prefix that has all keys of all ranges; null if there is none. */
  coveringAll(ranges: readonly KeyRange[]): ServedPrefix | null {
    const [first, ...others] = new Set(ranges.map((range) => this.covering(range)))
    return others.length === 0 ? (first ?? null) : null
  }
}

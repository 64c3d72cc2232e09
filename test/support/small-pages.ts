/** An upstream that is listed in small pages, so that a few keys make several. */
import { FIRST_KEYS } from '../../src/engine/feed/shared-lists.js'
import type { ReadOptions, UpstreamReader } from '../../src/engine/upstream/upstream.js'

/** The limits with which a whole prefix is listed; other reads have smaller ones. */
const LIST_LIMITS: readonly unknown[] = [FIRST_KEYS, 10_000]

export function smallPages<U extends UpstreamReader>(upstream: U, pageKeys: number): U {
  return new Proxy(upstream, {
    get(target, name) {
      if (name === 'read') {
        return (options: ReadOptions) => {
          const { limit = pageKeys } = options
          return target.read(LIST_LIMITS.includes(limit) ? { ...options, limit: Math.min(limit, pageKeys) } : options)
        }
      }
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? (member as () => unknown).bind(target) : member
    },
  })
}

/** An upstream that is listed in small pages, so that a few keys make several. */
import type { ReadOptions, UpstreamReader } from '../../src/engine/upstream/upstream.js'

/** The limit with which a whole prefix is listed; reads of a few keys have smaller ones. */
const LIST_LIMIT = 10_000

export function smallPages<U extends UpstreamReader>(upstream: U, pageKeys: number): U {
  return new Proxy(upstream, {
    get(target, name) {
      if (name === 'read') {
        return (options: ReadOptions) =>
          target.read(options.limit === LIST_LIMIT ? { ...options, limit: pageKeys } : options)
      }
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? (member as () => unknown).bind(target) : member
    },
  })
}

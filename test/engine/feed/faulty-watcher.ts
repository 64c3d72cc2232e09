/** An upstream whose watches misbehave as etcd's have done: events may be repeated, or arrive out of order. */
import type { Batch } from '../../../src/engine/model/event.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import type {
  Upstream,
  UpstreamWatch,
  WatchEnd,
  WatchHandlers,
  UpstreamWatchOptions,
} from '../../../src/engine/upstream/upstream.js'

export interface WatchTap {
  /** Returns the batches to pass on instead of the real ones; may call `say` for events that never happened. */
  readonly batches?: (batches: readonly Batch[], say: WatchHandlers) => void
  readonly progress?: (revision: Revision, say: WatchHandlers) => void
  readonly end?: (end: WatchEnd, say: WatchHandlers) => void
}

export function faulty<U extends Upstream>(upstream: U, tap: WatchTap): U {
  const watch = (options: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch => {
    let isOpen = true
    const say: WatchHandlers = {
      onOpen: () => isOpen && handlers.onOpen(),
      onBatches: (batches) => isOpen && handlers.onBatches(batches),
      onProgress: (revision) => isOpen && handlers.onProgress(revision),
      onEnd: (end) => {
        if (isOpen) handlers.onEnd(end)
        isOpen = false
      },
    }
    const inner = upstream.watch(options, {
      ...say,
      onBatches: (batches) => (tap.batches ?? ((all) => say.onBatches(all)))(batches, say),
      onProgress: (revision) => (tap.progress ?? ((at) => say.onProgress(at)))(revision, say),
      onEnd: (end) => (tap.end ?? ((why) => say.onEnd(why)))(end, say),
    })
    return {
      requestProgress: () => inner.requestProgress(),
      close: () => {
        isOpen = false
        inner.close()
      },
    }
  }
  // The upstream's methods access private fields, so they keep their own `this`.
  return new Proxy(upstream, {
    get(target, name) {
      if (name === 'watch') return watch
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

/** A connection that carries only the confirmation of a watch until it is released. */
export function slowWay(): WatchTap & { letGo(): void } {
  let isHeld = true
  const held: (() => void)[] = []
  const carry = (what: () => void): void => void (isHeld ? held.push(what) : what())
  return {
    batches: (batches, say) => carry(() => say.onBatches(batches)),
    progress: (revision, say) => carry(() => say.onProgress(revision)),
    letGo: () => {
      isHeld = false
      for (const what of held.splice(0)) what()
    },
  }
}

/**
 * A watch as an async iterator, for callers that need events and keep no copy. It reconnects, resumes and relists like
 * a reflector, and the server is read at the consumer's pace.
 */
import type { DecodedEvent, ObjectCodec } from './reflector/object-codec.js'
import { Reflector, type ReflectorOptions } from './reflector/reflector.js'
import { type KubeObject, type ObjectLike, treeCodec } from './reflector/tree-codec.js'

/** What `watch` yields: whole states, the changes after them, and bookmarks. */
export type WatchItem<T> =
  /** A complete state. It comes at the start, and again when the server cannot tell what has changed. */
  | { readonly type: 'STATE'; readonly items: readonly T[]; readonly resourceVersion: string }
  | Exclude<DecodedEvent<T>, { type: 'ERROR' }>

/** The options of `watchDecoded`. */
export interface DecodedWatchOptions<T> extends Omit<ReflectorOptions<T>, 'store'> {
  readonly signal?: AbortSignal
}

/** The options of `watch`. */
export type WatchOptions<T extends ObjectLike = KubeObject> = Omit<DecodedWatchOptions<T>, 'codec'>

/** While this many events are waiting, nothing more is read from the server. */
const MAX_WAITING = 256

/** Watches a resource. The iterator ends only when the signal aborts; `onStatus` reports failures. */
export function watch<T extends ObjectLike = KubeObject>(
  options: WatchOptions<T>,
): AsyncGenerator<WatchItem<T>, void, undefined> {
  return watchDecoded<T>({ ...options, codec: treeCodec<T>() })
}

/**
 * Like `watch`, for objects that are not trees: raw bytes, rows of a table.
 * @param options.codec must not be used by any other watch.
 */
export async function* watchDecoded<T>(
  options: DecodedWatchOptions<T> & { readonly codec: ObjectCodec<T> },
): AsyncGenerator<WatchItem<T>, void, undefined> {
  const { signal } = options
  if (signal?.aborted) return
  let waiting: WatchItem<T>[] = []
  let wake: (() => void) | null = null
  let drained: (() => void) | null = null
  const push = (item: WatchItem<T>): void => {
    waiting.push(item)
    wake?.()
  }
  const reflector = new Reflector<T>({
    ...options,
    store: {
      replace: (items, resourceVersion) => push({ type: 'STATE', items, resourceVersion }),
      change: push,
      bookmark: (resourceVersion) => push({ type: 'BOOKMARK', resourceVersion, endsInitialEvents: false }),
      settled: () =>
        waiting.length < MAX_WAITING
          ? undefined
          : new Promise<void>((resolve) => {
              drained = resolve
            }),
    },
  })
  const release = (): void => {
    drained?.()
    drained = null
  }
  const onAbort = (): void => wake?.()
  signal?.addEventListener('abort', onAbort, { once: true })
  reflector.start()
  try {
    for (;;) {
      if (signal?.aborted) return
      if (waiting.length === 0) {
        release()
        await new Promise<void>((resolve) => {
          wake = resolve
        })
        wake = null
        continue
      }
      const items = waiting
      waiting = []
      for (const item of items) {
        if (signal?.aborted) return
        yield item
      }
    }
  } finally {
    signal?.removeEventListener('abort', onAbort)
    release()
    await reflector.stop()
  }
}

/**
 * A feed whose values are decrypted on their way into the cache (`value-transform.ts`). Its source, in this process or
 * another, delivers the values as stored.
 *
 * A decryption key may have to be fetched first, which may take a few seconds. Meanwhile, everything that the feed
 * delivers waits in order.
 */
import type { CheckedCache } from '../model/checked-cache.js'
import type { FeedSink } from '../model/feed-sink.js'
import type { FreshnessSource, StateAtRevision } from '../model/freshness-source.js'
import type { KeyValue } from '../model/event.js'
import { openAll, openBatches, type ValueTransform } from '../model/value-transform.js'
import type { Clock } from '../../support/clock.js'
import { InOrder } from '../upstream/in-order.js'
import { turns } from '../../support/turns.js'
import type { FeedRequest, OpenFeed, ResourceFeed } from './resource-feed.js'
import { getOrMake } from '../../support/memo.js'

export interface OpenedFeedOptions {
  readonly transform: ValueTransform
  readonly clock: Clock
  /**
   * Called when undecryptable values have entered the cache, because their key may have become available after the
   * attempt to decrypt them.
   */
  readonly onSealed: () => void
}

export function openedFeed(openFeed: OpenFeed, request: FeedRequest, options: OpenedFeedOptions): ResourceFeed {
  const { transform } = options
  const { checked } = request
  const steps = new InOrder()
  const feed = openFeed({
    ...request,
    sink: openedSink(request.sink, steps, options),
    ...(checked === undefined ? {} : { checked: openedCheck(checked, transform) }),
  })
  const check = feed.checkConsistency?.bind(feed)
  return {
    freshness: openedFreshness(() => feed.freshness, transform),
    get status() {
      return feed.status
    },
    start: () => feed.start(),
    stop: async () => {
      steps.stop()
      await feed.stop()
    },
    ...(check === undefined ? {} : { checkConsistency: check }),
  }
}

function openedSink(sink: FeedSink, steps: InOrder, { transform, clock, onSealed }: OpenedFeedOptions): FeedSink {
  const pass = <T>(opened: T | Promise<T>, take: (value: T) => void): void | Promise<void> => {
    if (!(opened instanceof Promise)) return take(opened)
    return opened.then((value) => {
      if (!steps.isStopped) take(value)
    })
  }
  return {
    get isAwaited() {
      return sink.isAwaited === true
    },
    replace(revision, reason) {
      let replacement: ReturnType<FeedSink['replace']> | null = null
      let hasSealed = false
      steps.do(() => void (replacement = sink.replace(revision, reason)))
      return {
        add: (keyValues) =>
          steps.do(() =>
            pass(openAll(transform, keyValues), (opened) => {
              hasSealed ||= opened.some(isSealed)
              replacement?.add(opened)
            }),
          ),
        commit: () =>
          steps.do(() => {
            replacement?.commit()
            if (hasSealed) onSealed()
          }),
        abort: () => steps.do(() => replacement?.abort()),
      }
    },
    apply: (batches) =>
      steps.do(() =>
        pass(openBatches(transform, batches), (opened) => {
          sink.apply(opened)
          const puts = opened.flatMap(({ events }) => events).filter((event) => event.type === 'put')
          if (puts.some(({ keyValue }) => isSealed(keyValue))) onSealed()
        }),
      ),
    progress: (revision) => steps.do(() => sink.progress(revision)),
    synced: () => steps.do(() => sink.synced()),
    disconnected: (reason) => steps.do(() => sink.disconnected(reason)),
    refused: (reason, isLasting) => steps.do(() => sink.refused(reason, isLasting)),
    confirmed: (ageMs, validMs) => {
      const atMs = clock.monotonic()
      steps.do(() => sink.confirmed?.(ageMs + clock.monotonic() - atMs, validMs))
    },
  }
}

function isSealed({ sealed }: KeyValue): boolean {
  return sealed !== undefined
}

function openedCheck(checked: CheckedCache, transform: ValueTransform): CheckedCache {
  return {
    get revision() {
      return checked.revision
    },
    stateAt: (revision) => checked.stateAt(revision),
    comparable: async (keyValue) => {
      const opened = await transform.open(keyValue)
      return checked.comparable === undefined ? opened.value : await checked.comparable(opened)
    },
  }
}

function openedFreshness(source: () => FreshnessSource, transform: ValueTransform): FreshnessSource {
  /** Concurrent reads of the source get the same state object, so they also share its decrypted copy. */
  const states = new WeakMap<StateAtRevision, Promise<StateAtRevision>>()
  const open = async ({ revision, keyValues }: StateAtRevision): Promise<StateAtRevision> => {
    const opened: KeyValue[] = []
    for (const keyValue of keyValues) {
      if (turns.isOver) await turns.take()
      const value = transform.open(keyValue)
      opened.push(value instanceof Promise ? await value : value)
    }
    return { revision, keyValues: opened }
  }
  return {
    get trustsProgress() {
      return source().trustsProgress
    },
    currentRevision: (signal) => source().currentRevision(signal),
    requestProgress: () => source().requestProgress(),
    get summariseKeys() {
      return source().summariseKeys
    },
    readState: async (revision, signal) => {
      return await getOrMake(states, await source().readState(revision, signal), open)
    },
    readKey: async (key, signal) => {
      const keyValue = await source().readKey(key, signal)
      return keyValue === null ? null : await transform.open(keyValue)
    },
  }
}

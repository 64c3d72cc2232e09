/** A feed over an embedded upstream (or any other), with a recording sink and a clock controlled by the test. */
import type { Test } from 'tap'
import { Feed } from '../../../src/engine/feed/feed.js'
import type { FeedOptions } from '../../../src/engine/feed/feed-options.js'
import type { FeedMetrics } from '../../../src/engine/model/stage-metrics.js'
import type { Batch, Key } from '../../../src/engine/model/event.js'
import { SharedLists } from '../../../src/engine/feed/shared-lists.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { createEmbeddedUpstream, type EmbeddedUpstreamOptions } from '../../support/faulty-store.js'
import type { WriteOperation } from '../../../src/engine/upstream/upstream.js'
import { smallPages } from '../../support/small-pages.js'
import { nextTurn, VirtualClock } from '../../support/virtual-clock.js'
import { faulty, type WatchTap } from './faulty-watcher.js'
import { RecordingSink } from './recording-sink.js'

export const key = (name: string): Key => `/p/${name}` as Key
export const put = (name: string, value = name): WriteOperation => ({
  type: 'put',
  key: key(name),
  value: Buffer.from(value),
})
export const remove = (name: string): WriteOperation => ({ type: 'delete', key: key(name) })
/** A write outside the prefix: it increases the revision without an event for the feed. */
export const elsewhere: WriteOperation = { type: 'put', key: '/q/x' as Key, value: Buffer.from('x') }

/** Counts by name; `relisted` and `initialisationFailed` with their argument. */
export class CountingMetrics implements FeedMetrics {
  readonly counts = new Map<string, number>()

  of(name: string): number {
    return this.counts.get(name) ?? 0
  }

  received(events = 1): void {
    this.#add('received', events)
  }
  dropped(events = 1): void {
    this.#add('dropped', events)
  }
  reconnected(): void {
    this.#add('reconnected')
  }
  relisted(reason: string): void {
    this.#add(`relisted ${reason}`)
  }
  compacted(): void {
    this.#add('compacted')
  }
  initialised(): void {
    this.#add('initialised')
  }
  initialisationSeconds(seconds: number): void {
    this.counts.set('seconds', seconds)
  }
  checked(outcome: string): void {
    this.#add(`checked ${outcome}`)
  }

  initialisationFailed(code: string): void {
    this.#add(`initialisationFailed ${code}`)
  }

  #add(name: string, n = 1): void {
    this.counts.set(name, this.of(name) + n)
  }
}

export function feedOptions(
  clock: VirtualClock,
  rest: Pick<FeedOptions, 'upstream' | 'sink' | 'metrics'> & Partial<FeedOptions>,
): FeedOptions {
  return {
    name: 'things',
    prefix: '/p/' as Key,
    clock,
    random: seededRandom(1),
    logger: silentLogger,
    lists: new SharedLists(2, clock),
    backfillRevisions: 10_000,
    onGap: 'expire',
    backoff: { firstMs: 100, capMs: 10_000 },
    ...rest,
  }
}

export function harness(
  t: Test,
  options: Partial<FeedOptions> = {},
  embedded: EmbeddedUpstreamOptions = {},
  tap: WatchTap | null = null,
) {
  const clock = new VirtualClock()
  const etcd = createEmbeddedUpstream({ clock, random: seededRandom(7), clusterId: '1', ...embedded })
  const sink = new RecordingSink()
  const metrics = new CountingMetrics()
  const upstream = smallPages(tap === null ? etcd : faulty(etcd, tap), 3)
  const feed = new Feed(feedOptions(clock, { upstream, sink, metrics, ...options }))
  t.teardown(async () => {
    await feed.stop()
    await etcd.close()
  })
  return {
    clock,
    etcd,
    sink,
    metrics,
    feed,
    /** Commits one transaction. */
    write: (...operations: WriteOperation[]): Batch => {
      const batch = etcd.commit(operations)
      if (batch === null) throw new Error('nothing changed')
      return batch
    },
    /** Runs everything that waits only for its turn. */
    settle: async (): Promise<void> => {
      for (let i = 0; i < 30; i++) await nextTurn()
    },
    /** Advances the time in small steps. */
    pass: (ms: number): Promise<void> => clock.advanceInTurns(ms, 20),
  }
}

/** A cache and its dispatcher on a virtual clock, over outputs that a test fills and drains. */
import { factSource } from '../../support/fact-source.js'
import { CACHE_METRICS } from '../../../src/engine/model/stage-metrics.js'
import { silent } from '../../support/silent-metrics.js'
import { Dispatcher, type CursorRequest, type CursorStart } from '../../../src/engine/broadcast/dispatcher.js'
import type { BodyEncoder } from '../../../src/engine/model/body-encoder.js'
import type { Cursor, WatchOutput } from '../../../src/engine/broadcast/cursor.js'
import type { WireFormat } from '../../../src/engine/broadcast/wire-format.js'
import type { EndReason } from '../../../src/engine/model/end-reason.js'
import type { PacedEndings } from '../../../src/engine/broadcast/paced-endings.js'
import { Pump } from '../../../src/engine/broadcast/pump.js'
import type { FreshnessSource } from '../../../src/engine/model/freshness-source.js'
import type { WatchCacheOptions } from '../../../src/engine/cache/state.js'
import { WatchCache } from '../../../src/engine/cache/watch-cache.js'
import { parseSelector } from '../../support/parse-selector.js'
import type { Batch, Key, KeyValue } from '../../../src/engine/model/event.js'
import { silentLogger } from '../../../src/support/log.js'
import { type Random, seededRandom } from '../../../src/support/random.js'
import {
  PODS,
  type ReadEvent,
  brief,
  ingestPod,
  lineWire,
  plainEncoder,
  readLines,
  rev,
} from '../../support/objects.js'
import { VirtualClock, nextTurn } from '../../support/virtual-clock.js'

export class TestOutput implements WatchOutput {
  readonly writes: Buffer[] = []
  /** Every write from now on finds the socket full; its bytes are accepted anyway. */
  isFull = false
  isEnded = false
  isDestroyed = false
  onWrite: (bytes: Buffer) => void = () => {}

  get pendingBytes(): number {
    return 0
  }

  write(bytes: Buffer): boolean {
    if (this.isEnded || this.isDestroyed) throw new Error('written to after its end')
    this.writes.push(bytes)
    this.onWrite(bytes)
    return !this.isFull
  }

  end(bytes: Buffer | null): void {
    if (this.isEnded || this.isDestroyed) throw new Error('ended twice')
    if (bytes !== null) this.writes.push(bytes)
    this.isEnded = true
  }

  destroy(): void {
    this.isDestroyed = true
  }

  get events(): ReadEvent[] {
    return readLines(Buffer.concat(this.writes).toString())
  }
}

export interface Watcher {
  readonly output: TestOutput
  readonly cursor: Cursor
  readonly endReason: EndReason | null
  readonly isInitialComplete: boolean
  /** The events in the form of `brief`. */
  readonly seen: readonly string[]
  drain(): void
}

export interface WatchOptions {
  readonly namespace?: string
  /** The absolute prefix of the keys. */
  readonly prefix?: Key
  readonly labels?: string
  readonly fields?: string
  readonly encoder?: BodyEncoder
  /** Default: `lineWire`. */
  readonly wire?: WireFormat
  /** Default: after the cache's revision. A number: after that revision. `initial`: the cache's state now. */
  readonly start?: number | 'initial' | CursorStart
  readonly bookmarks?: boolean
  readonly timeoutMs?: number
  readonly output?: TestOutput
}

export interface HarnessOptions {
  readonly ring?: Partial<WatchCacheOptions['ring']>
  readonly logBytes?: number
  readonly allLogBytes?: number
  readonly replayBytes?: number
  readonly bookmarkIntervalMs?: number
  readonly freshness?: Partial<FreshnessSource>
  readonly random?: Random
  /** The revision of the first state. */
  readonly revision?: number
  readonly objects?: readonly KeyValue[]
  /** The slice of the pump in milliseconds. Default: so long that it never ends. */
  readonly dispatchMs?: number
  readonly unslicedGroups?: number
  /** The pump. Default: the dispatcher has its own. */
  readonly pump?: Pump
  /** As in `DispatcherOptions`. */
  readonly endings?: PacedEndings
  /** Default: a clock of its own. */
  readonly clock?: VirtualClock
}

export const never = (): Promise<never> => new Promise(() => {})

export function createCache(options: HarnessOptions = {}): { cache: WatchCache; clock: VirtualClock } {
  const clock = options.clock ?? new VirtualClock()
  const cache = new WatchCache({
    name: 'pods',
    prefix: PODS.etcdPrefix,
    ingest: ingestPod,
    freshness: () => ({
      trustsProgress: true,
      currentRevision: never,
      requestProgress: () => {},
      readState: never,
      readKey: never,
      ...options.freshness,
    }),
    ring: { maxItems: 1_000, maxBytes: 1e9, maxAgeMs: 1e12, ...options.ring },
    clock,
    logger: silentLogger,
    metrics: silent(CACHE_METRICS),
  })
  return { cache, clock }
}

export function createHarness(options: HarnessOptions = {}) {
  const { cache, clock } = createCache(options)
  const pump =
    options.pump ??
    new Pump({
      dispatchMs: options.dispatchMs ?? 60_000,
      unslicedGroups: options.unslicedGroups ?? 0,
      metrics: { slice: () => {} },
    })
  const ended: EndReason[] = []
  const errors: Error[] = []
  const dispatcher = new Dispatcher({
    cache,
    facts: factSource(),
    pump,
    ...(options.endings === undefined ? {} : { endings: options.endings }),
    clock,
    random: options.random ?? seededRandom(1),
    metrics: {
      ended: (reason) => ended.push(reason),
      delay: () => {},
    },
    bookmarkIntervalMs: options.bookmarkIntervalMs ?? 60_000,
    logBytes: options.logBytes ?? 1024 * 1024,
    allLogBytes: options.allLogBytes ?? 1024 * 1024,
    replayBytes: options.replayBytes ?? 1024 * 1024,
    onUnencodable: (error) => errors.push(error),
  })
  if (options.revision !== undefined) {
    const state = cache.replace(rev(options.revision), 'initial')
    state.add(options.objects ?? [])
    state.commit()
    cache.synced()
  }

  const watch = (watchOptions: WatchOptions = {}): Watcher => {
    const output = watchOptions.output ?? new TestOutput()
    let endReason: EndReason | null = null
    let isInitialComplete = false
    const request: CursorRequest = {
      scope: watchOptions.namespace ?? '',
      prefix: watchOptions.prefix ?? null,
      selector: parseSelector(watchOptions.labels, watchOptions.fields),
      encoder: watchOptions.encoder ?? plainEncoder,
      wire: watchOptions.wire ?? lineWire,
      identity: '',
      start: startOf(cache, watchOptions.start),
      statePrefix:
        watchOptions.prefix ??
        (`${PODS.etcdPrefix}${(watchOptions.namespace ?? '') === '' ? '' : `${watchOptions.namespace}/`}` as Key),
      bookmarks: watchOptions.bookmarks ?? false,
      deadlineMs: clock.monotonic() + (watchOptions.timeoutMs ?? 3_600_000),
      onInitialComplete: () => {
        if (isInitialComplete) throw new Error('complete twice')
        isInitialComplete = true
      },
      onEnd: (reason) => {
        if (endReason !== null) throw new Error('ended twice')
        endReason = reason
      },
    }
    const cursor = dispatcher.open(request, output)
    return {
      output,
      cursor,
      get endReason() {
        return endReason
      },
      get isInitialComplete() {
        return isInitialComplete
      },
      get seen() {
        return output.events.map(brief)
      },
      drain() {
        output.isFull = false
        cursor.drained()
      },
    }
  }

  /** Waits until the pump has nothing left to do. */
  const settle = async (): Promise<void> => {
    do await nextTurn()
    while (pump.depth > 0)
  }

  const apply = async (...batches: Batch[]): Promise<void> => {
    cache.apply(batches)
    await settle()
  }

  /** As `distributary_broadcast_log_bytes` reports. */
  const logBytes = (): number => [...dispatcher.groups].reduce((sum, { log }) => sum + log.capacity, 0)

  return { cache, clock, pump, dispatcher, ended, errors, watch, settle, apply, logBytes }
}

function startOf(cache: WatchCache, start: WatchOptions['start']): CursorStart {
  if (start === undefined) return { kind: 'after', revision: cache.revision }
  if (typeof start === 'number') return { kind: 'after', revision: rev(start) }
  if (start === 'initial') return { kind: 'initial', snapshot: cache.snapshot(), minRevision: null, marksEnd: true }
  return start
}

/**
 * What the parts of a cache share: the objects, the revision up to which they are complete, and the name of the history
 * to which that revision belongs. Only `watch-cache.ts` changes it.
 */
import { randomBytes } from 'node:crypto'
import type { Key } from '../model/event.js'
import type { FreshnessSource } from '../model/freshness-source.js'
import { type Revision, ZERO_REVISION } from '../model/revision.js'
import type { CacheMetrics } from '../model/stage-metrics.js'
import type { Ingest, StoredObject } from '../model/stored-object.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import { HeldObjects, Ingester } from './held-objects.js'
import type { RingBounds } from './ring-buffer.js'
import { SourceAge } from './source-age.js'
import type { Snapshot } from './store.js'

export interface WatchCacheOptions {
  readonly name: string
  readonly prefix: Key
  readonly ingest: Ingest
  /** As in `DifferenceOptions`. */
  readonly identityOf?: (object: StoredObject) => string
  /** Called when a read needs the source, because the source may be opened after the cache that it feeds. */
  readonly freshness: () => FreshnessSource
  readonly ring: RingBounds
  /** What the source does after a gap, for display only. Default: expire. */
  readonly onGap?: 'expire' | 'coalesce'
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: CacheMetrics
}

export class CacheState {
  readonly ingester: Ingester
  readonly source: SourceAge
  #held: HeldObjects
  #revision: Revision = ZERO_REVISION
  #history = newHistory()
  #snapshot: Snapshot | null = null

  constructor(readonly options: WatchCacheOptions) {
    const { ingest, name, clock, logger } = options
    this.ingester = new Ingester(ingest, name, logger)
    this.source = new SourceAge(clock)
    this.#held = new HeldObjects(this.ingester)
  }

  /** The name of the resource, for messages. */
  get name(): string {
    return this.options.name
  }

  get held(): HeldObjects {
    return this.#held
  }

  get revision(): Revision {
    return this.#revision
  }

  /**
   * The name of the history. The same revision means a different state in a different history. The name is random, so
   * that names derived from it, such as the ETag of a list, never refer to another process's state.
   */
  get history(): string {
    return this.#history
  }

  /** The state at `revision`; the same object until something changes. */
  snapshot(): Snapshot {
    this.#snapshot ??= this.#held.snapshot(this.#revision, this.#history)
    return this.#snapshot
  }

  /** Everything up to the revision has been put into `held`, or the objects have been replaced by those of `held`. */
  moveTo(revision: Revision, held = this.#held): void {
    this.#held = held
    this.#revision = revision
    this.#snapshot = null
  }

  beginHistory(): void {
    this.#history = newHistory()
    this.#snapshot = null
  }
}

/** Returns a name that no other cache, in this process or another, gives to its history. */
export function newHistory(): string {
  return randomBytes(12).toString('base64url')
}

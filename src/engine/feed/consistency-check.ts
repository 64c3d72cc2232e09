/**
 * Compares the cache with etcd from time to time: all keys and mod revisions at one revision, and a sample of the
 * values.
 *
 * The rest of the code should make a difference impossible; this check verifies that. It only reports; the caller logs,
 * counts and rebuilds. No request is answered from the data that the check reads. Comparing all values was rejected
 * because it would read the whole of etcd. A wrong value with the right mod revision means corrupted memory, and
 * samples also find that sooner or later.
 *
 * The cache's revision advances rarely for a quiet resource, so etcd may have compacted it. Then the check compares
 * etcd's current state instead. It ignores keys written after the cache's revision. A key that etcd lacks proves
 * nothing, because it may have been deleted after that revision.
 *
 * If even a list of keys is expensive for the source, the check asks only for their number and a few values. It lists
 * the keys only if the number differs or an operator requests a check.
 */
import type { CheckedCache, CheckedKey } from '../model/checked-cache.js'
import type { Key, KeyValue } from '../model/event.js'
import { type Resource, resourceId } from '../model/resource.js'
import type { Revision } from '../model/revision.js'
import type { FeedMetrics } from '../model/stage-metrics.js'
import { type Clock, sleep } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import { type Random, randomInteger } from '../../support/random.js'
import { SingleFlight } from '../../support/single-flight.js'
import { turns } from '../../support/turns.js'
import { errorMessage } from '../../support/error-message.js'
import { UpstreamError, type StateReader } from '../upstream/upstream.js'
import { readInTime, readPages } from './read-pages.js'

export type CheckOutcome =
  | { readonly kind: 'equal'; readonly revision: Revision; readonly keys: number; readonly values: number }
  | {
      readonly kind: 'different'
      readonly revision: Revision
      readonly keys: number
      readonly values: number
      /** The number of differences, and the first few by name. */
      readonly differences: number
      readonly examples: readonly CheckDifference[]
    }
  /**
   * No comparison was possible. Possible reasons: the resource is not listed yet, etcd is away, or etcd has compacted
   * the revision. `err` is an error that does not come from the upstream.
   */
  | { readonly kind: 'skipped'; readonly reason: string; readonly err?: unknown }

/** Returns a function that counts and logs each outcome, and calls `repair` if the cache differs. */
export function reportOutcomes(
  resource: Resource,
  metrics: Pick<FeedMetrics, 'checked'>,
  logger: Logger,
  repair: (reason: string) => void,
): (outcome: CheckOutcome) => void {
  return (outcome) => {
    metrics.checked(outcome.kind)
    const fields = { resource: resourceId(resource), ...outcome }
    if ('err' in outcome) return logger.error(fields, 'unexpected error in a consistency check')
    if (outcome.kind !== 'different') return logger.debug(fields, 'consistency check')
    logger.error(fields, 'cache differs from etcd; relisting')
    repair(`a consistency check found ${outcome.differences} differences`)
  }
}

export interface CheckDifference {
  readonly key: Key
  readonly kind: 'missing' | 'unknown-to-etcd' | 'other-revision' | 'other-value'
  readonly ours: Revision | null
  readonly theirs: Revision | null
}

export interface ConsistencyCheckOptions {
  /** Returns the source with which to compare now. */
  readonly upstream: () => StateReader
  readonly prefix: Key
  readonly cache: CheckedCache
  readonly clock: Clock
  readonly random: Random
  /** The mean time between checks. Each wait is between half and one and a half times this long. */
  readonly intervalMs: number
  /** Whether periodic checks only count the keys, and run less often. Default: false. */
  readonly countsOnly?: () => boolean
  /** Called with every outcome, including those of checks on request. */
  readonly onOutcome: (outcome: CheckOutcome) => void
}

/** At most this many differences are reported with their keys. */
const EXAMPLES = 10
/** How many values a check compares in addition to the keys. */
const SAMPLE_VALUES = 20
/** Checks that only count the keys are less frequent by `COUNT_INTERVALS`, and compare `COUNT_VALUES` values. */
const COUNT_INTERVALS = 4
const COUNT_VALUES = 2

export class ConsistencyCheck {
  readonly #options: ConsistencyCheckOptions
  readonly #flight: SingleFlight<CheckOutcome>
  #stopping = new AbortController()
  #loop: Promise<void> | null = null

  constructor(options: ConsistencyCheckOptions) {
    this.#options = options
    this.#flight = new SingleFlight(() => this.#report(this.#compare(this.#stopping.signal)))
  }

  /** Checks every `intervalMs` or so from now on. */
  start(): void {
    if (this.#loop !== null) return
    this.#stopping = new AbortController()
    this.#loop = this.#run(this.#stopping.signal)
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new UpstreamError('unavailable', 'stopped'))
    await this.#loop
    this.#loop = null
  }

  /**
   * Checks now. A caller that asks while a check is running gets the outcome of the next one. A failure does not reject
   * the promise.
   */
  run(signal?: AbortSignal): Promise<CheckOutcome> {
    return this.#flight.join(signal)
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, random, intervalMs, countsOnly } = this.#options
    for (;;) {
      const meanMs = countsOnly?.() === true ? intervalMs * COUNT_INTERVALS : intervalMs
      await sleep(clock, meanMs * (0.5 + random.next()), signal)
      if (signal.aborted) return
      const check = countsOnly?.() === true ? this.#report(this.#count(signal)) : this.run(signal)
      await check.catch((error: unknown) => {
        if (!signal.aborted) throw error
      })
    }
  }

  async #report(check: Promise<CheckOutcome>): Promise<CheckOutcome> {
    let outcome: CheckOutcome
    try {
      outcome = await check
    } catch (error) {
      outcome =
        error instanceof UpstreamError
          ? { kind: 'skipped', reason: `${error.code}: ${error.message}` }
          : { kind: 'skipped', reason: errorMessage(error), err: error }
    }
    if (!this.#stopping.signal.aborted) this.#options.onOutcome(outcome)
    return outcome
  }

  /** Compares the number of keys and a few values, at a revision that the cache has reached. */
  async #count(signal: AbortSignal): Promise<CheckOutcome> {
    const { cache, upstream, prefix, clock } = this.#options
    const { revision } = cache
    const state = revision === null ? null : cache.stateAt(revision)
    if (revision === null || state === null) return NO_STATE
    const comparison = new Comparison(state, this.#options.random, COUNT_VALUES, null)
    await comparison.assumeEqual()
    const { keys, sample } = comparison
    const { count } = await readInTime(clock, signal, (inner) =>
      upstream().read({ prefix, revision, limit: 1, keysOnly: true, signal: inner }),
    )
    if (count !== keys) return await this.#compare(signal)
    await this.#compareValues(comparison, revision, signal)
    const { differences, examples } = comparison
    const compared = { revision, keys, values: sample.length }
    return differences > 0 ? { kind: 'different', ...compared, differences, examples } : { kind: 'equal', ...compared }
  }

  /**
   * Compares at a revision that the cache has already reached, so there is nothing to wait for. The snapshot is taken
   * in the same turn of the event loop as the revision, because the cache may change afterwards. It is traversed once
   * while etcd's pages arrive, and then released.
   */
  async #compare(signal: AbortSignal): Promise<CheckOutcome> {
    const { cache } = this.#options
    const { revision } = cache
    const state = revision === null ? null : cache.stateAt(revision)
    if (revision === null || state === null) return NO_STATE

    try {
      return await this.#compareWith(state, { revision, at: revision }, signal)
    } catch (error) {
      if (!(error instanceof UpstreamError && error.code === 'compacted')) throw error
    }
    // The cache may have advanced, so read its revision again, in the same turn as its state.
    const { revision: later } = cache
    const present = later === null ? null : cache.stateAt(later)
    if (later === null || present === null) return NO_STATE
    return await this.#compareWith(present, { revision: later, at: null }, signal)
  }

  /**
   * @param compared.at the revision to read from etcd; null reads the current state, which may be newer than the
   * cache's.
   */
  async #compareWith(
    state: Iterable<CheckedKey>,
    { revision, at }: { readonly revision: Revision; readonly at: Revision | null },
    signal: AbortSignal,
  ): Promise<CheckOutcome> {
    const { upstream, prefix, clock, random } = this.#options
    const comparison = new Comparison(state, random, SAMPLE_VALUES, at === null ? revision : null)
    try {
      for await (const page of readPages({
        upstream: upstream(),
        prefix,
        revision: at,
        keysOnly: true,
        clock,
        signal,
      })) {
        for (const { key, modRevision } of page.keyValues) comparison.meet(key, modRevision)
      }
      comparison.end()
    } finally {
      comparison.close()
    }
    await this.#compareValues(comparison, at, signal)
    const { keys, differences, examples, sample, undecided } = comparison
    if (differences > 0) return { kind: 'different', revision, keys, values: sample.length, differences, examples }
    if (undecided === 0) return { kind: 'equal', revision, keys, values: sample.length }
    const reason = `compacted: ${undecided} of ${keys} keys could not be checked, because etcd no longer has revision ${revision}`
    return { kind: 'skipped', reason }
  }

  async #compareValues(comparison: Comparison, revision: Revision | null, signal: AbortSignal): Promise<void> {
    const { upstream, cache, clock } = this.#options
    const comparable = async (theirs: KeyValue): Promise<Buffer | null> =>
      cache.comparable === undefined ? theirs.value : await cache.comparable(theirs)
    for (const { key, modRevision, value } of comparison.sample) {
      const theirs = await readInTime(clock, signal, (inner) =>
        upstream().readKey(key, { ...(revision === null ? {} : { revision }), signal: inner }),
      )
      // This key was written or deleted after the cache's state was taken.
      if (revision === null && theirs?.modRevision !== modRevision) continue
      if (theirs === null || (await comparable(theirs))?.equals(value) !== true) {
        comparison.differs({ key, kind: 'other-value', ours: modRevision, theirs: theirs?.modRevision ?? null })
      }
    }
  }
}

const NO_STATE: CheckOutcome = { kind: 'skipped', reason: 'the cache holds no state' }

/** Merges two sorted sequences, the cache's keys and etcd's. The cache's sequence advances as etcd's keys arrive. */
class Comparison {
  readonly #ours: Iterator<CheckedKey>
  #next: CheckedKey | null
  readonly #sampleSize: number
  readonly #judgedUpTo: Revision | null
  readonly #random: Random
  #sampled = 0
  /** A uniform sample of all keys that could be sampled. */
  readonly sample: { readonly key: Key; readonly modRevision: Revision; readonly value: Buffer }[] = []
  readonly examples: CheckDifference[] = []
  keys = 0
  differences = 0
  /** The number of keys that etcd lacks but that may have been deleted after the cache's state was taken. */
  undecided = 0

  /**
   * @param judgedUpTo writes after this revision say nothing about the cache's state; null when both sides have the
   * same revision.
   */
  constructor(state: Iterable<CheckedKey>, random: Random, sampleSize: number, judgedUpTo: Revision | null) {
    this.#judgedUpTo = judgedUpTo
    this.#ours = state[Symbol.iterator]()
    this.#random = random
    this.#sampleSize = sampleSize
    this.#next = this.#pull()
  }

  /** Takes etcd's next key. */
  meet(key: Key, modRevision: Revision): void {
    this.keys++
    this.#passOurs(key)
    const ours = this.#next
    if (this.#judgedUpTo !== null && modRevision > this.#judgedUpTo) {
      if (ours?.key === key) this.#next = this.#pull()
      return
    }
    if (ours === null || ours.key !== key) {
      return this.differs({ key, kind: 'missing', ours: null, theirs: modRevision })
    }
    if (ours.modRevision === modRevision) this.#consider(ours)
    else this.differs({ key, kind: 'other-revision', ours: ours.modRevision, theirs: modRevision })
    this.#next = this.#pull()
  }

  /** Treats every key of the cache as if etcd had it with the same mod revision. */
  async assumeEqual(): Promise<void> {
    for (let ours = this.#next; ours !== null; ours = this.#next) {
      if (turns.isOver) await turns.take()
      this.meet(ours.key, ours.modRevision)
    }
  }

  /** Called when etcd has no more keys. */
  end(): void {
    this.#passOurs(null)
  }

  /** Releases the snapshot, however far the comparison got. */
  close(): void {
    this.#next = null
    this.#ours.return?.()
  }

  differs(difference: CheckDifference): void {
    this.differences++
    if (this.examples.length < EXAMPLES) this.examples.push(difference)
  }

  #passOurs(before: Key | null): void {
    for (let ours = this.#next; ours !== null; ours = this.#next) {
      if (before !== null && ours.key >= before) return
      if (this.#judgedUpTo !== null) this.undecided++
      else this.differs({ key: ours.key, kind: 'unknown-to-etcd', ours: ours.modRevision, theirs: null })
      this.#next = this.#pull()
    }
  }

  /** Reservoir sampling gives every candidate the same chance without knowing in advance how many there will be. */
  #consider(ours: CheckedKey): void {
    if (!('value' in ours) || this.#sampleSize === 0) return
    const index = this.#sampled < this.#sampleSize ? this.#sampled : randomInteger(this.#random, 0, this.#sampled)
    this.#sampled++
    if (index >= this.#sampleSize) return
    const { key, modRevision, value } = ours
    this.sample[index] = { key, modRevision, value }
  }

  #pull(): CheckedKey | null {
    const { done, value } = this.#ours.next()
    return done === true ? null : value
  }
}

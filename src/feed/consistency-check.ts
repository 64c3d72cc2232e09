/**
 * Now and then, is the cache what etcd holds? Keys and mod revisions are compared at one revision, and a sample of values.
 *
 * Everything else here argues that a cache cannot differ; this finds out. It only looks: whoever runs it logs, counts and
 * rebuilds. What was read for it never answers a request. Comparing all values was rejected: it would read the whole
 * of etcd, and a wrong value under a right mod revision is a fault of memory, which a sample finds as well in time.
 *
 * Where etcd has compacted the revision that the cache is at (a quiet resource's moves seldom), the present is compared: what
 * was written since is left out, and a key that is gone may have been deleted since, so that it proves nothing.
 */
import type { CheckedCache, CheckedKey } from '../model/checked-cache.js'
import type { Key, KeyValue } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import { type Clock, sleep } from '../support/clock.js'
import { withDeadline } from '../support/deadline.js'
import { type Random, randomInteger } from '../support/random.js'
import { SingleFlight } from '../support/single-flight.js'
import { UpstreamError, type UpstreamReader } from '../upstream/upstream.js'
import { readPages } from './read-pages.js'

export type CheckOutcome =
  | { readonly kind: 'equal'; readonly revision: Revision; readonly keys: number; readonly values: number }
  | {
      readonly kind: 'different'
      readonly revision: Revision
      readonly keys: number
      readonly values: number
      /** How many there are, and the first few by name. */
      readonly differences: number
      readonly examples: readonly CheckDifference[]
    }
  /** Nothing could be said, with the reason: not listed, etcd away, the revision gone. */
  | { readonly kind: 'skipped'; readonly reason: string }

export interface CheckDifference {
  readonly key: Key
  readonly kind: 'missing' | 'unknown-to-etcd' | 'other-revision' | 'other-value'
  readonly ours: Revision | null
  readonly theirs: Revision | null
}

export interface ConsistencyCheckOptions {
  readonly upstream: UpstreamReader
  readonly prefix: Key
  readonly cache: CheckedCache
  readonly clock: Clock
  readonly random: Random
  readonly pageKeys: number
  readonly pageTimeoutMs: number
  /** The mean time between checks; each wait is between half and one and a half times as long. */
  readonly intervalMs: number
  /** How many values are compared as well. */
  readonly sampleValues: number
  /** Told of every outcome, the ones on demand included. */
  readonly onOutcome: (outcome: CheckOutcome) => void
}

/** Most differences that are named. */
const EXAMPLES = 10

export class ConsistencyCheck {
  readonly #options: ConsistencyCheckOptions
  readonly #flight: SingleFlight<CheckOutcome>
  #stopping = new AbortController()
  #loop: Promise<void> | null = null

  constructor(options: ConsistencyCheckOptions) {
    this.#options = options
    this.#flight = new SingleFlight(() => this.#check())
  }

  /** From now on, every `intervalMs` or so. */
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

  /** Now; who asks while one is under way gets the next one. Never rejects on the upstream's account. */
  run(signal?: AbortSignal): Promise<CheckOutcome> {
    return this.#flight.join(signal)
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, random, intervalMs } = this.#options
    for (;;) {
      await sleep(clock, intervalMs * (0.5 + random.next()), signal)
      if (signal.aborted) return
      await this.run(signal).catch((error: unknown) => {
        if (!signal.aborted) throw error
      })
    }
  }

  async #check(): Promise<CheckOutcome> {
    let outcome: CheckOutcome
    try {
      outcome = await this.#compare(this.#stopping.signal)
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error
      outcome = { kind: 'skipped', reason: `${error.code}: ${error.message}` }
    }
    if (!this.#stopping.signal.aborted) this.#options.onOutcome(outcome)
    return outcome
  }

  /**
   * At a revision the cache has reached, so that it needs no waiting; the cache is asked in the same turn, so that its
   * state is still there, and keeps no state for long: one pass over it, beside the pages.
   */
  async #compare(signal: AbortSignal): Promise<CheckOutcome> {
    const { cache } = this.#options
    const { revision } = cache
    const state = revision === null ? null : cache.stateAt(revision)
    if (revision === null || state === null) return { kind: 'skipped', reason: 'the cache holds no state' }

    try {
      return await this.#compareWith(state, { revision, at: revision }, signal)
    } catch (error) {
      if (!(error instanceof UpstreamError && error.code === 'compacted')) throw error
    }
    // Read anew in the turn in which its revision is: it may have moved.
    const { revision: later } = cache
    const present = later === null ? null : cache.stateAt(later)
    if (later === null || present === null) return { kind: 'skipped', reason: 'the cache holds no state' }
    return await this.#compareWith(present, { revision: later, at: null }, signal)
  }

  /** @param compared.at what is read of etcd; null: the present, which may be later than the state. */
  async #compareWith(
    state: Iterable<CheckedKey>,
    { revision, at }: { readonly revision: Revision; readonly at: Revision | null },
    signal: AbortSignal,
  ): Promise<CheckOutcome> {
    const { upstream, prefix, clock, pageKeys, pageTimeoutMs } = this.#options
    const comparison = new Comparison(state, { ...this.#options, judgedUpTo: at === null ? revision : null })
    try {
      const pages = { upstream, prefix, revision: at, keysOnly: true, pageKeys, pageTimeoutMs, clock, signal }
      for await (const page of readPages(pages)) {
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
    const reason = `compacted: ${undecided} of ${keys} keys may have been deleted since revision ${revision}, which etcd has forgotten`
    return { kind: 'skipped', reason }
  }

  async #compareValues(comparison: Comparison, revision: Revision | null, signal: AbortSignal): Promise<void> {
    const { upstream, cache, clock, pageTimeoutMs } = this.#options
    const comparable = (theirs: KeyValue): Buffer | null =>
      cache.comparable === undefined ? theirs.value : cache.comparable(theirs)
    const late = (): Error => new UpstreamError('unavailable', `no answer to a read within ${pageTimeoutMs} ms`)
    for (const { key, modRevision, value } of comparison.sample) {
      const theirs = await withDeadline(clock, pageTimeoutMs, signal, late, (inner) =>
        upstream.readKey(key, { ...(revision === null ? {} : { revision }), signal: inner }),
      )
      // Of the present: written or deleted since.
      if (revision === null && theirs?.modRevision !== modRevision) continue
      if (theirs === null || comparable(theirs)?.equals(value) !== true) {
        comparison.differs({ key, kind: 'other-value', ours: modRevision, theirs: theirs?.modRevision ?? null })
      }
    }
  }
}

/** A merge of two sorted runs: ours is pulled along as theirs comes in. */
class Comparison {
  readonly #ours: Iterator<CheckedKey>
  #next: CheckedKey | null
  readonly #sampleSize: number
  readonly #judgedUpTo: Revision | null
  readonly #random: Random
  #sampled = 0
  /** Uniform over all keys that could be sampled. */
  readonly sample: { readonly key: Key; readonly modRevision: Revision; readonly value: Buffer }[] = []
  readonly examples: CheckDifference[] = []
  keys = 0
  differences = 0
  /** Keys that are gone, and may have been deleted after the state. */
  undecided = 0

  /** @param judgedUpTo what was written after it says nothing about the state; null: both are of one revision. */
  constructor(
    state: Iterable<CheckedKey>,
    {
      random,
      sampleValues,
      judgedUpTo,
    }: Pick<ConsistencyCheckOptions, 'random' | 'sampleValues'> & { readonly judgedUpTo: Revision | null },
  ) {
    this.#judgedUpTo = judgedUpTo
    this.#ours = state[Symbol.iterator]()
    this.#random = random
    this.#sampleSize = sampleValues
    this.#next = this.#pull()
  }

  /** The next key of etcd's. */
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

  /** etcd has no more. */
  end(): void {
    this.#passOurs(null)
  }

  /** Lets go of the snapshot, wherever it got to. */
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

  /** Reservoir sampling: every candidate is in the sample with the same chance, however many there will be. */
  #consider({ key, modRevision, value }: CheckedKey): void {
    if (value === undefined || this.#sampleSize === 0) return
    const index = this.#sampled < this.#sampleSize ? this.#sampled : randomInteger(this.#random, 0, this.#sampled)
    this.#sampled++
    if (index < this.#sampleSize) this.sample[index] = { key, modRevision, value }
  }

  #pull(): CheckedKey | null {
    const { done, value } = this.#ours.next()
    return done === true ? null : value
  }
}

/**
 * Feeds one resource from etcd to its sink. This file carries out what `feed-state.ts` decides, and decides nothing
 * itself.
 *
 * Everything that a watch delivers is screened, so that the sink gets whole revisions in strictly ascending order. The
 * first state is complete (`synced`) once it is *proven* that the replay has reached the revision that etcd had when
 * the feed began. An event or a progress report at or after that revision is proof. If progress cannot be trusted, a
 * later list of keys also proves it if the delivered state equals etcd's. In this last case reads may be answered, but
 * the position does not advance: a key that was put and deleted again does not change the state, but its events are
 * still to come.
 *
 * At most one job (list, comparison of history, search for that proof) runs at a time, and it is cancelled when the
 * state that began it ends. Nothing here reconnects by itself; a lost watch is an input like any other.
 */
import type { Batch } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import { backoffMs } from '../../support/backoff.js'
import { sleep, type Timer } from '../../support/clock.js'
import { UpstreamError, type UpstreamErrorCode, type UpstreamWatch, type WatchEnd } from '../upstream/upstream.js'
import type { FeedOptions, FeedStatus } from './feed-options.js'
import { readEarlier } from './earlier-history.js'
import { IDLE, next, type FeedEffect, type FeedInput, type FeedState } from './feed-state.js'
import { HeldBatches } from './held-batches.js'
import { asUpstreamError, type FeedResume, HistoryReader } from './history-reader.js'
import type { KeysSummary } from '../model/freshness-source.js'
import { READ_TIMEOUT_MS, summariseKeys } from './read-pages.js'
import { RefusalTime } from './refusal-time.js'
import { screen } from './screen.js'
import { ListSlot } from './shared-lists.js'

/** The wait between attempts after a refusal. */
const REFUSED = { firstMs: 30_000, capMs: 30_000 }
/** etcd silently drops a progress request while the stream is behind, so requests are repeated at this interval. */
const PROGRESS_INTERVAL_MS = 100
/** After this many unanswered progress requests, the keys are compared as well. */
const PROGRESS_REQUESTS = 50
const COMPARE_RETRY_MS = 1_000
/**
 * How often the sink is given the age of its content, if the upstream reports one. The interval is shorter if the last
 * report expires soon.
 */
const CONFIRM_MS = 1_000
/** The shortest such interval. It is also used while the age is unknown, so that recovery is reported early. */
const CONFIRM_AGAIN_MS = 250

interface OpenWatch {
  watch: UpstreamWatch | null
  readonly startRevision: Revision
  readonly inParts: boolean
  readonly timer: Timer
}

type QueuedInput =
  | FeedInput
  | { readonly kind: 'arrived'; readonly from: OpenWatch; readonly batches: readonly Batch[] }

export class Feed {
  readonly #options: FeedOptions
  #state: FeedState = IDLE
  readonly #inputs: QueuedInput[] = []
  #isPerforming = false

  #watch: OpenWatch | null = null
  #timer: Timer | null = null
  #confirming: Timer | null = null
  #stopSleeping: (() => void) | null = null
  #job: AbortController | null = null
  readonly #jobs = new Set<Promise<void>>()
  readonly #held = new HeldBatches()
  readonly #slot: ListSlot
  readonly #history: HistoryReader
  readonly #refusal: RefusalTime

  /** The later state with which the delivered one is compared in `catching-up`. */
  #later: KeysSummary | null = null
  #initialisingSince: number | null = null
  /** Whether history from before the first state has been sought. */
  #hasSought = false
  readonly #stopped = new AbortController()

  constructor(options: FeedOptions) {
    const { lists, sink, clock } = options
    this.#options = options
    this.#refusal = new RefusalTime(clock)
    this.#slot = new ListSlot(lists.slots, () => sink.isAwaited === true)
    this.#history = new HistoryReader(options, this.#slot, this.#refusal, (input) => this.#send(input))
  }

  /**
   * @param resume how far an earlier feed, perhaps in another process, has brought the sink. This feed continues there
   * if it can.
   */
  start(resume?: FeedResume): void {
    if (resume === undefined) return this.#send({ kind: 'start' })
    this.#history.resume(resume)
    this.#send({ kind: 'start', place: resume.place })
  }

  /** The sink is not called after this call. Resolves when nothing runs any more. */
  async stop(): Promise<void> {
    this.#send({ kind: 'stop' })
    this.#stopped.abort(new UpstreamError('unavailable', 'stopped'))
    while (this.#jobs.size > 0) await Promise.allSettled(this.#jobs)
  }

  /** Lists again because a consistency check found a difference. Watchers end with 410. */
  rebuild(why: string): void {
    this.#send({ kind: 'rebuild', why })
  }

  /**
   * etcd has answered with a revision below ours, so its history is compared now, even if the feed was waiting for a
   * back-off.
   */
  doubtHistory(why: string): void {
    this.#send({ kind: 'doubted', why })
  }

  /** Everything at or before this revision has been delivered; null before the first list. */
  get position(): Revision | null {
    const state = this.#state
    return 'place' in state && state.place !== null ? state.place.position : null
  }

  get status(): FeedStatus {
    const state = this.#state
    const revision = this.position
    return {
      state: state.kind,
      revision,
      reason: 'why' in state ? state.why : null,
    }
  }

  /** The cluster id of the etcd that was last compared or listed; null before the first list or comparison. */
  get clusterId(): string | null {
    return this.#history.clusterId
  }

  /** Whether etcd's progress can be trusted, according to its newest response to any feed; see `UpstreamStatus`. */
  get trustsProgress(): boolean {
    return this.#options.upstream.trustsProgress ?? this.#history.trustsProgress
  }

  /**
   * Everything that etcd had this many milliseconds ago has been delivered or is on its way. null while the feed is not
   * watching, or while the age is not known.
   */
  get ageMs(): number | null {
    if (this.#state.kind !== 'watching') return null
    const age = this.#watch?.watch?.age
    return age === undefined ? 0 : (age?.ageMs ?? null)
  }

  /** Asks etcd for the age now. Resolves when the age is known, or when etcd does not answer. */
  async confirm(): Promise<void> {
    await this.#watch?.watch?.confirm?.()
  }

  /** Asks etcd for the progress of the watch. The request may go unanswered: ask again. */
  requestProgress(): void {
    this.#watch?.watch?.requestProgress(this.#state.kind === 'watching')
  }

  #send(input: QueuedInput): void {
    this.#inputs.push(input)
    if (this.#isPerforming) return
    this.#isPerforming = true
    try {
      for (let queued = this.#inputs.shift(); queued !== undefined; queued = this.#inputs.shift()) {
        if (queued.kind === 'arrived') this.#arrived(queued.from, queued.batches)
        else this.#step(queued)
      }
    } finally {
      this.#isPerforming = false
    }
  }

  #step(input: FeedInput): void {
    const before = this.#state
    const { onGap } = this.#options
    const { state, effects } = next(before, input, { onGap, replayRevisions: this.#history.replayRevisions })
    this.#state = state
    for (const effect of effects) this.#perform(effect)
    if (state.kind !== before.kind) this.#changed(before, state)
  }

  #arrived(from: OpenWatch, batches: readonly Batch[]): void {
    const state = this.#state
    if (from !== this.#watch || batches.length === 0) return
    const last = (batches.at(-1) as Batch).revision
    if (state.kind !== 'watching' && state.kind !== 'catching-up') return this.#step({ kind: 'batches', batches, last })

    const { fresh, repeatedEvents, contradiction } = screen(batches, state.place)
    if (repeatedEvents > 0) this.#options.metrics.dropped(repeatedEvents)
    const newest = fresh.at(-1)
    if (newest !== undefined) this.#step({ kind: 'batches', batches: fresh, last: newest.revision })
    if (contradiction !== null) {
      this.#step({ kind: 'contradicted', revision: contradiction, at: this.#options.clock.monotonic() })
    }
    if (this.#later !== null) this.#compareWith(this.#later)
  }

  #perform(effect: FeedEffect): void {
    const { sink, clock, random, backoff, metrics } = this.#options
    switch (effect.kind) {
      case 'apply':
        this.#history.fingerprint.applied(effect.batches)
        metrics.received(countEvents(effect.batches))
        return sink.apply(effect.batches)
      case 'progress':
        return sink.progress(effect.revision)
      case 'list':
        this.#initialisingSince ??= clock.monotonic()
        return this.#run((signal) => this.#history.list(effect, signal))
      case 'watch':
        return this.#open(effect)
      case 'close-watch':
        return this.#close()
      case 'verify':
        return this.#run((signal) => this.#history.verify(effect, signal))
      case 'seek':
        return this.#run((signal) => this.#seek(signal))
      case 'hold':
        return this.#held.add(effect.batches)
      case 'release-held':
        return this.#release()
      case 'set-timer': {
        const delayMs =
          effect.pace === 'backoff' ? backoffMs(backoff, effect.attempt, random) : backoffMs(REFUSED, 1, random)
        this.#timer?.cancel()
        this.#timer = clock.setTimer(delayMs, () => this.#send({ kind: 'timer' }))
        if (effect.pace === 'backoff') this.#sleep()
        return
      }
      case 'synced':
        if (this.#initialisingSince !== null) {
          metrics.initialised()
          metrics.initialisationSeconds((clock.monotonic() - this.#initialisingSince) / 1_000)
          this.#initialisingSince = null
          this.#seekEarlier()
        }
        return sink.synced()
      case 'disconnected':
        return sink.disconnected(effect.reason)
      case 'refused':
        return sink.refused(effect.reason, effect.isLasting)
      case 'cancel':
        this.#timer?.cancel()
        this.#confirming?.cancel()
        this.#initialisingSince = null
        return this.#close()
      default:
        effect satisfies never
    }
  }

  #changed(before: FeedState, state: FeedState): void {
    const { logger, name, metrics } = this.#options
    const isOpen = state.kind === 'catching-up' || state.kind === 'watching'
    if (isOpen) this.#refusal.ended()
    if (before.kind === 'backing-off') this.#awake()
    if (before.kind === 'verifying' && before.after === 'loss' && isOpen) metrics.reconnected()
    if (state.kind !== 'catching-up') this.#later = null
    if (state.kind === 'watching') {
      this.#giveUpJob()
      this.#confirm()
    }
    if (state.kind !== 'listing' && state.kind !== 'verifying') this.#slot.release()

    const fields = { resource: name, from: before.kind, to: state.kind, ...this.status }
    // This line is for debugging only. The cache logs that a resource cannot be listed. An outage affects every
    // resource at once, so it is logged in one line elsewhere.
    logger.debug(fields, 'feed')
  }

  /**
   * An upstream whose silence can go unnoticed reports how old the content is. Passes the age on to the sink, again and
   * again.
   */
  #confirm(): void {
    const { sink, clock } = this.#options
    this.#confirming?.cancel()
    const age = this.#state.kind === 'watching' ? this.#watch?.watch?.age : undefined
    if (age === undefined) return
    if (age !== null) sink.confirmed?.(age.ageMs, age.validMs)
    // Half of the remaining time, so that the next report arrives before fresh content counts as old.
    const leftMs = age === null ? 0 : (age.validMs - age.ageMs) / 2
    const delayMs = Math.min(CONFIRM_MS, Math.max(CONFIRM_AGAIN_MS, leftMs))
    this.#confirming = clock.setTimer(delayMs, () => this.#confirm())
  }

  #sleep(): void {
    this.#stopSleeping?.()
    this.#stopSleeping = this.#options.outage?.sleep(() => this.#send({ kind: 'wake' })) ?? null
  }

  #awake(): void {
    this.#timer?.cancel()
    this.#stopSleeping?.()
    this.#stopSleeping = null
  }

  // The watch

  #open({ startRevision, inParts }: Extract<FeedEffect, { kind: 'watch' }>): void {
    const { upstream, prefix, clock } = this.#options
    const onTimeout = (): void =>
      this.#failed(entry, 'unavailable', `etcd did not accept the watch within ${READ_TIMEOUT_MS} ms`)
    const entry: OpenWatch = { watch: null, startRevision, inParts, timer: clock.setTimer(READ_TIMEOUT_MS, onTimeout) }
    this.#watch = entry
    const watch = upstream.watch(
      { prefix, startRevision, inParts },
      {
        onOpen: () => {
          entry.timer.cancel()
          if (entry === this.#watch) this.#send({ kind: 'opened', at: clock.monotonic() })
        },
        onBatches: (batches) => this.#send({ kind: 'arrived', from: entry, batches }),
        onProgress: (revision) => {
          if (entry === this.#watch) this.#send({ kind: 'progress', revision })
        },
        onEnd: (end) => this.#ended(entry, end),
      },
    )
    if (this.#watch === entry) entry.watch = watch
    else watch.close()
  }

  #ended(entry: OpenWatch, end: WatchEnd): void {
    if (entry !== this.#watch) return
    const at = this.#options.clock.monotonic()
    if (end.kind === 'compacted') {
      this.#options.metrics.compacted()
      const { startRevision } = entry
      return this.#send({ kind: 'watch-compacted', startRevision, compactRevision: end.compactRevision, at })
    }
    if (end.kind === 'contradicted') return this.#send({ kind: 'contradicted', revision: end.revision, at })
    const { code, message } = end.error
    if (end.kind === 'left') return this.#send({ kind: 'watch-left', why: message })
    if (code !== 'too-large' || entry.inParts) return this.#failed(entry, code, message)
    const fields = { resource: this.#options.name, why: message }
    this.#options.logger.info(fields, 'the watch backlog exceeds the message limit; requesting it in parts')
    this.#send({ kind: 'watch-too-large', message })
  }

  #failed(entry: OpenWatch, code: UpstreamErrorCode, message: string): void {
    if (entry !== this.#watch) return
    const refusedMs = this.#refusal.failed(code)
    this.#send({ kind: 'watch-failed', code, message, refusedMs, at: this.#options.clock.monotonic() })
  }

  #close(): void {
    const entry = this.#watch
    this.#watch = null
    this.#held.take()
    this.#giveUpJob()
    entry?.timer.cancel()
    entry?.watch?.close()
  }

  #release(): void {
    const entry = this.#watch
    const { batches, isWhole } = this.#held.take()
    if (entry === null) return
    if (batches.length > 0) this.#send({ kind: 'arrived', from: entry, batches })
    if (!isWhole) this.#failed(entry, 'unavailable', 'too many events arrived while the history was being compared')
  }

  // Jobs

  #run(job: (signal: AbortSignal) => Promise<void>): void {
    this.#giveUpJob()
    const controller = new AbortController()
    this.#job = controller
    this.#track(job(controller.signal))
  }

  #track(job: Promise<void>): void {
    const done = job.finally(() => this.#jobs.delete(done))
    this.#jobs.add(done)
  }

  /** Seeks the history before the first state, beside the watch. */
  #seekEarlier(): void {
    const until = this.position
    if (this.#hasSought || until === null || !this.#history.keepsEvents) return
    this.#hasSought = true
    this.#track(readEarlier(this.#options, until, this.#stopped.signal))
  }

  #giveUpJob(): void {
    this.#job?.abort(new UpstreamError('unavailable', 'given up'))
    this.#job = null
  }

  /** Seeks proof that the replay has reached the target, until the state that began this job ends. */
  async #seek(signal: AbortSignal): Promise<void> {
    const { upstream, prefix, clock } = this.#options
    for (let requests = 0; this.trustsProgress && requests < PROGRESS_REQUESTS; requests++) {
      this.requestProgress()
      await sleep(clock, PROGRESS_INTERVAL_MS, signal)
      if (signal.aborted) return
    }
    for (let waitMs = PROGRESS_INTERVAL_MS; !signal.aborted; waitMs = COMPARE_RETRY_MS) {
      // Wait first: a replay that makes progress will soon deliver an event that is proof enough.
      await sleep(clock, waitMs, signal)
      if (signal.aborted) return
      this.requestProgress()
      if (this.#later !== null || this.#countKeys() === null) continue
      try {
        this.#later = await summariseKeys({ upstream, prefix, revision: null, clock, signal })
        this.#compareWith(this.#later)
      } catch (cause) {
        if (signal.aborted) return
        const { message } = asUpstreamError(cause, this.#options)
        this.#options.logger.debug({ resource: this.#options.name, message }, 'cannot compare keys yet')
      }
    }
  }

  /**
   * The delivered state equals the later one if it has the same number of keys and includes the newest change of any of
   * them.
   */
  #compareWith(later: KeysSummary): void {
    if (this.#state.kind !== 'catching-up' || later.maxModRevision > this.#state.place.settled) return
    if (later.count === this.#countKeys()) this.#send({ kind: 'state-equal' })
  }

  /** Returns the number of keys in the delivered state; null if neither the fingerprint nor the sink knows it. */
  #countKeys(): number | null {
    return this.#history.fingerprint.keyCount ?? this.#options.sink.countKeys?.() ?? null
  }
}

function countEvents(batches: readonly Batch[]): number {
  let events = 0
  for (const batch of batches) events += batch.events.length
  return events
}

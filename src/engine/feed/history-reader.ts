/**
 * Reads etcd's state and history for one feed: lists the state into the sink, and compares etcd's history with the
 * delivered one. The delivered history is identified by the cluster id and by its fingerprint.
 */
import type { Revision } from '../model/revision.js'
import { orAborted } from '../../support/deadline.js'
import { failSpan, inSpan, type Span } from '../../support/tracing.js'
import { UpstreamError, type UpstreamStatus } from '../upstream/upstream.js'
import { addInTurns } from './add-in-turns.js'
import type { FeedOptions } from './feed-options.js'
import type { Replacement, ReplaceReason } from '../model/feed-sink.js'
import { type FeedEffect, type FeedInput, type FeedPlace, REPLAY_REVISIONS } from './feed-state.js'
import { HistoryFingerprint } from './history-fingerprint.js'
import { learnCompactRevision, planList } from './list-plan.js'
import { READ_TIMEOUT_MS, readInTime, readPages } from './read-pages.js'
import type { RefusalTime } from './refusal-time.js'
import { canBridge, compareHistory } from './same-history.js'
import { FIRST_KEYS, type ListSlot } from './shared-lists.js'
import { errorMessage } from '../../support/error-message.js'

export interface FeedResume {
  readonly place: FeedPlace
  readonly clusterId: string
  /** The fingerprint of everything delivered up to `place`. */
  readonly fingerprint: HistoryFingerprint
}

export class HistoryReader {
  readonly #options: FeedOptions
  readonly #slot: ListSlot
  readonly #refusal: RefusalTime
  readonly #send: (input: FeedInput) => void
  /** The id of the cluster that was last compared or listed; null before the first list or comparison. */
  clusterId: string | null = null
  /** As etcd reported when it was last compared or listed; see `UpstreamStatus`. */
  trustsProgress = false
  /** Whether reading history is expensive, as the source reported at the same time. */
  #isHistoryDear = false
  /** As in `UpstreamStatus`, as the source reported it at the same time. */
  keepsEvents = false
  /** The fingerprint of everything delivered. */
  fingerprint = new HistoryFingerprint()

  constructor(options: FeedOptions, slot: ListSlot, refusal: RefusalTime, send: (input: FeedInput) => void) {
    this.#options = options
    this.#slot = slot
    this.#refusal = refusal
    this.#send = send
  }

  resume({ clusterId, fingerprint }: FeedResume): void {
    this.clusterId = clusterId
    this.fingerprint = fingerprint
  }

  /**
   * As in `FeedRules`. There is no limit for a source for which reading history is expensive: it replays events from
   * memory, or refuses to.
   */
  get replayRevisions(): number {
    return this.#isHistoryDear ? Number.POSITIVE_INFINITY : REPLAY_REVISIONS
  }

  /**
   * Lists the state and sends `listed`, or an input that says how the list failed. Sends nothing if the signal has
   * aborted.
   */
  list(effect: Extract<FeedEffect, { kind: 'list' }>, signal: AbortSignal): Promise<void> {
    const name = effect.reason === 'initial' ? 'first list' : 'relist'
    const attributes = { 'distributary.resource': this.#options.name, 'distributary.reason': effect.reason }
    // The watch is opened in the same asynchronous context and outlives the span. No span of the watch may become a
    // child of this one.
    const options = { kind: 'internal', attributes, isRoot: true } as const
    return inSpan(name, options, (span) => this.#list(effect, signal, span))
  }

  async #list(effect: Extract<FeedEffect, { kind: 'list' }>, signal: AbortSignal, span: Span): Promise<void> {
    const { name, upstream, prefix, sink, clock, logger, metrics, lists } = this.#options
    let replacement: Replacement | null = null
    let revision: Revision | null = null
    const ended = lists.begin()
    let giveBack = noop
    try {
      giveBack = await lists.firstPages.acquire(signal, () => sink.isAwaited === true)
      const { status, now } = await this.#readPresent(signal)
      const isSameCluster = this.clusterId === null || this.clusterId === status.clusterId
      let reason: ReplaceReason | null = null
      // The current state is read without a revision, because a source over HTTP can read it more cheaply that way.
      let at: Revision | null = null
      if (now === null) await this.#slot.take(signal)
      else {
        const floor = maxOf(effect.floor, lists.floor)
        const { backfillRevisions } = this.#options
        const plan = planList({ ...effect, floor, now, backfillRevisions, isSameCluster })
        revision = plan.revision
        reason = await this.#confirm(effect, plan.reason, revision, signal)
        if (plan.revision !== now) at = plan.revision
      }

      const fingerprint = new HistoryFingerprint()
      let isContinued = false
      const beforeMore = (): Promise<void> => this.#slot.take(signal)
      const first = now === null ? {} : { firstKeys: FIRST_KEYS, beforeMore }
      for await (const page of readPages({
        upstream,
        prefix,
        revision: at,
        willWatch: true,
        clock,
        signal,
        ...first,
      })) {
        giveBack()
        revision = page.revision
        isContinued = page.isContinued === true
        reason ??= planList({ ...effect, now: revision, backfillRevisions: 0, isSameCluster }).reason
        const state = (replacement ??= sink.replace(revision, reason))
        await addInTurns(page.keyValues, (part) => state.add(part), signal)
        fingerprint.listed(page.keyValues)
      }
      signal.throwIfAborted()
      if (reason === null || revision === null) throw new UpstreamError('protocol', 'the list ended without a page')
      span.setAttributes({ 'distributary.reason': reason, 'distributary.resource_version': revision })
      // Learn the status before the commit, because a sink may pass the state on together with its origin.
      this.#learned(status)
      replacement?.commit()
      replacement = null
      this.fingerprint = fingerprint
      if (reason !== 'initial') {
        metrics.relisted(reason)
        logger.info({ resource: name, reason, revision }, 'relisted')
      }
      ended()
      if (at !== null) {
        this.#slot.release()
        await lists.allEnded(signal)
      }
      // The source has allowed the list, so an earlier refusal has not lasted.
      this.#refusal.ended()
      this.#send({ kind: 'listed', revision, isPresent: at === null, isContinued })
    } catch (cause) {
      replacement?.abort()
      const error = asUpstreamError(cause, this.#options)
      failSpan(span, error.message)
      if (signal.aborted) return
      metrics.initialisationFailed(error.code)
      if (error.code !== 'compacted') {
        const { code, message } = error
        return this.#send({ kind: 'list-failed', code, message, refusedMs: this.#refusal.failed(code) })
      }
      metrics.compacted()
      const compactRevision = error.compactRevision ?? (await this.#learnFloor(revision, signal))
      if (!signal.aborted) this.#send({ kind: 'list-compacted', compactRevision })
    } finally {
      giveBack()
      ended()
    }
  }

  /** @returns `now` of null if reading a past state is expensive, so that the list should read the current one. */
  async #readPresent(signal: AbortSignal): Promise<{ status: UpstreamStatus; now: Revision | null }> {
    const { upstream, prefix, clock } = this.#options
    // This prefix is read, because our etcd user may not be allowed to read anything else.
    const readNow = async (): Promise<Revision> => {
      const limits = { limit: 1, keysOnly: true }
      return (await readInTime(clock, signal, (inner) => upstream.read({ prefix, ...limits, signal: inner })))
        .currentRevision
    }
    const readStatus = (): Promise<UpstreamStatus> => readInTime(clock, signal, (inner) => upstream.status(inner))
    if (upstream.areKeysCheap === true) {
      const [status, now] = await Promise.all([readStatus(), readNow()])
      return { status, now: status.isHistoryDear === true ? null : now }
    }
    const status = await readStatus()
    return { status, now: status.isHistoryDear === true ? null : await readNow() }
  }

  /**
   * Returns the reason for the list. A gap may be bridged by events only within one history, so `coalesce` becomes
   * `history-changed` if the histories differ.
   */
  async #confirm(
    effect: Extract<FeedEffect, { kind: 'list' }>,
    reason: ReplaceReason,
    revision: Revision,
    signal: AbortSignal,
  ): Promise<ReplaceReason> {
    const { place } = effect
    if (reason !== 'coalesce' || place === null) return reason
    return (await canBridge(this.#comparison(place, signal), revision)) ? reason : 'history-changed'
  }

  async #learnFloor(revision: Revision | null, signal: AbortSignal): Promise<Revision | null> {
    const { upstream, prefix, clock, lists } = this.#options
    if (revision === null) return null
    // The attempt is shared and short, so it is not cancelled when this feed stops.
    const { signal: never } = new AbortController()
    const learning = lists.learnFloor(() =>
      learnCompactRevision(upstream, { prefix, revision, clock, timeoutMs: READ_TIMEOUT_MS, signal: never }),
    )
    return await orAborted(learning, signal)
  }

  /** Compares etcd's history with ours and sends the verdict. Sends nothing if the signal has aborted. */
  async verify(effect: Extract<FeedEffect, { kind: 'verify' }>, signal: AbortSignal): Promise<void> {
    const { place, startRevision } = effect
    try {
      if (this.#isHistoryDear || startRevision > place.settled + 1) await this.#slot.take(signal)
      const verdict = await compareHistory({ ...this.#comparison(place, signal), startRevision })
      if (signal.aborted) return
      if (verdict.kind === 'same') {
        this.#learned(verdict.status)
        this.#send({ kind: 'same-history', now: verdict.now })
      } else if (verdict.kind === 'other') {
        this.#options.logger.error({ resource: this.#options.name, why: verdict.why }, 'history changed')
        this.#send({ kind: 'other-history', why: verdict.why })
      } else {
        this.#options.metrics.compacted()
        this.#send({ kind: 'verify-compacted' })
      }
    } catch (cause) {
      const { code, message } = asUpstreamError(cause, this.#options)
      if (signal.aborted) return
      const refusedMs = this.#refusal.failed(code)
      this.#send({ kind: 'verify-failed', code, message, refusedMs, at: this.#options.clock.monotonic() })
    }
  }

  #comparison(place: { readonly settled: Revision; readonly position: Revision }, signal: AbortSignal) {
    const { upstream, prefix, clock } = this.#options
    const clusterId = this.clusterId ?? ''
    const isHistoryDear = this.#isHistoryDear
    return { upstream, prefix, clusterId, isHistoryDear, place, fingerprint: this.fingerprint, clock, signal }
  }

  #learned(status: UpstreamStatus): void {
    this.clusterId = status.clusterId
    this.trustsProgress = status.trustsProgress
    this.#isHistoryDear = status.isHistoryDear === true
    this.keepsEvents = status.keepsEvents === true
  }
}

/**
 * Converts any caught value into an UpstreamError. An error that does not come from the upstream is a bug. It is
 * logged, and the feed recovers as from any other error.
 */
export function asUpstreamError(cause: unknown, { logger, name }: Pick<FeedOptions, 'logger' | 'name'>): UpstreamError {
  if (cause instanceof UpstreamError) return cause
  logger.error({ resource: name, err: cause }, 'unexpected error in a feed')
  return new UpstreamError('protocol', errorMessage(cause), { cause })
}

function maxOf(one: Revision | null, other: Revision | null): Revision | null {
  return one === null || other === null ? (one ?? other) : one > other ? one : other
}

function noop(): void {}

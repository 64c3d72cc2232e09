/**
 * The loop list → watch → (gap) → relist of one resource as a pure function. This file decides, and `feed.ts` acts.
 *
 *     idle ─start─▶ listing ─listed─▶ verifying ─same history─▶ catching-up ─target reached─▶ watching
 *                    │  ▲  ▲             │  ▲                        │                         │
 *        cannot be   │  │  └─────────────┴──│── compacted, or another history ────────────────┤
 *          listed    ▼  │                   │                        │                         │
 *                 refused                   └─ timer ── backing-off ◀┴───────── lost ──────────┘
 *
 * A feed whose watch is refused for lack of permission, again and again, is `refused` as well. After that state's timer
 * it watches again, from where it was.
 *
 * Two revisions say how far the sink has got, and they are kept apart on purpose. Everything at or before `settled` was
 * delivered as a list or as events. `position` may be higher: etcd has reported progress up to it, which means that
 * there are no events between `settled` and `position`. An event at or below `settled` is therefore a repetition. An
 * event between the two contradicts etcd's report, so either the progress came too early or the history is another one.
 *
 * If the watch continues the same response from which the state was read, the history need not be verified, and the
 * state goes from `listing` straight to `watching`.
 *
 * Upstream failures are states here, never exceptions. Inputs from cancelled effects never arrive, because `feed.ts`
 * drops them. An input that has no meaning in a state does not change the state.
 */
import type { Batch } from '../model/event.js'
import { nextRevision, type Revision } from '../model/revision.js'
import type { UpstreamErrorCode } from '../upstream/upstream.js'
import type { ReplaceReason } from '../model/feed-sink.js'

/**
 * A connection that lasted this long was healthy, so the back-off after its failure starts again with the shortest
 * wait.
 */
const HEALTHY_MS = 10_000

/**
 * The most revisions that a resumed watch of etcd may go back. etcd reads every revision of every key in that range, so
 * a longer range would cost more than listing the keys of an idle prefix.
 */
export const REPLAY_REVISIONS = 1_000

/** After this many lists in a row that a compaction has interrupted, the next list waits for a back-off. */
const LIST_RESTARTS = 5

/**
 * A refusal is lasting after this time. The watches of a sink with a state then end, so the time is longer than it takes
 * to replace a role or to restart an authorizer.
 */
const BELIEVED_MS = 10_000

/** How far the sink has got: `settled <= position`. */
export interface FeedPlace {
  readonly settled: Revision
  readonly position: Revision
}

/** Why the history is being verified. After a list of the current state, the watch has nothing to catch up with. */
export type Cause = 'list' | 'list-of-present' | 'loss'

export type FeedState =
  /** Not started, or stopped. */
  | { readonly kind: 'idle' }
  /** The feed reads every page of a state. */
  | {
      readonly kind: 'listing'
      readonly reason: ReplaceReason
      /** The first revision that can be read, if a compaction has reported one. */
      readonly floor: Revision | null
      /** How many times in a row a compaction has restarted this list. */
      readonly restarts: number
      readonly attempt: number
      readonly place: FeedPlace | null
    }
  /** The watch replays history. Reads wait until it has reached `target`. */
  | {
      readonly kind: 'catching-up'
      readonly place: FeedPlace
      readonly target: Revision
      /** Monotonic milliseconds at which etcd accepted the watch. */
      readonly openedAt: number | null
      readonly attempt: number
    }
  | {
      readonly kind: 'watching'
      readonly place: FeedPlace
      readonly openedAt: number | null
      readonly attempt: number
    }
  /**
   * The watch is being opened. Its events are held until etcd's history is known to be the same as before. This is also
   * necessary after a list, because etcd may have been restored between the list and the watch.
   */
  | {
      readonly kind: 'verifying'
      readonly after: Cause
      readonly place: FeedPlace
      /**
       * Where the watch starts: at `settled + 1`, or at `position + 1` if `settled + 1` is too far back or compacted.
       */
      readonly startRevision: Revision
      readonly openedAt: number | null
      readonly attempt: number
    }
  | {
      readonly kind: 'backing-off'
      readonly attempt: number
      readonly why: string
      readonly place: FeedPlace | null
      /** The list with which the next attempt begins; null if it resumes the watch. */
      readonly relist: ListPlan | null
    }
  /** etcd responds, but refuses this prefix, or fails to list it. */
  | {
      readonly kind: 'refused'
      readonly attempt: number
      readonly why: string
      readonly place: FeedPlace | null
      /** As in `backing-off`. */
      readonly relist: ListPlan | null
    }

/** A list to be made. The properties are as in `listing`. */
interface ListPlan {
  readonly reason: ReplaceReason
  readonly floor: Revision | null
}

/** The upstream refused or failed an attempt. */
interface Failure {
  readonly code: UpstreamErrorCode
  readonly message: string
  /** For how long it has refused every attempt (`refusal-time.ts`); null if it failed for another reason. */
  readonly refusedMs: number | null
}

export type FeedInput =
  /** If `place` is given, an earlier feed of the same history has already brought the sink to that place. */
  | { readonly kind: 'start'; readonly place?: FeedPlace }
  | { readonly kind: 'stop' }
  /** The wait of `backing-off` or `refused` is over. */
  | { readonly kind: 'timer' }
  /** etcd is reachable again after an outage. */
  | { readonly kind: 'wake' }
  /** etcd has answered with a revision below ours, so an older copy of it may have been restored. */
  | { readonly kind: 'doubted'; readonly why: string }
  /**
   * The state at `revision` is committed. `isPresent`: the state was read without a revision, so etcd had nothing newer
   * at that time. `isContinued`: the watch continues the response that contained the state, so there is nothing to
   * verify.
   */
  | {
      readonly kind: 'listed'
      readonly revision: Revision
      readonly isPresent: boolean
      readonly isContinued: boolean
    }
  | { readonly kind: 'list-compacted'; readonly compactRevision: Revision | null }
  | (Failure & { readonly kind: 'list-failed' })
  | { readonly kind: 'opened'; readonly at: number }
  /** The batches are screened: ascending, not empty, all above `position`. In `verifying` they are not screened yet. */
  | { readonly kind: 'batches'; readonly batches: readonly Batch[]; readonly last: Revision }
  | { readonly kind: 'progress'; readonly revision: Revision }
  /**
   * The delivered state equals etcd's state at some revision at or after the target, although etcd reported no
   * progress.
   */
  | { readonly kind: 'state-equal' }
  /** An event arrived whose `revision` is at or below `position` although it is not a repetition. */
  | { readonly kind: 'contradicted'; readonly revision: Revision; readonly at: number }
  /** `startRevision`: the start revision of the watch that ended. */
  | {
      readonly kind: 'watch-compacted'
      readonly startRevision: Revision
      readonly compactRevision: Revision
      readonly at: number
    }
  /** The events with which the watch must catch up exceed the largest message, so they are requested in parts. */
  | { readonly kind: 'watch-too-large'; readonly message: string }
  | (Failure & { readonly kind: 'watch-failed'; readonly at: number })
  /** The member that served the watch is unusable, and the upstream has switched to one that responds. */
  | { readonly kind: 'watch-left'; readonly why: string }
  | { readonly kind: 'same-history'; readonly now: Revision }
  | { readonly kind: 'other-history'; readonly why: string }
  | { readonly kind: 'verify-compacted' }
  | (Failure & { readonly kind: 'verify-failed'; readonly at: number })
  /** A consistency check found that the delivered state cannot be trusted. */
  | { readonly kind: 'rebuild'; readonly why: string }

export type FeedEffect =
  | {
      readonly kind: 'list'
      readonly reason: ReplaceReason
      readonly floor: Revision | null
      readonly restarts: number
      readonly place: FeedPlace | null
    }
  /** `inParts` as in `UpstreamWatchOptions`. */
  | { readonly kind: 'watch'; readonly startRevision: Revision; readonly inParts: boolean }
  | { readonly kind: 'close-watch' }
  | { readonly kind: 'verify'; readonly after: Cause; readonly place: FeedPlace; readonly startRevision: Revision }
  /** Seek proof that the replay has reached `target`, as described in `feed.ts`. */
  | { readonly kind: 'seek'; readonly target: Revision }
  | { readonly kind: 'set-timer'; readonly attempt: number; readonly pace: 'backoff' | 'slow' }
  | { readonly kind: 'apply'; readonly batches: readonly Batch[] }
  | { readonly kind: 'hold'; readonly batches: readonly Batch[] }
  | { readonly kind: 'release-held' }
  | { readonly kind: 'progress'; readonly revision: Revision }
  | { readonly kind: 'synced' }
  | { readonly kind: 'disconnected'; readonly reason: string }
  /** `isLasting` as in `FeedSink.refused`. */
  | { readonly kind: 'refused'; readonly reason: string; readonly isLasting: boolean }
  /** Cancel everything that runs: list, watch, timer. */
  | { readonly kind: 'cancel' }

export interface Transition {
  readonly state: FeedState
  readonly effects: readonly FeedEffect[]
}

export interface FeedRules {
  readonly onGap: 'expire' | 'coalesce'
  /**
   * The most revisions that a resumed watch may go back. It starts after `settled`, if possible, to see that there are
   * no events between `settled` and `position`.
   */
  readonly replayRevisions: number
}

const NONE: readonly FeedEffect[] = []

export function next(state: FeedState, input: FeedInput, rules: FeedRules): Transition {
  if (input.kind === 'stop') return state.kind === 'idle' ? stay(state) : { state: IDLE, effects: [{ kind: 'cancel' }] }
  switch (state.kind) {
    case 'idle':
      if (input.kind !== 'start') return stay(state)
      return input.place === undefined ? list(FIRST_LIST, null, 0) : verify('loss', input.place, 0, rules)
    case 'listing':
      return fromListing(state, input, rules)
    case 'catching-up':
    case 'watching':
      return fromOpen(state, input, rules)
    case 'verifying':
      return fromVerifying(state, input, rules)
    case 'backing-off':
      if (input.kind === 'rebuild') return stay({ ...state, relist: listPlan('history-changed', null) })
      if (input.kind !== 'timer' && input.kind !== 'wake' && input.kind !== 'doubted') return stay(state)
      return retry(state, rules)
    case 'refused':
      if (input.kind === 'rebuild' && state.place !== null) {
        return stay({ ...state, relist: listPlan('history-changed', null) })
      }
      return input.kind === 'timer' ? retry(state, rules) : stay(state)
    default:
      return state satisfies never
  }
}

function retry(
  { relist, place, attempt }: Extract<FeedState, { kind: 'backing-off' | 'refused' }>,
  rules: FeedRules,
): Transition {
  if (relist !== null) return list(relist, place, attempt)
  return place === null ? list(FIRST_LIST, null, attempt) : verify('loss', place, attempt, rules)
}

export const IDLE: FeedState = { kind: 'idle' }

function fromListing(state: Extract<FeedState, { kind: 'listing' }>, input: FeedInput, rules: FeedRules): Transition {
  switch (input.kind) {
    case 'listed': {
      const place: FeedPlace = { settled: input.revision, position: input.revision }
      if (input.isContinued) {
        return {
          state: { kind: 'watching', place, openedAt: null, attempt: state.attempt },
          effects: [{ kind: 'watch', startRevision: nextRevision(place.position), inParts: false }, { kind: 'synced' }],
        }
      }
      return verify(input.isPresent ? 'list-of-present' : 'list', place, state.attempt, rules)
    }
    case 'list-compacted': {
      const floor = input.compactRevision ?? state.floor
      const restarts = state.restarts + 1
      if (restarts < LIST_RESTARTS) {
        const { reason, place, attempt } = state
        return {
          state: { kind: 'listing', reason, floor, restarts, attempt, place },
          effects: [{ kind: 'list', reason, floor, restarts, place }],
        }
      }
      const why = `etcd compacted its history during ${restarts} lists in a row`
      return backOff(state.place, state.attempt + 1, why, { reason: state.reason, floor }, NONE)
    }
    case 'list-failed': {
      const attempt = state.attempt + 1
      const { reason, floor, place } = state
      const { code, message } = input
      const isBelieved = isLasting(input)
      if (!isRefusal(code) && !(isBelieved && place !== null)) {
        return backOff(place, attempt, `cannot list: ${message}`, { reason, floor }, NONE)
      }
      const why = `${code}: ${message}`
      const relisted = { kind: 'refused', attempt, why, place, relist: listPlan(reason, null) } as const
      // Nothing waits for a first state that is refused, but the sink may have one from another feed.
      if (place === null || isBelieved) return refused(relisted, isBelieved, NONE)
      return { state: relisted, effects: [{ kind: 'disconnected', reason: why }, slowTimer(attempt)] }
    }
    default:
      return stay(state)
  }
}

function fromOpen(
  state: Extract<FeedState, { kind: 'catching-up' | 'watching' }>,
  input: FeedInput,
  rules: FeedRules,
): Transition {
  switch (input.kind) {
    case 'opened':
      return stay({ ...state, openedAt: input.at })
    case 'batches':
      return moved(state, { settled: input.last, position: input.last }, { kind: 'apply', batches: input.batches })
    case 'progress': {
      if (input.revision <= state.place.position) return stay(state)
      const place: FeedPlace = { settled: state.place.settled, position: input.revision }
      return moved(state, place, { kind: 'progress', revision: input.revision })
    }
    case 'state-equal': {
      if (state.kind === 'watching') return stay(state)
      const { place, openedAt, attempt } = state
      return { state: { kind: 'watching', place, openedAt, attempt }, effects: [{ kind: 'synced' }] }
    }
    case 'contradicted': {
      const why = `etcd sent an event at revision ${input.revision} after it had reported progress past that revision`
      return relist(state.place, attemptAfter(state, input.at), listPlan('history-changed', null), why)
    }
    case 'rebuild':
      return relist(state.place, 1, listPlan('history-changed', null), input.why)
    case 'doubted':
    case 'watch-left':
      return verifyAgain('loss', state.place, state.attempt, input.why, rules)
    case 'watch-compacted': {
      const { place, attempt } = state
      if (!isBehindUs(place, input)) return gap(place, attemptAfter(state, input.at), input.compactRevision, rules)
      const why = `etcd has compacted its history up to revision ${input.compactRevision}`
      return disconnected(why, verifyFrom(nextRevision(place.position), 'loss', place, attempt))
    }
    case 'watch-too-large':
      return verifyAgain('loss', state.place, state.attempt, input.message, rules, true)
    case 'watch-failed':
      return lost(state.place, attemptAfter(state, input.at), input)
    default:
      return stay(state)
  }
}

function fromVerifying(
  state: Extract<FeedState, { kind: 'verifying' }>,
  input: FeedInput,
  rules: FeedRules,
): Transition {
  const { after, place, startRevision, openedAt, attempt } = state
  switch (input.kind) {
    case 'opened':
      return {
        state: { kind: 'verifying', after, place, startRevision, openedAt: input.at, attempt },
        effects: [{ kind: 'verify', after, place, startRevision }],
      }
    case 'batches':
      return { state, effects: [{ kind: 'hold', batches: input.batches }] }
    case 'same-history':
      return follow(place, after === 'list-of-present' ? place.position : input.now, openedAt, attempt, [
        { kind: 'release-held' },
      ])
    case 'other-history':
    case 'rebuild':
      return relist(place, 1, listPlan('history-changed', null), input.why)
    case 'contradicted':
      return relist(
        place,
        attemptAfter(state, input.at),
        listPlan('history-changed', null),
        `etcd sent an event at revision ${input.revision} after it had reported progress past that revision`,
      )
    case 'verify-compacted':
      return gap(place, 1, null, rules)
    case 'watch-compacted': {
      if (isBehindUs(place, input)) {
        const { state, effects } = verifyFrom(nextRevision(place.position), after, place, attempt)
        return { state, effects: [{ kind: 'close-watch' }, ...effects] }
      }
      // After a loss, the feed has already waited for the back-off, so clients do not wait again after a long outage.
      const isWaited = after === 'loss'
      const attempts = isWaited ? attempt : attemptAfter(state, input.at)
      return gap(place, attempts, input.compactRevision, rules, isWaited)
    }
    case 'watch-too-large':
      return verifyAgain(after, place, attempt, input.message, rules, true)
    case 'watch-left':
      return verifyAgain(after, place, attempt, input.why, rules)
    case 'watch-failed':
    case 'verify-failed':
      return lost(place, attemptAfter(state, input.at), input)
    default:
      return stay(state)
  }
}

function stay(state: FeedState): Transition {
  return { state, effects: NONE }
}

function listPlan(reason: ReplaceReason, floor: Revision | null): ListPlan {
  return { reason, floor }
}

const FIRST_LIST = listPlan('initial', null)

function list({ reason, floor }: ListPlan, place: FeedPlace | null, attempt: number): Transition {
  return {
    state: { kind: 'listing', reason, floor, restarts: 0, attempt, place },
    effects: [{ kind: 'list', reason, floor, restarts: 0, place }],
  }
}

function verify(
  after: Cause,
  place: FeedPlace,
  attempt: number,
  { replayRevisions }: FeedRules,
  inParts = false,
): Transition {
  const isNear = place.position - place.settled <= replayRevisions
  return verifyFrom(nextRevision(isNear ? place.settled : place.position), after, place, attempt, inParts)
}

function verifyFrom(
  startRevision: Revision,
  after: Cause,
  place: FeedPlace,
  attempt: number,
  inParts = false,
): Transition {
  return {
    state: { kind: 'verifying', after, place, startRevision, openedAt: null, attempt },
    effects: [{ kind: 'watch', startRevision, inParts }],
  }
}

/**
 * Verifies again with another watch, without a back-off, because this input does not suggest that the next attempt will
 * fail.
 */
function verifyAgain(
  after: Cause,
  place: FeedPlace,
  attempt: number,
  why: string,
  rules: FeedRules,
  inParts = false,
): Transition {
  return disconnected(why, verify(after, place, attempt, rules, inParts))
}

function disconnected(reason: string, { state, effects }: Transition): Transition {
  return { state, effects: [{ kind: 'close-watch' }, { kind: 'disconnected', reason }, ...effects] }
}

/**
 * Whether the compaction has removed only events that we already have, and a watch from our position has not been tried
 * yet. etcd accepts a watch that starts before a compaction and ends it only later, perhaps long after the comparison
 * that began with it.
 */
function isBehindUs(
  { position }: FeedPlace,
  { compactRevision, startRevision }: Extract<FeedInput, { kind: 'watch-compacted' }>,
): boolean {
  const resume = nextRevision(position)
  return compactRevision <= resume && startRevision < resume
}

/** The history is verified. If `target` is ahead of our position, reads wait until the watch reaches it. */
function follow(
  place: FeedPlace,
  target: Revision,
  openedAt: number | null,
  attempt: number,
  then: readonly FeedEffect[],
): Transition {
  if (place.position >= target) {
    return { state: { kind: 'watching', place, openedAt, attempt }, effects: [{ kind: 'synced' }, ...then] }
  }
  return {
    state: { kind: 'catching-up', place, target, openedAt, attempt },
    effects: [{ kind: 'seek', target }, ...then],
  }
}

function moved(
  state: Extract<FeedState, { kind: 'catching-up' | 'watching' }>,
  place: FeedPlace,
  effect: FeedEffect,
): Transition {
  const { openedAt, attempt } = state
  if (state.kind === 'watching') return { state: { kind: 'watching', place, openedAt, attempt }, effects: [effect] }
  if (place.position < state.target) return { state: { ...state, place }, effects: [effect] }
  return { state: { kind: 'watching', place, openedAt, attempt }, effects: [effect, { kind: 'synced' }] }
}

function gap(
  place: FeedPlace,
  attempt: number,
  compactRevision: Revision | null,
  rules: FeedRules,
  isWaited = false,
): Transition {
  const why = `etcd has compacted the events after revision ${place.position}`
  return relist(place, attempt, listPlan(gapReason(rules), compactRevision), why, isWaited)
}

function gapReason({ onGap }: FeedRules): ReplaceReason {
  return onGap === 'coalesce' ? 'coalesce' : 'gap'
}

/**
 * The first relist starts at once. If lists are needed again and again, they wait for a back-off like any other
 * failure, unless the feed has just waited.
 */
function relist(place: FeedPlace, attempt: number, plan: ListPlan, why: string, isWaited = false): Transition {
  const close: FeedEffect = { kind: 'close-watch' }
  if (attempt > 1 && !isWaited) return backOff(place, attempt, why, plan, [close])
  const { state, effects } = list(plan, place, attempt)
  return { state, effects: [close, { kind: 'disconnected', reason: why }, ...effects] }
}

function backOff(
  place: FeedPlace | null,
  attempt: number,
  why: string,
  then: ListPlan | null,
  before: readonly FeedEffect[],
): Transition {
  return {
    state: { kind: 'backing-off', attempt, why, place, relist: then },
    effects: [...before, { kind: 'disconnected', reason: why }, { kind: 'set-timer', attempt, pace: 'backoff' }],
  }
}

/** The watch is resumed after a back-off or, if the upstream keeps refusing it, after a longer wait. */
function lost(place: FeedPlace, attempt: number, failure: Failure): Transition {
  const { code, message } = failure
  const close: readonly FeedEffect[] = [{ kind: 'close-watch' }]
  if (!isLasting(failure)) return backOff(place, attempt, message, null, close)
  return refused({ kind: 'refused', attempt, why: `${code}: ${message}`, place, relist: null }, true, close)
}

function refused(
  state: Extract<FeedState, { kind: 'refused' }>,
  isLasting: boolean,
  before: readonly FeedEffect[],
): Transition {
  return { state, effects: [...before, { kind: 'refused', reason: state.why, isLasting }, slowTimer(state.attempt)] }
}

function slowTimer(attempt: number): FeedEffect {
  return { kind: 'set-timer', attempt, pace: 'slow' }
}

function isLasting({ refusedMs }: Failure): boolean {
  return refusedMs !== null && refusedMs >= BELIEVED_MS
}

function attemptAfter(state: { readonly openedAt: number | null; readonly attempt: number }, at: number): number {
  return state.openedAt !== null && at - state.openedAt >= HEALTHY_MS ? 1 : state.attempt + 1
}

/**
 * Whether retrying soon would be useless, because a permission, a limit or a version has to be changed first. Rejected
 * credentials are not among these codes: they affect every resource, and their files are read again when they change.
 */
function isRefusal(code: UpstreamErrorCode): boolean {
  return code === 'permission-denied' || code === 'too-large' || code === 'protocol'
}

/**
 * A client's list and watch as a pure function. This file decides; `reflector.ts` acts.
 *
 *     idle ─start─▶ streaming ─initial events end───────────────▶ watching ──┐ ended: continue from the last safe point
 *                    │   ▲ └─ the server cannot ─▶ listing ─listed─▶ ▲  ▲ └──┘
 *                    │   │                          │  ▲             │  │
 *                    │   └────────── timer ─────────┼──┴─────────────┘  │ 410: list or stream again
 *                    └────────────▶ backing-off ◀───┴───────────────────┘
 *
 * `streaming` is a WatchList: one response delivers the state as events and then the later changes. It is tried first,
 * and given up for good if the server does not support it (older servers silently ignore the parameters, and would
 * never send the closing bookmark).
 *
 * The resourceVersion of a request follows client-go. It is '0' or absent at first, and then the last known one, so
 * that a restart never goes back in time. It is '' (most recent) after the server said that it no longer has, or does
 * not yet have, the known one. Only a watch that lasted for HEALTHY_MS clears the count of attempts, so a server that
 * answers every list and then ends each watch at once gets fewer and fewer requests. A failure is part of the state,
 * never an exception. Inputs from an abandoned effect never arrive.
 */
import type { FailureKind } from './watch-failure.js'

/** A watch that lasted this long was healthy. */
const HEALTHY_MS = 10_000

/**
 * If a server sends bookmarks, the resource is listed again after this many consecutive watches that delivered nothing.
 */
const SILENT_WATCHES = 2

/** What the reflector has learned about the server, kept from one state to the next. */
export interface Known {
  /** The last resourceVersion that was committed or seen; null before the first. */
  readonly position: string | null
  /** A resourceVersion at or before `position` where a watch can start without splitting a revision. */
  readonly safePosition: string | null
  /** Whether the server no longer has `position`, or does not have it yet. The most recent state is then requested. */
  readonly isUnavailable: boolean
  readonly canStream: boolean
  /** Whether the server has ever sent a bookmark; otherwise silence means nothing. */
  readonly sendsBookmarks: boolean
}

export type ReflectorState =
  | { readonly kind: 'idle'; readonly known: Known }
  | { readonly kind: 'streaming'; readonly known: Known; readonly attempt: number }
  | { readonly kind: 'listing'; readonly known: Known; readonly attempt: number }
  | {
      readonly kind: 'watching'
      readonly known: Known
      readonly attempt: number
      /** The monotonic time in milliseconds at which the response began; null before that. */
      readonly openedAt: number | null
      /** Whether this watch has delivered anything. */
      readonly hasSpoken: boolean
      /** The number of watches before this one that delivered nothing. */
      readonly silences: number
    }
  | {
      readonly kind: 'backing-off'
      readonly known: Known
      readonly attempt: number
      readonly next: 'start' | 'list' | 'watch'
      readonly why: string
    }

export interface Failure {
  readonly kind: FailureKind
  readonly message: string
  readonly retryAfterMs: number | null
}

export type ReflectorInput =
  | { readonly kind: 'start' }
  | { readonly kind: 'stop' }
  | { readonly kind: 'timer' }
  /** A whole state was delivered, by a list or by the end of the initial events. */
  | { readonly kind: 'committed'; readonly resourceVersion: string; readonly at: number }
  /** A list or stream failed before its end. */
  | { readonly kind: 'failed'; readonly failure: Failure }
  /** A streaming response began, but then nothing arrived, or something that only an older server sends. */
  | { readonly kind: 'cannot-stream'; readonly why: string }
  | { readonly kind: 'opened'; readonly at: number }
  /** Events or bookmarks were delivered. */
  | {
      readonly kind: 'progress'
      readonly position: string
      readonly safePosition: string
      readonly isBookmark: boolean
    }
  /** Without trouble, the server ended the watch properly, and the next one may start at `position`. */
  | { readonly kind: 'watch-ended'; readonly at: number; readonly failure: Failure | null }
  /** Nothing, not even a bookmark, arrived for longer than the interval between bookmarks. */
  | { readonly kind: 'silent'; readonly at: number }

export type ReflectorEffect =
  | { readonly kind: 'stream'; readonly resourceVersion: string }
  | { readonly kind: 'list'; readonly resourceVersion: string }
  | { readonly kind: 'watch'; readonly resourceVersion: string }
  /** `pace` means that the watch was useful, so the wait stays short. */
  | {
      readonly kind: 'wait'
      readonly attempt: number
      readonly pace: 'backoff' | 'pace'
      readonly retryAfterMs: number | null
    }
  /** Cancels everything that runs. */
  | { readonly kind: 'cancel' }

export interface ReflectorTransition {
  readonly state: ReflectorState
  readonly effects: readonly ReflectorEffect[]
}

/** @param options.after the resourceVersion to begin after, as if everything up to it had been delivered. */
export function idle(options: { readonly canStream: boolean; readonly after?: string }): ReflectorState {
  const position = options.after ?? null
  return {
    kind: 'idle',
    known: {
      position,
      safePosition: position,
      isUnavailable: false,
      canStream: options.canStream,
      sendsBookmarks: false,
    },
  }
}

export function next(state: ReflectorState, input: ReflectorInput): ReflectorTransition {
  if (input.kind === 'stop') {
    if (state.kind === 'idle') return stay(state)
    // A restart begins with a whole state, because the store may have changed in the meantime.
    return { state: { kind: 'idle', known: { ...state.known, safePosition: null } }, effects: [{ kind: 'cancel' }] }
  }
  switch (state.kind) {
    case 'idle':
      return input.kind === 'start' ? watch(state.known, 0, 0) : stay(state)
    case 'streaming':
      return fromStreaming(state, input)
    case 'listing':
      return fromListing(state, input)
    case 'watching':
      return fromWatching(state, input)
    case 'backing-off':
      if (input.kind !== 'timer') return stay(state)
      if (state.next === 'watch') return watch(state.known, state.attempt, 0)
      return state.next === 'list' ? list(state.known, state.attempt) : begin(state.known, state.attempt)
    default:
      return state satisfies never
  }
}

function fromStreaming(
  state: Extract<ReflectorState, { kind: 'streaming' }>,
  input: ReflectorInput,
): ReflectorTransition {
  const { known, attempt } = state
  switch (input.kind) {
    case 'committed': {
      // The closing event is a bookmark. The same response continues as the watch.
      const committed = { ...commit(known, input.resourceVersion), sendsBookmarks: true }
      return stay({
        kind: 'watching',
        known: committed,
        attempt,
        openedAt: input.at,
        hasSpoken: true,
        silences: 0,
      })
    }
    case 'cannot-stream':
      return list({ ...known, canStream: false }, attempt)
    case 'failed': {
      const { failure } = input
      if (failure.kind === 'unsupported') return list({ ...known, canStream: false }, attempt)
      const lost = retryUnavailable(known, failure)
      if (lost !== null) return begin(lost, attempt)
      // As in client-go, a failure that concerns only streaming must not prevent a plain list, but the list waits for
      // the back-off.
      const isItsOwn = failure.kind === 'server-error' || failure.kind === 'malformed'
      return backOff(known, attempt + 1, isItsOwn ? 'list' : 'start', failure)
    }
    default:
      return unexpected(state, input)
  }
}

function fromListing(state: Extract<ReflectorState, { kind: 'listing' }>, input: ReflectorInput): ReflectorTransition {
  const { known, attempt } = state
  switch (input.kind) {
    case 'committed':
      return watch(commit(known, input.resourceVersion), attempt, 0)
    case 'failed': {
      const lost = retryUnavailable(known, input.failure)
      if (lost !== null) return list(lost, attempt)
      return backOff(known, attempt + 1, 'start', input.failure)
    }
    default:
      return unexpected(state, input)
  }
}

function fromWatching(
  state: Extract<ReflectorState, { kind: 'watching' }>,
  input: ReflectorInput,
): ReflectorTransition {
  const { known, attempt } = state
  switch (input.kind) {
    case 'opened':
      return stay({ ...state, openedAt: input.at })
    case 'progress': {
      const { position, safePosition } = input
      const sendsBookmarks = known.sendsBookmarks || input.isBookmark
      return stay({
        ...state,
        known: { ...known, position, safePosition, sendsBookmarks },
        hasSpoken: true,
        silences: 0,
      })
    }
    case 'silent': {
      // The connection seemed open, so the peer may be gone. The next attempt starts at once.
      const silences = state.hasSpoken ? 0 : state.silences + 1
      if (known.sendsBookmarks && silences >= SILENT_WATCHES) return begin({ ...known, isUnavailable: true }, attempt)
      return watch(known, attempt, silences)
    }
    case 'watch-ended': {
      const isHealthy = state.openedAt !== null && input.at - state.openedAt >= HEALTHY_MS
      const spent = isHealthy ? 0 : attempt
      const { failure } = input
      if (failure === null) {
        const ended = { ...known, safePosition: known.position }
        if (isHealthy) return watch(ended, 0, state.hasSpoken ? 0 : state.silences)
        const pace = state.hasSpoken ? 'pace' : 'backoff'
        return wait({ known: ended, attempt: spent + 1, next: 'watch', why: 'the watch was short' }, pace, null)
      }
      return watchFailed({ ...known }, spent, failure)
    }
    default:
      return unexpected(state, input)
  }
}

/** If the input ends the job of a state that does not expect it, nothing else would start another one. */
function unexpected(
  state: Extract<ReflectorState, { kind: 'streaming' | 'listing' | 'watching' }>,
  input: ReflectorInput,
): ReflectorTransition {
  const { kind } = input
  if (kind !== 'failed' && kind !== 'cannot-stream' && kind !== 'watch-ended' && kind !== 'silent') return stay(state)
  const failure = 'failure' in input ? input.failure : null
  const unknown: Failure = { kind: 'malformed', message: `${kind} while ${state.kind}`, retryAfterMs: null }
  return backOff(state.known, state.attempt + 1, 'start', failure ?? unknown)
}

function watchFailed(known: Known, attempt: number, failure: Failure): ReflectorTransition {
  switch (failure.kind) {
    case 'expired': {
      // A list at the last resourceVersion means "not older than", which a server that expired it can still answer. The
      // first such list starts at once. If it expires each time, later lists wait.
      return attempt === 0 ? begin(known, 1) : backOff(known, attempt + 1, 'start', failure)
    }
    case 'too-large':
    case 'unsupported': {
      const lost = { ...known, isUnavailable: true }
      return attempt === 0 ? begin(lost, 1) : backOff(lost, attempt + 1, 'start', failure)
    }
    default:
      return backOff(known, attempt + 1, 'watch', failure)
  }
}

/** As in client-go, the most recent state is requested once; if the server rejects that too, the next request waits. */
function retryUnavailable(known: Known, { kind }: Failure): Known | null {
  if (kind !== 'expired' && kind !== 'too-large') return null
  return known.isUnavailable ? null : { ...known, isUnavailable: true }
}

function begin(known: Known, attempt: number): ReflectorTransition {
  if (!known.canStream) return list(known, attempt)
  const resourceVersion = known.isUnavailable ? '' : (known.position ?? '')
  return { state: { kind: 'streaming', known, attempt }, effects: [{ kind: 'stream', resourceVersion }] }
}

function list(known: Known, attempt: number): ReflectorTransition {
  const resourceVersion = known.isUnavailable ? '' : (known.position ?? '0')
  return { state: { kind: 'listing', known, attempt }, effects: [{ kind: 'list', resourceVersion }] }
}

function watch(known: Known, attempt: number, silences: number): ReflectorTransition {
  if (known.safePosition === null) return begin(known, attempt)
  return {
    state: { kind: 'watching', known, attempt, openedAt: null, hasSpoken: false, silences },
    effects: [{ kind: 'watch', resourceVersion: known.safePosition }],
  }
}

function commit(known: Known, resourceVersion: string): Known {
  return { ...known, position: resourceVersion, safePosition: resourceVersion, isUnavailable: false }
}

function backOff(
  known: Known,
  attempt: number,
  nextStep: 'start' | 'list' | 'watch',
  failure: Failure,
): ReflectorTransition {
  const why = `${failure.kind}: ${failure.message}`
  return wait({ known, attempt, next: nextStep, why }, 'backoff', failure.retryAfterMs)
}

function wait(
  what: Omit<Extract<ReflectorState, { kind: 'backing-off' }>, 'kind'>,
  pace: 'backoff' | 'pace',
  retryAfterMs: number | null,
): ReflectorTransition {
  return {
    state: { kind: 'backing-off', ...what },
    effects: [{ kind: 'wait', attempt: what.attempt, pace, retryAfterMs }],
  }
}

function stay(state: ReflectorState): ReflectorTransition {
  return { state, effects: [] }
}

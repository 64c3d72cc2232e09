/**
 * A candidate's knowledge of a lease, as a pure function of NATS's responses. This file decides; `election.ts` acts.
 *
 *     waiting ── taken ─▶ holding ─┐
 *        ▲                 │   ▲   │ renewed
 *        └──── lost ───────┘   └───┘
 *
 * A holder is certain of its lease for most of its length, counted from its request for the last renewal that was
 * granted. After that it is in doubt: another may have the lease.
 *
 * A lease has expired when its revision has not changed for its whole length *by the candidate's own clock*, so that
 * the clocks of two machines are never compared. Only a higher revision is a renewal: a NATS replica that lags, or has
 * lost its latest writes, answers with an older one. But NATS can lose an acknowledged write, and the next holder then
 * renews the lease below the revision seen before: there, each higher revision counts too.
 */
export type LeaseState =
  | { readonly kind: 'waiting'; readonly seen: Seen | null }
  /** @param askedMs when the request was sent that took or last renewed the lease. */
  | { readonly kind: 'holding'; readonly revision: number; readonly askedMs: number }

interface Seen {
  /** The highest revision of the lease, and when it was first read. */
  readonly top: SeenRevision
  /** The highest one below it that was read since. */
  readonly below: SeenRevision | null
  /** When the lease was last read. */
  readonly readMs: number
}

interface SeenRevision {
  readonly revision: number
  readonly sinceMs: number
}

export type LeaseInput =
  | { readonly kind: 'read'; readonly revision: number; readonly nowMs: number; readonly leaseMs: number }
  | { readonly kind: 'taken' | 'renewed'; readonly revision: number; readonly askedMs: number }
  /** NATS has lost a renewal that it had acknowledged, and has this revision of it. */
  | { readonly kind: 'set-back'; readonly revision: number }
  | { readonly kind: 'lost' }

export const NOT_SEEN: LeaseState = { kind: 'waiting', seen: null }
/**
 * The share of a lease after which NATS counts as silent: the holder could not renew it either, and gets the same time
 * again.
 */
const SILENT_SHARE = 3 / 4
/** The share of a lease for which its holder is certain. */
const CERTAIN_SHARE = 0.8
/** A lease in doubt is given up after this many leases: longer than an election in NATS takes. */
const DOUBTED_LEASES = 6

/** An input without a meaning in a state leaves the state as it is. */
export function nextLeaseState(state: LeaseState, input: LeaseInput): LeaseState {
  if (state.kind === 'waiting') {
    if (input.kind === 'read') return { kind: 'waiting', seen: nextSeen(state.seen, input) }
    return input.kind === 'taken' ? { kind: 'holding', revision: input.revision, askedMs: input.askedMs } : state
  }
  switch (input.kind) {
    case 'renewed':
      // Answers may arrive late.
      return input.revision > state.revision ? { ...state, revision: input.revision, askedMs: input.askedMs } : state
    case 'set-back':
      return { ...state, revision: Math.min(state.revision, input.revision) }
    case 'lost':
      return NOT_SEEN
    case 'read':
    case 'taken':
      return state
    default:
      return input satisfies never
  }
}

/** Whether nobody else can hold the lease now. */
export function isCertain(state: LeaseState, nowMs: number, leaseMs: number): boolean {
  return state.kind === 'holding' && nowMs - state.askedMs < leaseMs * CERTAIN_SHARE
}

/** Whether a lease has been in doubt for so long that it is given up. */
export function isHopeless(state: LeaseState, nowMs: number, leaseMs: number): boolean {
  return state.kind === 'holding' && nowMs - state.askedMs >= leaseMs * (CERTAIN_SHARE + DOUBTED_LEASES)
}

/** Whether the lease has not been renewed for its whole length, as far as a candidate can know. */
export function isExpired(state: LeaseState, nowMs: number, leaseMs: number): boolean {
  if (state.kind === 'holding' || state.seen === null) return false
  const { top, below } = state.seen
  return nowMs - Math.max(top.sinceMs, below?.sinceMs ?? 0) >= leaseMs
}

function nextSeen(seen: Seen | null, { revision, nowMs, leaseMs }: Extract<LeaseInput, { kind: 'read' }>): Seen {
  const now = { revision, sinceMs: nowMs }
  const wasSilent = seen !== null && nowMs - seen.readMs > leaseMs * SILENT_SHARE
  if (seen === null || revision > seen.top.revision || wasSilent)
    return { top: now, below: seen?.below ?? null, readMs: nowMs }
  const isHigherBelow = revision < seen.top.revision && revision > (seen.below?.revision ?? 0)
  return { ...seen, below: isHigherBelow ? now : seen.below, readMs: nowMs }
}

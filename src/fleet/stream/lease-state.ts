/**
 * A candidate's knowledge of a lease, as a pure function of NATS's responses. This file decides; `election.ts` acts.
 *
 *     waiting ── taken ─▶ holding ─┐
 *        ▲                 │   ▲   │ renewed
 *        └──── lost ───────┘   └───┘
 *
 * A holder is certain of its lease for most of the lease's length, measured from its request for the last granted
 * renewal. After that it is in doubt, because another candidate may have the lease.
 *
 * A lease has expired when its revision has not changed for its whole length *by the candidate's own clock*, so that
 * the clocks of two machines are never compared. Only a higher revision is a renewal, because a NATS replica that lags
 * or has lost its latest writes answers with an older revision. But if NATS loses an acknowledged write, the next
 * holder renews the lease below the highest revision seen so far. Below that revision, each increase is therefore a
 * renewal too.
 */
export type LeaseState =
  | { readonly kind: 'waiting'; readonly seen: Seen | null }
  /** @param requestedAtMs when the request that took or last renewed the lease was sent. */
  | { readonly kind: 'holding'; readonly revision: number; readonly requestedAtMs: number }

interface Seen {
  /** The highest revision of the lease, and when it was first read. */
  readonly top: SeenRevision
  /** The highest revision below `top` that was read since then; null if there is none. */
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
  | { readonly kind: 'taken' | 'renewed'; readonly revision: number; readonly requestedAtMs: number }
  /** NATS has lost a renewal that it had acknowledged, and the lease is back at this revision. */
  | { readonly kind: 'set-back'; readonly revision: number }
  | { readonly kind: 'lost' }

export const NOT_SEEN: LeaseState = { kind: 'waiting', seen: null }
/**
 * If the lease could not be read for this share of its length, NATS was silent, and the holder could not renew the
 * lease either. So the lease gets its whole length again.
 */
const SILENT_SHARE = 3 / 4
/** The share of a lease for which its holder is certain. */
const CERTAIN_SHARE = 0.8
/** A lease in doubt is given up after this many times its length, which is longer than an election in NATS takes. */
const DOUBTED_LEASES = 6

/** An input that has no meaning in the current state leaves it unchanged. */
export function nextLeaseState(state: LeaseState, input: LeaseInput): LeaseState {
  if (state.kind === 'waiting') {
    if (input.kind === 'read') return { kind: 'waiting', seen: nextSeen(state.seen, input) }
    return input.kind === 'taken'
      ? { kind: 'holding', revision: input.revision, requestedAtMs: input.requestedAtMs }
      : state
  }
  switch (input.kind) {
    case 'renewed':
      // Responses may arrive out of order.
      return input.revision > state.revision
        ? { ...state, revision: input.revision, requestedAtMs: input.requestedAtMs }
        : state
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

/** Whether no other candidate can hold the lease now. */
export function isCertain(state: LeaseState, nowMs: number, leaseMs: number): boolean {
  return state.kind === 'holding' && nowMs - state.requestedAtMs < leaseMs * CERTAIN_SHARE
}

/** Whether a lease has been in doubt for so long that it is given up. */
export function isHopeless(state: LeaseState, nowMs: number, leaseMs: number): boolean {
  return state.kind === 'holding' && nowMs - state.requestedAtMs >= leaseMs * (CERTAIN_SHARE + DOUBTED_LEASES)
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

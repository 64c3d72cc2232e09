/**
 * Decides when this replica sends connections to new replicas, and how many. The decision is a pure function of what
 * the replica sees once a second; `wiring/rebalancing.ts` carries it out.
 *
 *   waiting ──(a new pod, and nothing has changed for a minute)──▶ moving ──(done, no progress, too long, a change)──▶ waiting
 *
 * The EndpointSlices of the Service show a rollout by themselves: pods of two owners (the pods of a ReplicaSet share the
 * beginning of their names), or a pod that is not ready or is terminating. While one is visible, nothing moves, and each
 * pod starts at most one move. So neither a rolling update nor a pod whose readiness flaps moves anybody.
 *
 * Each old replica decides alone, because all see the same endpoints and the balancer treats their clients alike. It
 * compares its connections with what it had, and not with other replicas, so nothing is exchanged.
 */

/** A pod behind the Service. */
export interface Endpoint {
  readonly uid: string
  /** The name of what created the pod, such as a ReplicaSet; another one means another version of the pods. */
  readonly owner: string
  /** Whether the pod takes new connections; false while it terminates. */
  readonly isReady: boolean
}

export interface Sight {
  /** Monotonic milliseconds. */
  readonly nowMs: number
  readonly endpoints: readonly Endpoint[]
  /** Counts this replica's connections. Called only when the count matters, because counting visits every watch. */
  readonly connections: () => number
}

interface Waiting {
  readonly kind: 'waiting'
  /** The pods that share the connections already. */
  readonly known: ReadonlySet<string>
  /** The endpoints and their readiness, to notice changes. */
  readonly seen: string
  readonly quietSinceMs: number
}

interface Moving {
  readonly kind: 'moving'
  readonly pods: ReadonlySet<string>
  readonly newPods: number
  readonly startedMs: number
  readonly before: number
  readonly target: number
  /** The part of a connection that may be closed by now. */
  readonly credit: number
  readonly lastMs: number
  readonly reviewedMs: number
  /** The number of connections at the last review. */
  readonly reviewed: number
  /** Since when there is nothing to close; null while there is. */
  readonly doneSinceMs: number | null
}

export type RebalanceState = Waiting | Moving

export type Outcome = 'balanced' | 'no-progress' | 'timeout' | 'interrupted'

export interface Report {
  readonly outcome: Outcome
  readonly newPods: number
  readonly before: number
  readonly target: number
  readonly connections: number
  readonly seconds: number
}

export interface Step {
  readonly state: RebalanceState
  /** How many connections to close in the coming second. */
  readonly close: number
  /** Set when a move has ended. */
  readonly report: Report | null
}

/** How long the endpoints must not have changed before a new pod counts. */
const QUIET_MS = 60_000
/** The share of the connections that a replica closes in a second. */
const SHARE_PER_SECOND = 0.02
/** A move ends this close to its target, as a share of the target or of what had to move, whichever is smaller. */
const TOLERANCE = 0.1
/** How often progress is reviewed. */
const REVIEW_MS = 60_000
/** Nothing is closed for this long before a review: clients that are about to return must not look like progress. */
const PAUSE_MS = 5_000
/** The least progress, as a share of what had to move. */
const PROGRESS = 0.05
/** A move ends when there has been nothing to close for this long, because clients may still return. */
const DONE_MS = 10_000
const MAX_MS = 300_000

/** @param self the UID of this pod, which is new until the others have had the time to notice it. */
export function beginWaiting({ nowMs, endpoints }: Sight, self: string): RebalanceState {
  const known = uidsOf(endpoints)
  known.delete(self)
  return { kind: 'waiting', known, seen: '', quietSinceMs: nowMs }
}

export function next(state: RebalanceState, sight: Sight, self: string): Step {
  return state.kind === 'waiting' ? wait(state, sight, self) : move(state, sight)
}

function wait(state: Waiting, { nowMs, endpoints, connections }: Sight, self: string): Step {
  const seen = endpoints
    .map(({ uid, isReady }) => `${uid} ${isReady}`)
    .toSorted()
    .join()
  const quietSinceMs = seen === state.seen ? state.quietSinceMs : nowMs
  if (nowMs - quietSinceMs < QUIET_MS || isChanging(endpoints)) return stay({ ...state, seen, quietSinceMs })
  const pods = uidsOf(endpoints)
  const newPods = [...pods].filter((uid) => !state.known.has(uid)).length
  const settled: Waiting = { ...state, seen, quietSinceMs, known: pods }
  if (newPods === 0 || !pods.has(self) || !state.known.has(self)) return stay(settled)
  const before = connections()
  const target = Math.ceil((before * (pods.size - newPods)) / pods.size)
  if (target >= before) return stay(settled)
  return stay({
    kind: 'moving',
    pods,
    newPods,
    startedMs: nowMs,
    before,
    target,
    credit: 0,
    lastMs: nowMs,
    reviewedMs: nowMs,
    reviewed: before,
    doneSinceMs: null,
  })
}

function move(state: Moving, { nowMs, endpoints, connections: count }: Sight): Step {
  const connections = count()
  const { pods, before, target, startedMs } = state
  const surplus = before - target
  const excess = connections - (target + TOLERANCE * Math.min(target, surplus))
  const doneSinceMs = excess > 0 ? null : (state.doneSinceMs ?? nowMs)
  const isDue = nowMs - state.reviewedMs >= REVIEW_MS
  const end = (outcome: Outcome): Step => ended(state, nowMs, connections, outcome)
  if (isDisturbed(pods, endpoints)) return end('interrupted')
  if (doneSinceMs !== null && nowMs - doneSinceMs >= DONE_MS) return end('balanced')
  if (nowMs - startedMs >= MAX_MS) return end('timeout')
  if (isDue && doneSinceMs === null && connections > state.reviewed - Math.max(1, PROGRESS * surplus)) {
    return end('no-progress')
  }
  const perSecond = SHARE_PER_SECOND * before
  const credit = Math.min(Math.max(1, perSecond), state.credit + (perSecond * (nowMs - state.lastMs)) / 1_000)
  const isPaused = !isDue && nowMs - state.reviewedMs >= REVIEW_MS - PAUSE_MS
  const close = isPaused ? 0 : Math.max(0, Math.min(Math.floor(credit), Math.ceil(excess)))
  const review = isDue ? { reviewedMs: nowMs, reviewed: connections } : null
  return {
    state: { ...state, ...review, credit: credit - close, lastMs: nowMs, doneSinceMs },
    close,
    report: null,
  }
}

const stay = (state: RebalanceState): Step => ({ state, close: 0, report: null })

/** Pods that appeared during the move are still new. */
function ended(state: Moving, nowMs: number, connections: number, outcome: Outcome): Step {
  const { pods, newPods, before, target, startedMs } = state
  const seconds = Math.round((nowMs - startedMs) / 1_000)
  return {
    state: { kind: 'waiting', known: pods, seen: '', quietSinceMs: nowMs },
    close: 0,
    report: { outcome, newPods, before, target, connections, seconds },
  }
}

/** Whether a rollout is under way, or anything else after which the pods will be different ones. */
function isChanging(endpoints: readonly Endpoint[]): boolean {
  return endpoints.some(({ isReady }) => !isReady) || hasTwoOwners(endpoints)
}

/** Whether the pods that share the connections are not those of the decision. */
function isDisturbed(pods: ReadonlySet<string>, endpoints: readonly Endpoint[]): boolean {
  const ready = uidsOf(endpoints.filter(({ isReady }) => isReady))
  return hasTwoOwners(endpoints) || [...pods].some((uid) => !ready.has(uid))
}

function hasTwoOwners(endpoints: readonly Endpoint[]): boolean {
  return new Set(endpoints.map(({ owner }) => owner)).size > 1
}

function uidsOf(endpoints: readonly Endpoint[]): Set<string> {
  return new Set(endpoints.map(({ uid }) => uid))
}

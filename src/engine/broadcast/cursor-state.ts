/**
 * The life of a watcher as a pure table; `cursor.ts` performs it.
 *
 *      starting ──begin-initial──▶ initial
 *       │   │ ▲                       │
 *       │   │ └───complete-initial────┘
 *      wait │
 *       │  lag ─────────▶ lagging ──join──▶ active
 *       ▼                 ▲  ▲               │
 *      waiting ──lag──────┘  └──────lag──────┘   (the log was trimmed behind it)
 *
 *      any of these ──end-soon──▶ ending ──end──▶ ended
 *      any of these ──end────────────────────────▶ ended
 *
 * - `starting`: its place is about to be found, within the same call.
 * - `waiting`: it asked for a future revision, and stands outside until the cache gets there.
 * - `initial`: it is being sent a snapshot; what happens meanwhile is in the ring.
 * - `lagging`: it is fed from the ring, batch by batch; at the head it is parked until its first event.
 * - `active`: its revision is an offset of the group's log.
 * - `ending`: it will be sent an error in its turn, and nothing else.
 */
export type CursorState = 'starting' | 'waiting' | 'initial' | 'lagging' | 'active' | 'ending' | 'ended'

export type CursorStep = 'begin-initial' | 'complete-initial' | 'wait' | 'lag' | 'join' | 'end-soon' | 'end'

/** Steps that a state does not name make no sense in it. */
const STEPS: Readonly<Record<CursorState, Readonly<Partial<Record<CursorStep, CursorState>>>>> = {
  starting: { 'begin-initial': 'initial', wait: 'waiting', lag: 'lagging', 'end-soon': 'ending', end: 'ended' },
  waiting: { lag: 'lagging', 'end-soon': 'ending', end: 'ended' },
  initial: { 'complete-initial': 'starting', 'end-soon': 'ending', end: 'ended' },
  lagging: { join: 'active', 'end-soon': 'ending', end: 'ended' },
  active: { lag: 'lagging', 'end-soon': 'ending', end: 'ended' },
  ending: { end: 'ended' },
  ended: {},
}

/** @throws RangeError for a step that makes no sense, which is our bug. */
export function nextState(state: CursorState, step: CursorStep): CursorState {
  const next = STEPS[state][step]
  if (next === undefined) throw new RangeError(`a watcher that is ${state} cannot take the step ${step}`)
  return next
}

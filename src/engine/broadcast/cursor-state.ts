/**
 * The life cycle of a watcher as a pure table; `cursor.ts` performs it.
 *
 *     starting ──begin-initial──▶ initial
 *      │   │ ▲                       │
 *      │   │ └───complete-initial────┘
 *     wait │
 *      │  lag ─────────▶ lagging ──join──▶ active
 *      ▼                 ▲  ▲               │
 *     waiting ──lag──────┘  └──────lag──────┘   (the log was trimmed behind it)
 *
 *     any of these ──end-soon──▶ ending ──end──▶ ended
 *     any of these ──end────────────────────────▶ ended
 *
 * - `starting`: not placed yet. It moves to another state before the current call returns.
 * - `waiting`: its client asked for a future revision; it waits until the cache reaches that revision.
 * - `initial`: receives a snapshot; events that arrive in the meantime are in the ring.
 * - `lagging`: fed from the ring, batch by batch. At the head it is parked until the next event for its group.
 * - `active`: reads the group's log from an offset.
 * - `ending`: receives an error at its next turn of the pump, and nothing else.
 */
export type CursorState = 'starting' | 'waiting' | 'initial' | 'lagging' | 'active' | 'ending' | 'ended'

export type CursorStep = 'begin-initial' | 'complete-initial' | 'wait' | 'lag' | 'join' | 'end-soon' | 'end'

/** A step that is not listed for a state is invalid in that state. */
const STEPS: Readonly<Record<CursorState, Readonly<Partial<Record<CursorStep, CursorState>>>>> = {
  starting: { 'begin-initial': 'initial', wait: 'waiting', lag: 'lagging', 'end-soon': 'ending', end: 'ended' },
  waiting: { lag: 'lagging', 'end-soon': 'ending', end: 'ended' },
  initial: { 'complete-initial': 'starting', 'end-soon': 'ending', end: 'ended' },
  lagging: { join: 'active', 'end-soon': 'ending', end: 'ended' },
  active: { lag: 'lagging', 'end-soon': 'ending', end: 'ended' },
  ending: { end: 'ended' },
  ended: {},
}

/** @throws RangeError for an invalid step, which is a bug. */
export function nextState(state: CursorState, step: CursorStep): CursorState {
  const next = STEPS[state][step]
  if (next === undefined) throw new RangeError(`a watcher that is ${state} cannot take the step ${step}`)
  return next
}

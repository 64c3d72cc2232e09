import t from 'tap'
import { type CursorState, type CursorStep, nextState } from '../../src/broadcast/cursor-state.js'

/** Every pair of state and step, so that a missing one does not compile; null for a step that makes no sense. */
const TRUTH: Readonly<Record<CursorState, Readonly<Record<CursorStep, CursorState | null>>>> = {
  starting: {
    'begin-initial': 'initial',
    'complete-initial': null,
    wait: 'waiting',
    lag: 'lagging',
    join: null,
    'end-soon': 'ending',
    end: 'ended',
  },
  waiting: {
    'begin-initial': null,
    'complete-initial': null,
    wait: null,
    lag: 'lagging',
    join: null,
    'end-soon': 'ending',
    end: 'ended',
  },
  initial: {
    'begin-initial': null,
    'complete-initial': 'starting',
    wait: null,
    lag: null,
    join: null,
    'end-soon': 'ending',
    end: 'ended',
  },
  lagging: {
    'begin-initial': null,
    'complete-initial': null,
    wait: null,
    lag: null,
    join: 'active',
    'end-soon': 'ending',
    end: 'ended',
  },
  active: {
    'begin-initial': null,
    'complete-initial': null,
    wait: null,
    lag: 'lagging',
    join: null,
    'end-soon': 'ending',
    end: 'ended',
  },
  ending: {
    'begin-initial': null,
    'complete-initial': null,
    wait: null,
    lag: null,
    join: null,
    'end-soon': null,
    end: 'ended',
  },
  ended: {
    'begin-initial': null,
    'complete-initial': null,
    wait: null,
    lag: null,
    join: null,
    'end-soon': null,
    end: null,
  },
}

const states = Object.keys(TRUTH) as CursorState[]

void t.test('every pair of state and step is as the truth table says', (t) => {
  for (const state of states) {
    for (const [step, expected] of Object.entries(TRUTH[state]) as [CursorStep, CursorState | null][]) {
      if (expected === null) t.throws(() => nextState(state, step), RangeError, `${state} × ${step}`)
      else t.equal(nextState(state, step), expected, `${state} × ${step}`)
    }
  }
  t.end()
})

void t.test('every state is reached from the start, and every one but the last leads to the end', (t) => {
  const reached = new Set<CursorState>(['starting'])
  for (const state of reached) for (const next of Object.values(TRUTH[state])) if (next !== null) reached.add(next)
  t.same([...reached].sort(), states.toSorted())
  for (const state of states) t.equal(TRUTH[state].end, state === 'ended' ? null : 'ended', state)
  t.end()
})

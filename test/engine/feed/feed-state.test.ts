/** Every state against every input, then the significant values within the pairs. */
import t from 'tap'
import {
  IDLE,
  next,
  REPLAY_REVISIONS,
  type FeedEffect,
  type FeedInput,
  type FeedState,
  type FeedPlace,
} from '../../../src/engine/feed/feed-state.js'
import type { Batch, Key } from '../../../src/engine/model/event.js'
import { toRevision as rev } from '../../../src/engine/model/revision.js'

const LIST_RESTARTS = 5

const HEALTHY_MS = 10_000

const place: FeedPlace = { settled: rev(90), position: rev(100) }
const batch: Batch = { revision: rev(101), events: [{ type: 'delete', key: '/p/a' as Key }] }
const expire = { onGap: 'expire', replayRevisions: REPLAY_REVISIONS } as const
const coalesce = { ...expire, onGap: 'coalesce' } as const

const states: { [K in FeedState['kind']]: Extract<FeedState, { kind: K }> } = {
  idle: { kind: 'idle' },
  listing: { kind: 'listing', reason: 'initial', floor: null, restarts: 0, attempt: 0, place: null },
  'catching-up': { kind: 'catching-up', place, target: rev(200), openedAt: 0, attempt: 0 },
  watching: { kind: 'watching', place, openedAt: 0, attempt: 0 },
  verifying: { kind: 'verifying', after: 'loss', place, startRevision: rev(91), openedAt: 0, attempt: 1 },
  'backing-off': { kind: 'backing-off', attempt: 1, why: 'gone', place, relist: null },
  refused: { kind: 'refused', attempt: 1, why: 'denied', place, relist: null },
}

const inputs: { [K in FeedInput['kind']]: Extract<FeedInput, { kind: K }> } = {
  start: { kind: 'start' },
  stop: { kind: 'stop' },
  timer: { kind: 'timer' },
  listed: { kind: 'listed', revision: rev(100), isPresent: false, isContinued: false },
  'list-compacted': { kind: 'list-compacted', compactRevision: rev(120) },
  'list-failed': { kind: 'list-failed', code: 'unavailable', message: 'no answer', refusedMs: null },
  opened: { kind: 'opened', at: 5 },
  batches: { kind: 'batches', batches: [batch], last: batch.revision },
  progress: { kind: 'progress', revision: rev(150) },
  'state-equal': { kind: 'state-equal' },
  contradicted: { kind: 'contradicted', revision: rev(95), at: 5 },
  'watch-compacted': { kind: 'watch-compacted', startRevision: rev(91), compactRevision: rev(120), at: 5 },
  'watch-too-large': { kind: 'watch-too-large', message: '1 GB' },
  'watch-failed': { kind: 'watch-failed', code: 'unavailable', message: 'cut', refusedMs: null, at: 5 },
  'watch-left': { kind: 'watch-left', why: 'gone silent' },
  'same-history': { kind: 'same-history', now: rev(200) },
  'other-history': { kind: 'other-history', why: 'restored' },
  'verify-compacted': { kind: 'verify-compacted' },
  'verify-failed': { kind: 'verify-failed', code: 'unavailable', message: 'no answer', refusedMs: null, at: 5 },
  rebuild: { kind: 'rebuild', why: 'a consistency check' },
  wake: { kind: 'wake' },
  doubted: { kind: 'doubted', why: 'a revision below ours' },
}

const lost = 'backing-off: close-watch disconnected set-timer'
const listAgain = 'listing: close-watch disconnected list'
const anewLater = lost
const resumed = 'verifying: close-watch disconnected watch'

/** `state: effects` for each pair; `-`: nothing happens. */
const table: Record<FeedState['kind'], Record<FeedInput['kind'], string>> = {
  idle: {
    start: 'listing: list',
    stop: '-',
    timer: '-',
    listed: '-',
    'list-compacted': '-',
    'list-failed': '-',
    opened: '-',
    batches: '-',
    progress: '-',
    'state-equal': '-',
    contradicted: '-',
    'watch-compacted': '-',
    'watch-too-large': '-',
    'watch-failed': '-',
    'watch-left': '-',
    'same-history': '-',
    'other-history': '-',
    'verify-compacted': '-',
    'verify-failed': '-',
    rebuild: '-',
    wake: '-',
    doubted: '-',
  },
  listing: {
    start: '-',
    stop: 'idle: cancel',
    timer: '-',
    listed: 'verifying: watch',
    'list-compacted': 'listing: list',
    'list-failed': 'backing-off: disconnected set-timer',
    opened: '-',
    batches: '-',
    progress: '-',
    'state-equal': '-',
    contradicted: '-',
    'watch-compacted': '-',
    'watch-too-large': '-',
    'watch-failed': '-',
    'watch-left': '-',
    'same-history': '-',
    'other-history': '-',
    'verify-compacted': '-',
    'verify-failed': '-',
    rebuild: '-',
    wake: '-',
    doubted: '-',
  },
  'catching-up': {
    start: '-',
    stop: 'idle: cancel',
    timer: '-',
    listed: '-',
    'list-compacted': '-',
    'list-failed': '-',
    opened: 'catching-up:',
    batches: 'catching-up: apply',
    progress: 'catching-up: progress',
    'state-equal': 'watching: synced',
    contradicted: listAgain,
    'watch-compacted': listAgain,
    'watch-too-large': resumed,
    'watch-failed': lost,
    'watch-left': resumed,
    'same-history': '-',
    'other-history': '-',
    'verify-compacted': '-',
    'verify-failed': '-',
    rebuild: listAgain,
    wake: '-',
    doubted: resumed,
  },
  watching: {
    start: '-',
    stop: 'idle: cancel',
    timer: '-',
    listed: '-',
    'list-compacted': '-',
    'list-failed': '-',
    opened: 'watching:',
    batches: 'watching: apply',
    progress: 'watching: progress',
    'state-equal': '-',
    contradicted: listAgain,
    'watch-compacted': listAgain,
    'watch-too-large': resumed,
    'watch-failed': lost,
    'watch-left': resumed,
    'same-history': '-',
    'other-history': '-',
    'verify-compacted': '-',
    'verify-failed': '-',
    rebuild: listAgain,
    wake: '-',
    doubted: resumed,
  },
  verifying: {
    start: '-',
    stop: 'idle: cancel',
    timer: '-',
    listed: '-',
    'list-compacted': '-',
    'list-failed': '-',
    opened: 'verifying: verify',
    batches: 'verifying: hold',
    progress: '-',
    'state-equal': '-',
    contradicted: anewLater,
    'watch-compacted': listAgain,
    'watch-too-large': resumed,
    'watch-failed': lost,
    'watch-left': resumed,
    'same-history': 'catching-up: seek release-held',
    'other-history': listAgain,
    'verify-compacted': listAgain,
    'verify-failed': lost,
    rebuild: listAgain,
    wake: '-',
    doubted: '-',
  },
  'backing-off': {
    start: '-',
    stop: 'idle: cancel',
    timer: 'verifying: watch',
    listed: '-',
    'list-compacted': '-',
    'list-failed': '-',
    opened: '-',
    batches: '-',
    progress: '-',
    'state-equal': '-',
    contradicted: '-',
    'watch-compacted': '-',
    'watch-too-large': '-',
    'watch-failed': '-',
    'watch-left': '-',
    'same-history': '-',
    'other-history': '-',
    'verify-compacted': '-',
    'verify-failed': '-',
    rebuild: 'backing-off:',
    wake: 'verifying: watch',
    doubted: 'verifying: watch',
  },
  refused: {
    start: '-',
    stop: 'idle: cancel',
    timer: 'verifying: watch',
    listed: '-',
    'list-compacted': '-',
    'list-failed': '-',
    opened: '-',
    batches: '-',
    progress: '-',
    'state-equal': '-',
    contradicted: '-',
    'watch-compacted': '-',
    'watch-too-large': '-',
    'watch-failed': '-',
    'watch-left': '-',
    'same-history': '-',
    'other-history': '-',
    'verify-compacted': '-',
    'verify-failed': '-',
    rebuild: 'refused:',
    wake: '-',
    doubted: '-',
  },
}

for (const [stateKind, row] of Object.entries(table) as [FeedState['kind'], Record<FeedInput['kind'], string>][]) {
  void t.test(`from ${stateKind}`, async (t) => {
    for (const [inputKind, expected] of Object.entries(row) as [FeedInput['kind'], string][]) {
      const before = states[stateKind]
      const { state, effects } = next(before, inputs[inputKind], expire)
      const seen = `${state.kind}: ${effects.map((effect) => effect.kind).join(' ')}`.trim()
      if (expected === '-') {
        t.strictSame({ state, effects }, { state: before, effects: [] }, `${inputKind} changes nothing`)
      } else {
        t.equal(seen, expected, inputKind)
      }
    }
  })
}

function effect<K extends FeedEffect['kind']>(
  effects: readonly FeedEffect[],
  kind: K,
): Extract<FeedEffect, { kind: K }> {
  const found = effects.find((one) => one.kind === kind)
  if (found === undefined) throw new Error(`no ${kind} among ${effects.map((one) => one.kind).join(' ')}`)
  return found as Extract<FeedEffect, { kind: K }>
}

void t.test('the watch begins right after the list, and is verified like any other', async (t) => {
  const { state, effects } = next(states.listing, inputs.listed, expire)
  t.match(state, { kind: 'verifying', after: 'list', place: { settled: 100, position: 100 } })
  t.equal(effect(effects, 'watch').startRevision, 101)
})

void t.test(
  'after a list of the current state there is nothing to catch up with, whatever etcd has written since',
  async (t) => {
    const { state } = next(states.listing, { ...inputs.listed, isPresent: true }, expire)
    const same = next(state, inputs['same-history'], expire)
    t.match(same.state, { kind: 'watching', place: { settled: 100, position: 100 } })
    t.strictSame(
      same.effects.map((one) => one.kind),
      ['synced', 'release-held'],
    )
  },
)

void t.test('a watch that continues the answer of the list is not verified', async (t) => {
  const { state, effects } = next(states.listing, { ...inputs.listed, isPresent: true, isContinued: true }, expire)
  t.match(state, { kind: 'watching', place: { settled: 100, position: 100 }, openedAt: null })
  t.strictSame(effects, [{ kind: 'watch', startRevision: 101, inParts: false }, { kind: 'synced' }])
})

void t.test('the feed is synced exactly when the target is reached', async (t) => {
  for (const [revision, kind] of [
    [199, 'catching-up'],
    [200, 'watching'],
    [201, 'watching'],
  ] as const) {
    const byEvent = next(
      states['catching-up'],
      { kind: 'batches', batches: [{ ...batch, revision: rev(revision) }], last: rev(revision) },
      expire,
    )
    t.equal(byEvent.state.kind, kind, `event at ${revision}`)
    const byProgress = next(states['catching-up'], { kind: 'progress', revision: rev(revision) }, expire)
    t.equal(byProgress.state.kind, kind, `progress at ${revision}`)
  }
})

void t.test(
  'events confirm what they cover, progress only advances the position, equality changes neither',
  async (t) => {
    const byEvent = next(states.watching, { kind: 'batches', batches: [batch], last: rev(101) }, expire)
    t.match(byEvent.state, { place: { settled: 101, position: 101 } })
    const byProgress = next(states.watching, inputs.progress, expire)
    t.match(byProgress.state, { place: { settled: 90, position: 150 } })
    const byEquality = next(states['catching-up'], inputs['state-equal'], expire)
    t.match(byEquality.state, { place: { settled: 90, position: 100 } })
  },
)

void t.test('progress never goes back', async (t) => {
  for (const revision of [99, 100]) {
    const { state, effects } = next(states.watching, { kind: 'progress', revision: rev(revision) }, expire)
    t.strictSame(state, states.watching)
    t.strictSame(effects, [])
  }
})

void t.test('a resumed watch replays what progress alone has covered, unless that is long', async (t) => {
  for (const [settled, expected] of [
    [100, 101],
    [99, 100],
    [10_000 - REPLAY_REVISIONS, 10_001 - REPLAY_REVISIONS],
    [10_000 - REPLAY_REVISIONS - 1, 10_001],
  ] as const) {
    const position = rev(Math.max(100, settled === 100 || settled === 99 ? 100 : 10_000))
    const from: FeedState = { ...states['backing-off'], place: { settled: rev(settled), position } }
    const { effects } = next(from, inputs.timer, expire)
    t.equal(effect(effects, 'watch').startRevision, expected, `settled ${settled}, position ${position}`)
    const far = next(from, inputs.timer, { ...expire, replayRevisions: Number.POSITIVE_INFINITY })
    t.equal(effect(far.effects, 'watch').startRevision, settled + 1, 'always, where a replay costs nothing')
  }
})

void t.test('a compaction between settled and position loses no history, whenever etcd reports it', async (t) => {
  const compacted = (compactRevision: number, startRevision = 91): FeedInput => ({
    kind: 'watch-compacted',
    startRevision: rev(startRevision),
    compactRevision: rev(compactRevision),
    at: 5,
  })
  for (const kind of ['verifying', 'catching-up', 'watching'] as const) {
    for (const compactRevision of [95, 101]) {
      const { state, effects } = next(states[kind], compacted(compactRevision), expire)
      t.match(state, { kind: 'verifying', place, startRevision: 101, openedAt: null }, kind)
      t.equal(effect(effects, 'watch').startRevision, 101)
    }
    t.equal(next(states[kind], compacted(102), expire).state.kind, 'listing')
    const again = next(states[kind], compacted(101, 101), expire)
    t.equal(again.state.kind, 'listing', 'never the same watch twice in a row')
  }
})

void t.test('a gap is relisted according to the policy, from the compaction on', async (t) => {
  for (const [rules, reason] of [
    [expire, 'gap'],
    [coalesce, 'coalesce'],
  ] as const) {
    t.match(effect(next(states.watching, inputs['watch-compacted'], rules).effects, 'list'), { reason, floor: 120 })
    t.match(effect(next(states.verifying, inputs['verify-compacted'], rules).effects, 'list'), { reason, floor: null })
  }
})

void t.test('another history is never bridged, whatever the policy', async (t) => {
  for (const input of [inputs['other-history'], inputs.contradicted]) {
    const from = input.kind === 'other-history' ? states.verifying : states.watching
    t.match(effect(next(from, input, coalesce).effects, 'list'), { reason: 'history-changed', floor: null })
  }
})

void t.test('a rebuild requested while etcd is unreachable happens when it is back', async (t) => {
  const { state } = next(states['backing-off'], inputs.rebuild, coalesce)
  t.match(effect(next(state, inputs.timer, coalesce).effects, 'list'), { reason: 'history-changed', place })
})

void t.test('waits grow until a connection has been healthy', async (t) => {
  for (const [openedAt, attempt] of [
    [null, 5],
    [1, 5],
    [0, 1],
  ] as const) {
    const from: FeedState = { ...states.watching, attempt: 4, openedAt }
    const { effects } = next(from, { ...inputs['watch-failed'], message: 'cut', at: HEALTHY_MS }, expire)
    t.match(effect(effects, 'set-timer'), { attempt, pace: 'backoff' }, `opened at ${openedAt}`)
  }
})

void t.test('an abandoned member is not a failure, however often it happens', async (t) => {
  for (const kind of ['watching', 'catching-up', 'verifying'] as const) {
    const from: FeedState = { ...states[kind], attempt: 4 }
    t.match(next(from, inputs['watch-left'], expire).state, { kind: 'verifying', attempt: 4, place, openedAt: null })
  }
})

void t.test('a gap found after a loss does not wait again; one found after a list does', async (t) => {
  for (const [after, kind] of [
    ['loss', 'listing'],
    ['list', 'backing-off'],
  ] as const) {
    const from: FeedState = { ...states.verifying, after, attempt: 5, startRevision: rev(101) }
    t.match(next(from, inputs['watch-compacted'], expire).state, { kind, attempt: after === 'loss' ? 5 : 6 })
  }
})

void t.test('a gap is relisted at once, but consecutive ones wait', async (t) => {
  const again: FeedState = { ...states.watching, attempt: 1 }
  const { state, effects } = next(again, inputs['watch-compacted'], expire)
  t.match(state, { kind: 'backing-off', relist: { reason: 'gap', floor: 120 } })
  t.match(effect(effects, 'set-timer'), { attempt: 2 })
  t.match(effect(next(state, inputs.timer, expire).effects, 'list'), { reason: 'gap', floor: 120, place })
})

void t.test('an answer that is too large is requested in parts, from the same place', async (t) => {
  for (const state of [states.verifying, states['catching-up'], states.watching]) {
    const { state: after, effects } = next(state, inputs['watch-too-large'], expire)
    t.match(after, { kind: 'verifying', place })
    t.match(effect(effects, 'watch'), { startRevision: place.settled + 1, inParts: true })
    const again = next(next(after, inputs['watch-failed'], expire).state, inputs.timer, expire)
    t.match(effect(again.effects, 'watch'), { inParts: false }, 'a later watch is not')
  }
})

void t.test('a list that compaction keeps interrupting eventually waits', async (t) => {
  let state: FeedState = states.listing
  for (let restarts = 1; restarts < LIST_RESTARTS; restarts++) {
    const after = next(state, { kind: 'list-compacted', compactRevision: rev(restarts * 10) }, expire)
    t.match(effect(after.effects, 'list'), { restarts, floor: restarts * 10 })
    state = after.state
  }
  t.equal(next(state, inputs['list-compacted'], expire).state.kind, 'backing-off')
  const unknown = next(state, { kind: 'list-compacted', compactRevision: null }, expire)
  t.match(unknown.state, { relist: { floor: (LIST_RESTARTS - 1) * 10 } }, 'what is known of the floor is kept')
})

void t.test('errors that a retry cannot fix are refusals, all others are retried', async (t) => {
  const kinds = {
    unavailable: 'backing-off',
    compacted: 'backing-off',
    'future-revision': 'backing-off',
    'no-space': 'backing-off',
    'permission-denied': 'refused',
    unauthenticated: 'backing-off',
    'too-large': 'refused',
    protocol: 'refused',
  } as const
  for (const [code, kind] of Object.entries(kinds) as [keyof typeof kinds, string][]) {
    const { state } = next(states.listing, { kind: 'list-failed', code, message: 'x', refusedMs: null }, expire)
    t.equal(state.kind, kind, code)
  }
})

void t.test('a refused relist keeps the place, and is reported as such once it has lasted', async (t) => {
  const listing: FeedState = { ...states.listing, reason: 'gap', place }
  const reason = 'permission-denied: x'
  for (const [refusedMs, told] of [
    [0, { kind: 'disconnected', reason }],
    [9_999, { kind: 'disconnected', reason }],
    [10_000, { kind: 'refused', reason, isLasting: true }],
  ] as const) {
    const refusal = { kind: 'list-failed', code: 'permission-denied', message: 'x', refusedMs } as const
    const { state, effects } = next(listing, refusal, expire)
    t.same(effects, [told, { kind: 'set-timer', attempt: 1, pace: 'slow' }])
    t.match(effect(next(state, inputs.timer, expire).effects, 'list'), { reason: 'gap', place })
  }
})

void t.test('a refused first list is reported at once, and as lasting only once it has lasted', async (t) => {
  for (const [code, refusedMs, isLasting] of [
    ['permission-denied', 0, false],
    ['permission-denied', 9_999, false],
    ['permission-denied', 10_000, true],
    ['too-large', null, false],
  ] as const) {
    const { state, effects } = next(states.listing, { kind: 'list-failed', code, message: 'x', refusedMs }, expire)
    t.match(state, { kind: 'refused', place: null })
    t.same(effect(effects, 'refused'), { kind: 'refused', reason: `${code}: x`, isLasting })
  }
})

void t.test('a refused watch is resumed soon, and less often once the refusal has lasted', async (t) => {
  for (const [before, kind] of [
    [states.watching, 'watch-failed'],
    [states.verifying, 'watch-failed'],
    [states.verifying, 'verify-failed'],
  ] as const) {
    const refusal = { kind, code: 'permission-denied', message: 'x', at: 5 } as const
    const soon = next(before, { ...refusal, refusedMs: 9_999 }, expire)
    t.equal(soon.state.kind, 'backing-off')
    const { state, effects } = next(before, { ...refusal, refusedMs: 10_000 }, expire)
    const told = { kind: 'refused', reason: 'permission-denied: x', isLasting: true } as const
    t.same(effects.slice(0, 2), [{ kind: 'close-watch' }, told])
    t.match(effect(effects, 'set-timer'), { pace: 'slow' })
    const again = next(state, inputs.timer, expire)
    t.match(again.state, { kind: 'verifying', after: 'loss', place }, 'where it was')
    const rebuilt = next(next(state, inputs.rebuild, expire).state, inputs.timer, expire)
    t.match(effect(rebuilt.effects, 'list'), { reason: 'history-changed' }, 'unless that is known to be wrong')
  }
})

void t.test(
  'once the history is known to be the same, held batches are released after the target is known',
  async (t) => {
    const behind = next(states.verifying, { kind: 'same-history', now: rev(101) }, expire)
    t.match(behind.state, { kind: 'catching-up', target: 101, openedAt: 0 })
    const level = next(states.verifying, { kind: 'same-history', now: rev(100) }, expire)
    t.strictSame(
      level.effects.map((one) => one.kind),
      ['synced', 'release-held'],
    )
  },
)

void t.test('a feed begins and ends idle', async (t) => {
  t.strictSame(next(states.watching, inputs.stop, expire).state, IDLE)
})

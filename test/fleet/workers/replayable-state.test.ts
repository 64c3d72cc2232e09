import t from 'tap'
import { ReplayableState } from '../../../src/fleet/workers/replayable-state.js'
import { batchBytes } from '../../../src/fleet/key-value-codec.js'
import type { Batch, Key, KeyValue } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'

const key = (name: string): Key => `/registry/things/${name}` as Key

function keyValue(name: string, at: number): KeyValue {
  const revision = toRevision(at)
  const value = Buffer.from(`${name}@${at}`)
  return { key: key(name), value, createRevision: revision, modRevision: revision, version: 1, leaseId: '0' }
}

const put = (name: string, at: number): Batch => ({
  revision: toRevision(at),
  events: [{ type: 'put', keyValue: keyValue(name, at) }],
})
const textOf = (keyValues: Iterable<KeyValue>): string[] => [...keyValues].map(({ value }) => value.toString())

void t.test('batches that the limits evict from the history are folded into the state', (t) => {
  const state = new ReplayableState({ maxItems: 2, maxBytes: 1_000_000, maxAgeMs: 1_000 })
  state.reset(toRevision(10), [keyValue('a', 3), keyValue('b', 4)])
  state.append(put('a', 11), 0)
  state.append({ revision: toRevision(12), events: [{ type: 'delete', key: key('b') }] }, 0)
  const before = state.replay()
  state.append(put('c', 13), 500)
  const after = state.replay()
  t.same([before.revision, textOf(before.keyValues)], [10, ['a@3', 'b@4']], 'a replay stays as it was')
  t.same([after.revision, textOf(after.keyValues)], [11, ['a@11', 'b@4']], 'one batch too many')
  t.same(
    after.batches.map(({ revision }) => revision),
    [12, 13],
  )
  state.append(put('d', 14), 1_200)
  t.same([state.replay().revision, state.replay().batches.length], [12, 2], 'one that is too old')
  t.same(textOf(state.newest()), ['a@11', 'c@13', 'd@14'])
  state.reset(toRevision(20), [keyValue('z', 20)])
  const replayed = state.replay()
  t.same([replayed.revision, textOf(replayed.keyValues), replayed.batches], [20, ['z@20'], []])
  t.end()
})

void t.test('lower limits merge evicted batches into the state at once', (t) => {
  const state = new ReplayableState({ maxItems: 100, maxBytes: 1_000_000, maxAgeMs: 1_000 })
  state.reset(toRevision(10), [keyValue('a', 3)])
  for (const at of [11, 12, 13]) state.append(put('a', at), 0)
  state.setBounds({ maxItems: 1, maxBytes: 1_000_000, maxAgeMs: 1_000 }, 10)
  const { revision, keyValues, batches } = state.replay()
  t.same([revision, textOf(keyValues), batches.length], [12, ['a@12'], 1])
  t.end()
})

void t.test('older batches are part of the next replay, as far as the limits allow', (t) => {
  const deleted = (name: string, at: number): Batch => ({
    revision: toRevision(at),
    events: [{ type: 'delete', key: key(name) }],
  })
  const earlier = {
    after: toRevision(5),
    until: toRevision(10),
    replaced: [keyValue('a', 2), keyValue('b', 4)],
    batches: [put('a', 6), deleted('b', 7), put('c', 9)],
  }
  const ofLimit = (maxBytes: number): ReplayableState => {
    const state = new ReplayableState({ maxItems: 100, maxBytes, maxAgeMs: 1_000 })
    state.reset(toRevision(10), [keyValue('a', 6), keyValue('c', 9), keyValue('d', 1)])
    state.append(put('d', 11), 0)
    t.equal(state.precede({ ...earlier, until: toRevision(9) }, 0), false, 'not where the history begins')
    t.equal(state.precede({ ...earlier, batches: [put('a', 7)] }, 0), false, 'leads to another state')
    t.equal(state.precede(earlier, 0), true)
    return state
  }
  for (const [maxBytes, floor, base] of [
    [1_000_000, 5, ['a@2', 'b@4', 'd@1']],
    [batchBytes(put('c', 9)) + batchBytes(put('d', 11)), 7, ['a@6', 'd@1']],
  ] as const) {
    const state = ofLimit(maxBytes)
    const { revision, keyValues, batches } = state.replay()
    t.same([revision, textOf(keyValues)], [floor, base])
    t.same(
      batches.map((each) => each.revision),
      [6, 7, 9, 11].filter((each) => each > floor),
    )
    t.same(textOf(state.newest()), ['a@6', 'c@9', 'd@11'])
  }
  t.end()
})

import t from 'tap'
import { MvccStore } from '../../src/engine/upstream/embedded/mvcc-store.js'
import type { KeyValue } from '../../src/engine/model/event.js'
import type { StoredObject } from '../../src/engine/model/stored-object.js'
import { ReplayableState } from '../../src/fleet/workers/replayable-state.js'
import { createIngest } from '../../src/kubernetes/codec/ingest.js'
import { keyValueObject } from '../../src/kubernetes/dialect/key-value-object.js'
import { keyValue, podKey, PODS, rev } from './objects.js'

const COUNT = 500
const BYTES = 100

/** Each keeps many values, and returns those that it has kept. */
const keepers: Readonly<Record<string, (keyValues: Iterable<KeyValue>) => (Buffer | undefined)[]>> = {
  "what clients of etcd's own API read": (keyValues) => {
    const resource = { ...PODS, holds: 'values' } as const
    const ingest = createIngest({ resource, maxValueBytes: 1_000, wrap: keyValueObject, keepsRaw: true })
    return Array.from(keyValues, (one) => (ingest(one) as StoredObject).raw)
  },
  'the state for new workers': (keyValues) => {
    const state = new ReplayableState({ maxItems: COUNT / 2, maxBytes: 1_000_000, maxAgeMs: 1_000 })
    for (const one of keyValues)
      state.append({ revision: one.modRevision, events: [{ type: 'put', keyValue: one }] }, 0)
    return Array.from(state.newest(), ({ value }) => value)
  },
  'the embedded store': (keyValues) => {
    const store = new MvccStore({ historyRevisions: COUNT, historyBytes: 1_000_000 })
    return Array.from(keyValues, ({ key, value }) => {
      store.apply([{ type: 'put', key, value }])
      return store.get(key)?.value
    })
  },
}

/** Between two events, a server takes memory from the same pool for other purposes. */
function* events(): Generator<KeyValue> {
  for (let i = 0; i < COUNT; i++) {
    yield keyValue(podKey('x', `p${i}`), Buffer.allocUnsafe(BYTES).fill('x'), rev(i + 1))
    for (let j = 0; j < 4; j++) Buffer.allocUnsafe(2_000)
  }
}

for (const [name, keep] of Object.entries(keepers)) {
  void t.test(`small values that are kept take little more than their own memory: ${name}`, async (t) => {
    const kept = keep(events())
    t.equal(kept.length, COUNT)
    t.ok(kept.every((value) => value?.toString() === 'x'.repeat(BYTES)))
    const memory = new Set(kept.map((value) => value!.buffer))
    const bytes = [...memory].reduce((sum, { byteLength }) => sum + byteLength, 0)
    t.ok(bytes <= 2 * COUNT * BYTES, `${bytes} bytes of memory for ${COUNT * BYTES} bytes of values`)
  })
}

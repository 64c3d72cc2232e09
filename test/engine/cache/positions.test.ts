/** Digests of states: equal in every cache that held the same objects, however it came to them, and in no other. */
import { CACHE_METRICS } from '../../../src/engine/model/stage-metrics.js'
import { silent } from '../../support/silent-metrics.js'
import t from 'tap'
import { WatchCache } from '../../../src/engine/cache/watch-cache.js'
import type { Batch, Key, KeyEvent, KeyValue } from '../../../src/engine/model/event.js'
import { RevisionExpiredError } from '../../../src/engine/model/errors.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { batch, ingestPod, PODS, podKeyValue, rev } from '../../support/objects.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f']
const FIRST = 10
const LAST = 200

function openCache(maxItems = 1_000): WatchCache {
  return new WatchCache({
    name: 'pods',
    prefix: PODS.etcdPrefix,
    ingest: ingestPod,
    freshness: () => {
      throw new Error('nobody should ask')
    },
    ring: { maxItems, maxBytes: 1e9, maxAgeMs: 1e9 },
    clock: new VirtualClock(),
    logger: silentLogger,
    metrics: silent(CACHE_METRICS),
  })
}

function list(cache: WatchCache, revision: number, state: Iterable<KeyValue>): WatchCache {
  const replacement = cache.replace(rev(revision), 'initial')
  replacement.add([...state])
  replacement.commit()
  cache.synced()
  return cache
}

/** A random history, with the state at each revision. */
function historyOf(seed: number): { readonly batches: Batch[]; readonly states: ReadonlyMap<number, KeyValue[]> } {
  const random = seededRandom(seed)
  const batches: Batch[] = []
  let state = new Map<Key, KeyValue>()
  const states = new Map([[FIRST, [] as KeyValue[]]])
  for (let revision = FIRST + 1; revision <= LAST; revision++) {
    // Some revisions are of other prefixes.
    if (random.next() < 0.7) {
      state = new Map(state)
      const events: KeyEvent[] = []
      for (const name of NAMES.filter(() => random.next() < 0.3)) {
        const keyValue = podKeyValue('x', name, revision, { labels: { at: String(revision) } })
        if (state.has(keyValue.key) && random.next() < 0.4) {
          state.delete(keyValue.key)
          events.push({ type: 'delete', key: keyValue.key })
        } else {
          state.set(keyValue.key, keyValue)
          events.push({ type: 'put', keyValue })
        }
      }
      if (events.length > 0) batches.push(batch(revision, ...events))
    }
    states.set(revision, [...state.values()])
  }
  return { batches, states }
}

async function digest(cache: WatchCache, revision: number): Promise<string> {
  return await cache.history.digestAt(rev(revision))
}

for (const seed of [1, 2, 3]) {
  void t.test(`caches agree on every revision that they both reach, seed ${seed}`, async (t) => {
    const { batches, states } = historyOf(seed)
    const expected = new Map<number, string>()
    for (const [revision, state] of states) {
      expected.set(revision, await digest(list(openCache(), revision, state.toReversed()), revision))
    }
    // Positions requested during the history, and only at its end; from a ring that forgets, and from one that begins
    // later.
    const asked = list(openCache(), FIRST, [])
    const silent = list(openCache(), FIRST, [])
    const short = list(openCache(4), FIRST, [])
    const later = list(openCache(), 100, states.get(100)!)
    for (const one of batches) {
      for (const cache of [asked, silent, short]) cache.apply([one])
      if (one.revision > 100) later.apply([one])
      if (one.revision % 7 !== 0) continue
      for (const cache of [asked, short]) t.equal(await digest(cache, one.revision), expected.get(one.revision))
    }
    for (const cache of [asked, silent, short, later]) {
      cache.progress(rev(LAST))
      for (const [revision, value] of expected) {
        if (revision < cache.history.floorRevision) await t.rejects(digest(cache, revision), RevisionExpiredError)
        else if ((await digest(cache, revision)) !== value) t.fail(`another digest at ${revision}`)
      }
    }
    t.ok(short.history.floorRevision > 150 && later.history.floorRevision === 100)
  })
}

void t.test(
  'states that differ in anything have other digests, and equal ones at other revisions the same',
  async (t) => {
    const a = podKeyValue('x', 'a', 11)
    const at = async (...state: KeyValue[]): Promise<string> => await digest(list(openCache(), 20, state), 20)
    const others: KeyValue[][] = [
      [],
      [a],
      [{ ...a, modRevision: rev(12) }],
      [{ ...a, createRevision: rev(9) }],
      [{ ...a, version: 7 }],
      [{ ...a, leaseId: '5' }],
      [podKeyValue('x', 'a', 11, { labels: { b: 'c' } })],
      [podKeyValue('x', 'b', 11)],
      [a, podKeyValue('x', 'b', 12)],
    ]
    const digests = await Promise.all(others.map((state) => at(...state)))
    t.equal(new Set(digests).size, others.length)
    t.equal(await at(a), await digest(list(openCache(), 30, [a]), 30))
  },
)

void t.test('an answer that waits for its turn belongs to the history of that moment', async (t) => {
  const many = Array.from({ length: 5_000 }, (_, i) => podKeyValue('x', `p${i}`, 11))
  const cache = list(openCache(), 20, many)
  const asked = digest(cache, 20)
  const other = [podKeyValue('x', 'other', 15)]
  const replacement = cache.replace(rev(20), 'history-changed')
  replacement.add(other)
  replacement.commit()
  t.equal(await asked, await digest(list(openCache(), 20, other), 20))

  const asking = digest(cache, 20)
  cache.apply([batch(21, { type: 'put', keyValue: podKeyValue('x', 'new', 21) })])
  t.equal(await asking, await digest(list(openCache(), 20, other), 20), 'events go on in the meantime')
  list(cache, 30, many)
  await t.rejects(digest(cache, 20), RevisionExpiredError)
})

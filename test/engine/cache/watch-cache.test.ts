import { CACHE_METRICS } from '../../../src/engine/model/stage-metrics.js'
import { silent } from '../../support/silent-metrics.js'
import t from 'tap'
import type { CacheBatch } from '../../../src/engine/cache/cache-batch.js'
import type { FreshnessSource, KeysSummary } from '../../../src/engine/model/freshness-source.js'
import type { WatchCacheOptions } from '../../../src/engine/cache/state.js'
import { checkedCache } from '../../../src/engine/cache/checked.js'
import { WatchCache } from '../../../src/engine/cache/watch-cache.js'
import type { KeyValue } from '../../../src/engine/model/event.js'
import { EARLIER_WAIT_MS } from '../../../src/engine/model/limits.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import {
  BehindError,
  BusyError,
  RefusedWatchError,
  RevisionExpiredError,
  UnansweredError,
  WithheldError,
} from '../../../src/engine/model/errors.js'
import type { Ingest, StoredObject } from '../../../src/engine/model/stored-object.js'
import { silentLogger } from '../../../src/support/log.js'
import {
  PODS,
  batch,
  del,
  ingestDeclared,
  ingestPod,
  keyValue,
  podKey,
  podKeyValue,
  put,
  putUnservable,
  rev,
} from '../../support/objects.js'
import { VirtualClock, nextTurn } from '../../support/virtual-clock.js'

interface Told {
  readonly batches: string[]
  readonly advances: number[]
  readonly resets: string[]
}

/** A cache whose source the test controls; by default listed at `revision` with `objects`. */
function setUp(
  options: {
    readonly freshness?: Partial<FreshnessSource>
    /** Reads stored values. Default: as under a declared prefix. */
    readonly ingest?: WatchCacheOptions['ingest']
    readonly ring?: Partial<WatchCacheOptions['ring']>
    readonly revision?: number
    readonly objects?: readonly KeyValue[]
    readonly isListed?: boolean
  } = {},
) {
  const clock = new VirtualClock()
  const asked = { progress: 0, states: 0 }
  const warnings: string[] = []
  const coalesced: number[] = []
  const cache: WatchCache = new WatchCache({
    name: 'pods',
    prefix: PODS.etcdPrefix,
    ingest: options.ingest ?? ingestDeclared,
    freshness: () => ({
      trustsProgress: true,
      currentRevision: async () => cache.revision,
      requestProgress: () => asked.progress++,
      readState: async () => {
        throw new Error('nobody should read')
      },
      readKey: async () => null,
      ...options.freshness,
    }),
    ring: { maxItems: 1_000, maxBytes: 1e9, maxAgeMs: 1e9, ...options.ring },
    clock,
    logger: {
      ...silentLogger,
      warn: (_fields, message) => warnings.push(message),
      error: (_fields, message) => warnings.push(message),
    },
    metrics: { ...silent(CACHE_METRICS), coalesced: (events = 1) => coalesced.push(events) },
  })
  const told: Told = { batches: [], advances: [], resets: [] }
  cache.listen({
    onBatch: (given) => told.batches.push(textOf(given)),
    onAdvance: (revision) => told.advances.push(revision),
    onReset: (revision, isOther) => told.resets.push(`${revision}${isOther ? ' other' : ''}`),
  })
  const replace = (revision: number, reason: Parameters<WatchCache['replace']>[1], ...objects: KeyValue[]): void => {
    const state = cache.replace(rev(revision), reason)
    state.add(objects)
    state.commit()
  }
  if (options.isListed !== false) {
    replace(options.revision ?? 10, 'initial', ...(options.objects ?? []))
    cache.synced()
    told.resets.length = 0
    told.advances.length = 0
  }
  return { cache, clock, told, asked, warnings, coalesced, replace }
}

/** `12: +a ~b -c` */
function textOf({ revision, events }: CacheBatch): string {
  const texts = events.map(({ object, previous }) =>
    object === null ? `-${previous!.name}` : previous === null ? `+${object.name}` : `~${object.name}`,
  )
  return `${revision}: ${texts.join(' ')}`.trim()
}

const namesIn = (snapshot: {
  objects(prefix: typeof PODS.etcdPrefix): Iterable<{ name: string; modRevision: number }>
}) => [...snapshot.objects(PODS.etcdPrefix)].map(({ name, modRevision }) => `${name}@${modRevision}`)

/** A promise whose outcome can be read. */
interface Outcome<T> {
  readonly state: 'pending' | 'done' | 'failed'
  readonly value?: T
  readonly error?: unknown
}

function watched<T>(promise: Promise<T>): Outcome<T> {
  const seen: Outcome<T> = { state: 'pending' }
  promise.then(
    (value) => Object.assign(seen, { state: 'done', value }),
    (error: unknown) => Object.assign(seen, { state: 'failed', error }),
  )
  return seen
}

void t.test('batches', (t) => {
  void t.test('each arriving revision is stored, added to the ring and reported once', (t) => {
    const { cache, told } = setUp({ objects: [podKeyValue('x', 'a', 5)] })
    cache.apply([batch(11, put('x', 'a', 11, {}, 5), put('x', 'b', 11)), batch(12, del('x', 'a'))])
    t.same(told.batches, ['11: ~a +b', '12: -a'])
    t.same(told.advances, [12], 'one advance for a run of batches')
    t.same(namesIn(cache.snapshot()), ['b@11'])
    t.equal(cache.revision, 12)
    t.equal(cache.history.floorRevision, 10)
    t.same(cache.history.stats.batches, 2)
    t.end()
  })
  void t.test('batches that the cache already has are dropped', (t) => {
    const { cache, told } = setUp()
    cache.apply([batch(11, put('x', 'a', 11))])
    cache.apply([batch(10, put('x', 'z', 10)), batch(11, put('x', 'z', 11)), batch(12, put('x', 'b', 12))])
    t.same(told.batches, ['11: +a', '12: +b'])
    cache.progress(rev(20))
    cache.apply([batch(20, put('x', 'z', 20))])
    t.same(told.batches, ['11: +a', '12: +b'], 'progress counts as having it')
    t.end()
  })
  void t.test('deleting a missing object makes no event', (t) => {
    const { cache, told } = setUp()
    cache.apply([batch(11, del('x', 'never'))])
    t.same(told.batches, ['11:'])
    t.equal(cache.revision, 11)
    t.end()
  })
  void t.test('progress moves the revision, never back, and adds no history', (t) => {
    const { cache, told } = setUp()
    cache.progress(rev(15))
    cache.progress(rev(12))
    t.equal(cache.revision, 15)
    t.same(told.advances, [15])
    t.equal(cache.history.stats.batches, 0)
    t.equal(cache.snapshot().revision, 15)
    t.end()
  })
  void t.test('a snapshot is the same object until something changes', (t) => {
    const { cache } = setUp()
    const first = cache.snapshot()
    t.equal(cache.snapshot(), first)
    cache.apply([batch(11, put('x', 'a', 11))])
    t.not(cache.snapshot(), first)
    t.same(namesIn(first), [])
    t.end()
  })
  void t.test('the next batch after a revision is found; at the head there is none', (t) => {
    const { cache } = setUp()
    cache.apply([batch(12, put('x', 'a', 12)), batch(15, put('x', 'b', 15))])
    const cases: [after: number, next: number | undefined][] = [
      [10, 12],
      [11, 12],
      [12, 15],
      [14, 15],
      [15, undefined],
      [16, undefined],
    ]
    for (const [after, next] of cases) t.equal(cache.history.batchAfter(rev(after))?.revision, next, `after ${after}`)
    t.end()
  })
  t.end()
})

void t.test('whole states', (t) => {
  void t.test('a write is visible only after its commit, and an aborted one never', (t) => {
    const { cache, told, replace } = setUp({ objects: [podKeyValue('x', 'a', 5)] })
    const state = cache.replace(rev(20), 'gap')
    state.add([podKeyValue('x', 'b', 15)])
    t.same(namesIn(cache.snapshot()), ['a@5'])
    state.abort()
    t.same(namesIn(cache.snapshot()), ['a@5'])
    t.same(told.resets, [])
    replace(20, 'gap', podKeyValue('x', 'c', 15))
    t.same(namesIn(cache.snapshot()), ['c@15'])
    t.end()
  })
  void t.test('the reason of a reset determines what is reported and where history begins', (t) => {
    const cases: [reason: 'initial' | 'gap' | 'history-changed', resets: string[]][] = [
      ['initial', ['20']],
      ['gap', ['20']],
      ['history-changed', ['20 other']],
    ]
    for (const [reason, resets] of cases) {
      const { cache, told, replace } = setUp()
      cache.apply([batch(11, put('x', 'a', 11))])
      replace(20, reason, podKeyValue('x', 'b', 15))
      t.same(told.resets, resets, reason)
      t.equal(cache.history.floorRevision, 20, `${reason}: nobody can resume below it`)
      t.throws(() => cache.history.assertResumable(rev(19)), RevisionExpiredError)
      cache.history.assertResumable(rev(20))
    }
    t.end()
  })
  void t.test('another history may be behind ours', (t) => {
    const { cache, told, replace } = setUp({ revision: 100 })
    const { name } = cache.history
    replace(40, 'history-changed', podKeyValue('x', 'a', 30))
    t.equal(cache.revision, 40)
    t.not(cache.history.name, name, 'what was kept by revision is no longer meant')
    cache.apply([batch(41, put('x', 'b', 41))])
    t.same(told.batches, ['41: +b'])
    t.end()
  })
  t.end()
})

void t.test('fields that are left out still count when states are compared', async (t) => {
  // As if everything but the metadata were left out.
  const ingest: Ingest = (stored) => {
    const bytes = Buffer.from('{"metadata":{"name":"a"}}')
    const object = ingestPod({ ...stored, value: bytes }) as StoredObject
    return Object.assign(object, { wholeChecksum: stored.value.length })
  }
  const podOf = (nodeName: string): KeyValue => podKeyValue('x', 'a', 5, { nodeName })
  const { cache, told, replace } = setUp({ ingest, objects: [podOf('kubectl')] })
  for (const bytes of ['packed', 'loose']) {
    const checked = checkedCache(cache, ingest)
    const [held] = checked.stateAt(cache.revision) ?? []
    t.same(held?.value, await checked.comparable!(podOf('kubectl')), bytes)
    t.notSame(held?.value, await checked.comparable!(podOf('helm')), bytes)
    cache.apply([batch(20, { type: 'put', keyValue: { ...podOf('kubectl'), modRevision: rev(20) } })])
  }
  const { history } = cache.snapshot()
  replace(30, 'coalesce', { ...podOf('kubectl'), modRevision: rev(20) })
  t.equal(cache.snapshot().history, history)
  replace(40, 'coalesce', { ...podOf('helm'), modRevision: rev(20) })
  t.not(cache.snapshot().history, history, 'another value at the same revision is another history')
  t.equal(told.resets.length > 0, true)
})

void t.test('a coalesced gap', (t) => {
  void t.test('a coalesced gap is reported as a difference, and watchers continue', (t) => {
    const { cache, told, coalesced, replace } = setUp({ objects: [podKeyValue('x', 'a', 5), podKeyValue('x', 'b', 6)] })
    replace(20, 'coalesce', podKeyValue('x', 'a', 14, {}, 5), podKeyValue('x', 'c', 17))
    t.same(told.resets, [])
    t.same(told.batches, ['14: ~a', '17: +c', '20: -b'])
    t.same(coalesced, [3])
    t.equal(cache.revision, 20)
    t.equal(cache.history.floorRevision, 10)
    t.end()
  })
  void t.test('a watch can resume at the ends of a coalesced gap, not inside', (t) => {
    const { cache, replace } = setUp({ objects: [podKeyValue('x', 'a', 5)] })
    replace(20, 'coalesce', podKeyValue('x', 'a', 14, {}, 5))
    const cases: [after: number, isResumable: boolean][] = [
      [9, false],
      [10, true],
      [11, false],
      [14, false],
      [19, false],
      [20, true],
      [25, true],
    ]
    for (const [after, isResumable] of cases) {
      t.equal(cache.history.canResumeAfter(rev(after)), isResumable, `after ${after}`)
      if (isResumable) cache.history.assertResumable(rev(after))
      else t.throws(() => cache.history.assertResumable(rev(after)), RevisionExpiredError, `after ${after}`)
    }
    t.end()
  })
  void t.test('events on both sides of a coalesced gap are known to be so', (t) => {
    const { cache, replace } = setUp()
    const told: number[] = []
    cache.history.beforeGap(() => told.push(0))()
    const stop = cache.history.beforeGap((until) => told.push(until, cache.revision))
    replace(20, 'coalesce')
    t.same(told, [20, 10], 'it is announced to those who still listen')
    stop()
    for (const [after, until, isBetween] of [
      [9, 10, false],
      [10, 10, false],
      [10, 11, true],
      [9, 25, true],
      [19, 20, true],
      [20, 25, false],
    ] as const) {
      t.equal(cache.history.gapBetween(rev(after), rev(until)), isBetween ? 20 : null, `${after} to ${until}`)
    }
    t.end()
  })
  void t.test('a coalesced gap is remembered when another follows', (t) => {
    const { cache, replace } = setUp()
    replace(20, 'coalesce', podKeyValue('x', 'a', 15))
    cache.apply([batch(21, put('x', 'b', 21))])
    replace(30, 'coalesce', podKeyValue('x', 'a', 15), podKeyValue('x', 'b', 21))
    for (const after of [11, 19, 22, 29]) t.equal(cache.history.canResumeAfter(rev(after)), false, `after ${after}`)
    for (const after of [10, 20, 21, 30]) t.equal(cache.history.canResumeAfter(rev(after)), true, `after ${after}`)
    t.end()
  })
  void t.test('a resume inside any of a hundred coalesced gaps is refused, with bounded memory', (t) => {
    const { cache, replace } = setUp()
    for (let i = 1; i <= 100; i++) replace(10 + i * 10, 'coalesce')
    for (let i = 1; i <= 100; i++) {
      if (cache.history.canResumeAfter(rev(10 + i * 10 - 5))) t.fail(`gap ${i} was forgotten`)
    }
    t.equal(cache.history.canResumeAfter(rev(1_010)), true)
    t.end()
  })
  void t.test('an object that cannot belong to our history proves another history', (t) => {
    const cases: [name: string, state: KeyValue[], told: string][] = [
      ['written when we were there, and not seen', [podKeyValue('x', 'z', 8)], '20 other'],
      ['another version of what we hold', [podKeyValue('x', 'a', 7, {}, 5)], '20 other'],
      ['what we hold', [podKeyValue('x', 'a', 5)], ''],
      ['written after we left', [podKeyValue('x', 'a', 11, {}, 5)], ''],
    ]
    for (const [name, state, resets] of cases) {
      const { told, replace } = setUp({ objects: [podKeyValue('x', 'a', 5)] })
      replace(20, 'coalesce', ...state)
      t.equal(told.resets.join(), resets, name)
    }
    const rebuilt = setUp({ objects: [podKeyValue('x', 'a', 5), podKeyValue('x', 'b', 6)] })
    rebuilt.replace(10, 'coalesce', podKeyValue('x', 'a', 5))
    t.same(rebuilt.told.resets, ['10 other'], 'less than we hold, at the same revision')
    const behind = setUp({ revision: 100 })
    behind.replace(40, 'coalesce')
    t.same(behind.told.resets, ['40 other'], 'an older etcd')
    t.end()
  })
  void t.test('a list that began before a coalesced gap continues page by page', async (t) => {
    const { cache, replace } = setUp({ ring: { maxItems: 1 }, objects: [podKeyValue('x', 'a', 5)] })
    cache.reads.keep(cache.snapshot())
    replace(20, 'coalesce', podKeyValue('x', 'b', 14), podKeyValue('x', 'c', 17))
    t.equal(cache.history.floorRevision, 17)
    t.same(namesIn(await cache.reads.snapshotAt(rev(10))), ['a@5'])
  })
  t.end()
})

void t.test('values that cannot be served', (t) => {
  void t.test(
    'a value that can no longer be served is a DELETED, and an ADDED when it can again; it is counted',
    (t) => {
      const { cache, told } = setUp({ objects: [podKeyValue('x', 'a', 5)] })
      cache.apply([batch(11, putUnservable('x', 'a', 11, 5))])
      t.equal(cache.contents.unservable.size, 1)
      t.equal(cache.snapshot().unservableCount, 1)
      t.same(namesIn(cache.snapshot()), [])
      cache.apply([batch(12, putUnservable('x', 'a', 12, 5))])
      cache.apply([batch(13, put('x', 'a', 13, {}, 5))])
      t.equal(cache.contents.unservable.size, 0)
      t.same(told.batches, ['11: -a', '12:', '13: +a'])
      cache.apply([batch(14, putUnservable('x', 'a', 14, 5)), batch(15, del('x', 'a'))])
      t.equal(cache.contents.unservable.size, 0, 'deleted')
      t.same(told.batches.slice(3), ['14: -a', '15:'])
      t.end()
    },
  )
  void t.test('a value that cannot be served is logged once per key', (t) => {
    const { cache, warnings } = setUp()
    for (let i = 11; i < 20; i++) cache.apply([batch(i, putUnservable('x', i % 2 === 0 ? 'a' : 'b', i))])
    t.equal(warnings.length, 2)
    t.end()
  })
  void t.test('a value that was removed before the state is current is not logged', (t) => {
    const { cache, warnings, replace } = setUp({ isListed: false })
    replace(10, 'initial')
    cache.apply([batch(11, putUnservable('x', 'a', 11), putUnservable('x', 'b', 11)), batch(12, del('x', 'a'))])
    t.equal(warnings.length, 0)
    cache.synced()
    cache.synced()
    t.equal(warnings.length, 1, 'only b is left')
    cache.apply([batch(13, putUnservable('x', 'c', 13))])
    t.equal(warnings.length, 2, 'and later ones at once')
    t.end()
  })
  void t.test('values that cannot be served are compared in a coalesced gap as well', (t) => {
    const encrypted = putUnservable('x', 'a', 5)
    if (encrypted.type !== 'put') throw new Error('a put')
    const { told, replace } = setUp({ objects: [encrypted.keyValue] })
    replace(20, 'coalesce', encrypted.keyValue)
    t.same(told.resets, [])
    t.end()
  })
  t.end()
})

void t.test('a Kubernetes resource with unreadable values is refused as a whole, until there are none', (t) => {
  const cases: [name: string, value: string, reason: RegExp, encrypted: number][] = [
    ['encrypted at rest', 'k8s:enc:aescbc:v1:key:secret', /encrypted at rest/, 2],
    ['CBOR', '\xd9\xd9\xf7\xa1\x61a\x01', /cannot be read as CBOR: it is not an object with metadata/, 0],
    ['a broken envelope', 'k8s\0\x0a\x7f', /cannot be read as protobuf/, 0],
    ['anything else', 'text', /neither a JSON object with metadata nor protobuf/, 0],
    ['too large', 'x'.repeat(1024 * 1024 + 1), /exceed the limit/, 0],
  ]
  for (const [name, text, reason, encrypted] of cases) {
    void t.test(name, (t) => {
      const value = Buffer.from(text, 'latin1')
      const unread = (pod: string, revision: number, created = revision): KeyValue =>
        keyValue(podKey('x', pod), value, revision, created)
      const h = setUp({ ingest: ingestPod, objects: [podKeyValue('x', 'a', 5)] })
      const { cache } = h
      const ended: string[] = []
      const ignore = (): void => {}
      cache.listen({
        onBatch: ignore,
        onAdvance: ignore,
        onReset: ignore,
        onUnreadable: ({ name }) => ended.push(name),
      })
      t.equal(cache.readiness.kind, 'ready')
      cache.apply([
        batch(11, { type: 'put', keyValue: unread('a', 11, 5) }),
        batch(12, { type: 'put', keyValue: unread('b', 12) }),
      ])
      t.same(ended, ['WithheldError'], 'the watches are ended once')
      t.same(h.told.batches, [], 'and no deletion is sent')
      t.match(cache.readiness, { kind: 'refused', refusal: reason })
      t.throws(() => cache.readiness.assertReadable(), { name: 'WithheldError', message: reason })
      t.equal(cache.contents.encrypted.get('aescbc:v1:key') ?? 0, encrypted)
      t.equal(cache.contents.unservable.size, 2)
      cache.apply([batch(13, put('x', 'a', 13, {}, 5))])
      t.equal(cache.readiness.kind, 'refused')
      cache.apply([batch(14, del('x', 'b'))])
      t.equal(cache.readiness.kind, 'ready')
      t.same(namesIn(cache.snapshot()), ['a@13'])
      t.throws(
        () => cache.history.assertResumable(rev(13)),
        { name: 'RevisionExpiredError' },
        'what came in the meantime is not history',
      )
      cache.history.assertResumable(rev(14))
      h.replace(20, 'gap', unread('c', 20))
      t.throws(() => cache.readiness.assertReadable(), { name: 'WithheldError' }, 'a list has them as well')
      const refusals = h.warnings.filter((message) => message.startsWith('resource cannot be served'))
      t.equal(refusals.length, 2, 'each time said once in the log')
      t.match(refusals[0], reason)
      const values = h.warnings.filter((message) => message === 'value cannot be served')
      t.equal(values.length, encrypted > 0 ? 0 : 3, 'with the key of each value, unless they all are')
      t.end()
    })
  }
  void t.test('a read of etcd itself is refused, never answered with 404', async (t) => {
    const encrypted = keyValue(podKey('x', 'a'), Buffer.from('k8s:enc:aescbc:v1:key:secret'), 12)
    const { cache } = setUp({
      ingest: ingestPod,
      freshness: { trustsProgress: false, readKey: async () => encrypted },
    })
    await t.rejects(cache.reads.consistentObject(podKey('x', 'a')), {
      name: 'WithheldError',
      message: /encrypted at rest/,
    })
  })
  t.end()
})

void t.test('a state read while the history changes is returned, but not kept', async (t) => {
  let answer: (state: { revision: Revision; keyValues: KeyValue[] }) => void = () => {}
  const states: (number | null)[] = []
  const { cache, replace } = setUp({
    revision: 50,
    freshness: {
      readState: (revision) => {
        states.push(revision)
        return new Promise((resolve) => (answer = resolve))
      },
    },
  })
  const asked = cache.reads.snapshotAt(rev(20))
  await nextTurn()
  replace(40, 'history-changed')
  answer({ revision: rev(20), keyValues: [podKeyValue('x', 'old', 5)] })
  t.same(namesIn(await asked), ['old@5'])
  const again = cache.reads.snapshotAt(rev(20))
  await nextTurn()
  answer({ revision: rev(20), keyValues: [podKeyValue('x', 'new', 7)] })
  t.same(namesIn(await again), ['new@7'])
  t.same(states, [20, 20])
})

void t.test('a read that the storage refuses is no timeout, and its words are not for callers', async (t) => {
  const refusal = Object.assign(new Error('etcdserver: permission denied'), { code: 'permission-denied' })
  const currentRevision = (): Promise<never> => Promise.reject(refusal)
  const { cache } = setUp({ freshness: { trustsProgress: false, currentRevision, readState: currentRevision } })
  const message = "pods: the storage refuses this server's own reads"
  await t.rejects(cache.reads.consistentSnapshot(), { name: 'RefusedReadError', message })
})

void t.test('reads that share one read of the source share the sorted state', async (t) => {
  const state = { revision: rev(99), keyValues: [podKeyValue('x', 'a', 5)] }
  const { cache } = setUp({ freshness: { trustsProgress: false, readState: async () => state } })
  const [one, other] = await Promise.all([cache.reads.consistentSnapshot(), cache.reads.consistentSnapshot()])
  t.equal(one, other)
  t.same(namesIn(one), ['a@5'])
})

void t.test('waiting for a revision', (t) => {
  void t.test(
    'a wait ends when the revision arrives, by event or progress, and asks for progress in the meantime',
    async (t) => {
      const { cache, clock, asked } = setUp()
      await cache.reads.waitUntil(rev(10))
      t.equal(asked.progress, 0, 'nothing to wait for')
      const first = watched(cache.reads.waitUntil(rev(11)))
      const second = watched(cache.reads.waitUntil(rev(15)))
      t.equal(asked.progress, 1, 'asked at once')
      const more = Array.from({ length: 100 }, () => watched(cache.reads.waitUntil(rev(15))))
      t.equal(asked.progress, 1)
      clock.advance(5)
      t.equal(asked.progress, 2, 'and one more request serves all callers that came right after it')
      clock.advance(245)
      t.ok(asked.progress <= 6, `and every 100 ms: ${asked.progress} times in all`)
      cache.apply([batch(12, put('x', 'a', 12))])
      await nextTurn()
      t.same([first.state, second.state], ['done', 'pending'])
      cache.progress(rev(15))
      await nextTurn()
      t.ok([second, ...more].every(({ state }) => state === 'done'))
      t.equal(cache.reads.waiting, 0)
      t.equal(clock.pending, 0, 'no timer is left')
    },
  )
  void t.test('a wait is abandoned after 3 s: the resource version is too large', async (t) => {
    const { cache, clock } = setUp()
    const wait = watched(cache.reads.waitUntil(rev(11)))
    clock.advance(2_999)
    await nextTurn()
    t.equal(wait.state, 'pending')
    clock.advance(101)
    await nextTurn()
    t.ok(wait.error instanceof BehindError)
    t.match(wait.error, { requested: 11, current: 10 })
    t.equal(cache.reads.waiting, 0)
  })
  void t.test('a wait ends with its client, even one that had already left', async (t) => {
    const { cache, clock } = setUp()
    const controller = new AbortController()
    const wait = watched(cache.reads.waitUntil(rev(11), controller.signal))
    controller.abort()
    await nextTurn()
    t.equal(wait.state, 'failed')
    const late = watched(cache.reads.waitUntil(rev(11), controller.signal))
    await nextTurn()
    t.equal(late.state, 'failed')
    t.equal(cache.reads.waiting, 0)
    t.equal(clock.pending, 0)
  })
  t.end()
})

void t.test('a read as fresh as a linearizable one', (t) => {
  void t.test('where progress can be trusted, the cache answers once it has etcd’s revision', async (t) => {
    const { cache } = setUp({ freshness: { currentRevision: async () => rev(15) } })
    const read = watched(cache.reads.consistentSnapshot())
    await nextTurn()
    t.equal(read.state, 'pending', 'etcd is further than we are')
    cache.apply([batch(12, put('x', 'a', 12))])
    await nextTurn()
    t.equal(read.state, 'pending')
    cache.progress(rev(15))
    await nextTurn()
    t.equal(read.value?.revision, 15)
    t.same(namesIn(read.value!), ['a@12'])
  })
  void t.test('where progress cannot be trusted, etcd itself is read, and the cache does not advance', async (t) => {
    const keyValues = [podKeyValue('x', 'a', 5), podKeyValue('x', 'b', 12)]
    const { cache, told } = setUp({
      objects: [podKeyValue('x', 'a', 5)],
      freshness: { trustsProgress: false, readState: async () => ({ revision: rev(15), keyValues }) },
    })
    const snapshot = await cache.reads.consistentSnapshot()
    t.equal(snapshot.revision, 15)
    t.same(namesIn(snapshot), ['a@5', 'b@12'])
    t.equal(
      snapshot.get(podKey('x', 'a'))?.notes,
      cache.snapshot().get(podKey('x', 'a'))?.notes,
      'what is held is shared',
    )
    t.equal(cache.revision, 10, 'never a revision beyond every event and progress')
    t.same(namesIn(cache.snapshot()), ['a@5'])
    t.same(told.advances, [])
  })
  void t.test('where progress cannot be trusted, a state that is proved current is not read again', async (t) => {
    let summary = { revision: rev(15), count: 2, maxModRevision: 6 }
    let states = 0
    const { cache, clock } = setUp({
      objects: [podKeyValue('x', 'a', 5), podKeyValue('x', 'b', 6)],
      freshness: {
        trustsProgress: false,
        summariseKeys: async () => summary,
        readState: async () => {
          states++
          return { revision: rev(99), keyValues: [] }
        },
      },
    })
    const equal = await cache.reads.consistentSnapshot()
    t.equal(equal.revision, 15)
    t.same(namesIn(equal), ['a@5', 'b@6'])
    t.equal(cache.revision, 10, 'never a revision beyond every event and progress')
    t.equal(await cache.reads.consistentSnapshot(), equal, 'and readers of one summary share one state')

    summary = { revision: rev(17), count: 2, maxModRevision: 16 }
    const read = watched(cache.reads.consistentSnapshot())
    await nextTurn()
    t.equal(read.state, 'pending', 'the newest event is still to come')
    cache.apply([batch(16, put('x', 'a', 16, {}, 5))])
    await nextTurn()
    t.equal(read.value?.revision, 17)
    t.same(namesIn(read.value!), ['a@16', 'b@6'])

    const later = watched(cache.reads.consistentSnapshot())
    cache.apply([batch(18, del('x', 'b'))])
    await nextTurn()
    t.equal(later.value?.revision, 18, 'the cache is further than the summary')
    t.same(namesIn(later.value!), ['a@16'])
    t.equal(states, 0)
    t.equal(clock.pending, 0)
  })
  void t.test('a state that is not proved current is read from etcd', async (t) => {
    for (const [what, summary] of [
      ['a key has been deleted', { revision: rev(15), count: 1, maxModRevision: 6 }],
      ['an event does not come', { revision: rev(15), count: 2, maxModRevision: 12 }],
      ['the summary is older than the cache', { revision: rev(9), count: 2, maxModRevision: 6 }],
    ] as const) {
      const { cache, clock } = setUp({
        objects: [podKeyValue('x', 'a', 5), podKeyValue('x', 'b', 6)],
        freshness: {
          trustsProgress: false,
          summariseKeys: async () => summary,
          readState: async () => ({ revision: rev(16), keyValues: [podKeyValue('x', 'c', 16)] }),
        },
      })
      const read = watched(cache.reads.consistentSnapshot())
      await nextTurn()
      clock.advance(200)
      await nextTurn()
      t.same(namesIn(read.value!), ['c@16'], what)
    }
  })
  void t.test('a summary that crosses a loss of the source or a change of history proves no freshness', async (t) => {
    for (const [what, happens] of [
      ['loss', ({ cache }) => cache.disconnected('away')],
      ['change', ({ replace }) => replace(10, 'history-changed', podKeyValue('x', 'z', 7))],
    ] as const satisfies readonly (readonly [string, (h: ReturnType<typeof setUp>) => void])[]) {
      let answer: (summary: KeysSummary) => void = () => {}
      const h = setUp({
        objects: [podKeyValue('x', 'a', 5)],
        freshness: {
          trustsProgress: false,
          summariseKeys: () => new Promise((resolve) => (answer = resolve)),
          readState: async () => ({ revision: rev(16), keyValues: [podKeyValue('x', 'c', 16)] }),
        },
      })
      const read = watched(h.cache.reads.consistentSnapshot())
      await nextTurn()
      happens(h)
      answer({ revision: rev(10), count: 1, maxModRevision: 5 })
      await nextTurn()
      t.same(namesIn(read.value!), ['c@16'], what)
    }
  })
  void t.test('of many objects, the keys are read only when etcd is further than the cache', async (t) => {
    let revision = 10
    let summaries = 0
    const objects = Array.from({ length: 500 }, (_, i) => podKeyValue('x', `p${1000 + i}`, 5))
    const { cache } = setUp({
      objects,
      freshness: {
        trustsProgress: false,
        currentRevision: async () => rev(revision),
        summariseKeys: async () => {
          summaries++
          return { revision: rev(revision), count: 500, maxModRevision: 5 }
        },
      },
    })
    t.equal((await cache.reads.consistentSnapshot()).revision, 10)
    t.equal(summaries, 0)
    revision = 11
    t.equal((await cache.reads.consistentSnapshot()).revision, 11)
    t.equal(summaries, 1)
  })
  void t.test('a read times out when etcd does not answer or progress does not arrive', async (t) => {
    const silent = setUp({
      freshness: {
        currentRevision: async () => {
          throw new Error('etcd is away')
        },
      },
    })
    await t.rejects(silent.cache.reads.consistentSnapshot(), UnansweredError)
    const stuck = setUp({ freshness: { currentRevision: async () => rev(15) } })
    const read = watched(stuck.cache.reads.consistentSnapshot())
    await nextTurn()
    stuck.clock.advance(3_100)
    await nextTurn()
    t.ok(read.error instanceof UnansweredError)
  })
  void t.test('one object is read linearizably by its key where progress cannot be trusted', async (t) => {
    const { cache } = setUp({
      objects: [podKeyValue('x', 'a', 5), podKeyValue('x', 'c', 6)],
      freshness: {
        trustsProgress: false,
        readKey: async (key) =>
          key === podKey('x', 'a')
            ? podKeyValue('x', 'a', 12, {}, 5)
            : key === podKey('x', 'c')
              ? podKeyValue('x', 'c', 6)
              : null,
      },
    })
    t.equal((await cache.reads.consistentObject(podKey('x', 'a')))?.modRevision, 12)
    t.equal(
      (await cache.reads.consistentObject(podKey('x', 'c')))?.notes,
      cache.snapshot().get(podKey('x', 'c'))?.notes,
    )
    t.equal(await cache.reads.consistentObject(podKey('x', 'gone')), undefined)
    t.equal(cache.snapshot().get(podKey('x', 'a'))?.modRevision, 5, 'the cache does not move')
  })
  t.end()
})

void t.test('a read not older than a revision', (t) => {
  void t.test('the cache answers at once when it has the revision', async (t) => {
    const { cache } = setUp()
    t.equal((await cache.reads.snapshotNotOlderThan(rev(10))).revision, 10)
    t.equal((await cache.reads.snapshotNotOlderThan(rev(3))).revision, 10)
  })
  void t.test('where progress cannot be trusted, etcd itself is read after a moment', async (t) => {
    let revision = 15
    const { cache, clock } = setUp({
      freshness: { trustsProgress: false, readState: async () => ({ revision: rev(revision), keyValues: [] }) },
    })
    const read = watched(cache.reads.snapshotNotOlderThan(rev(13)))
    clock.advance(200)
    await nextTurn()
    t.equal(read.value?.revision, 15)
    t.equal(cache.revision, 10)
    revision = 12
    const late = watched(cache.reads.snapshotNotOlderThan(rev(13)))
    clock.advance(200)
    await nextTurn()
    t.equal(late.state, 'pending', 'etcd is not there either, and may be in time')
    clock.advance(3_100)
    await nextTurn()
    t.ok(late.error instanceof BehindError)
  })
  t.end()
})

void t.test('a page of a list that is ahead of the cache', async (t) => {
  const { cache, clock } = setUp()
  cache.disconnected('etcd closed the watch')
  const ahead = setUp({ revision: 20, objects: [podKeyValue('x', 'a', 15)] })
  cache.reads.keep(ahead.cache.snapshot())
  const page = watched(cache.reads.snapshotAt(rev(20)))
  await nextTurn()
  t.same(namesIn(page.value!), ['a@15'], 'it is kept, so nobody waits for the cache')
  const other = watched(cache.reads.snapshotAt(rev(21)))
  clock.advance(3_100)
  await nextTurn()
  t.ok(other.error instanceof BehindError)
})

void t.test('a read at exactly a revision', (t) => {
  const history = [
    batch(11, put('x', 'a', 11, {}, 5)),
    batch(13, put('x', 'b', 13), put('x', 'c', 13)),
    batch(14, del('x', 'a')),
    batch(16, put('x', 'a', 16), putUnservable('x', 'b', 16, 13)),
    batch(18, put('x', 'b', 18, {}, 13)),
  ]
  const states: [revision: number, names: string[]][] = [
    [10, ['a@5']],
    [11, ['a@11']],
    [12, ['a@11']],
    [13, ['a@11', 'b@13', 'c@13']],
    [14, ['b@13', 'c@13']],
    [15, ['b@13', 'c@13']],
    [16, ['a@16', 'c@13']],
    [17, ['a@16', 'c@13']],
    [18, ['a@16', 'b@18', 'c@13']],
    [19, ['a@16', 'b@18', 'c@13']],
  ]
  void t.test('an earlier state is rebuilt by walking the ring back', async (t) => {
    const { cache } = setUp({ objects: [podKeyValue('x', 'a', 5)] })
    cache.apply(history)
    cache.progress(rev(19))
    for (const [revision, names] of states) {
      const snapshot = await cache.reads.snapshotAt(rev(revision))
      t.same(namesIn(snapshot), names, `at ${revision}`)
      t.equal(snapshot.revision, revision)
      t.equal(await cache.reads.snapshotAt(rev(revision)), snapshot, 'and kept')
    }
    t.same(namesIn(cache.snapshot()), states.at(-1)![1], 'the present is untouched')
  })
  void t.test('takes a slot while it is rebuilt, and none if it is kept or is the current one', async (t) => {
    const { cache } = setUp({ objects: [podKeyValue('x', 'a', 5)] })
    cache.apply(history)
    let taken = 0
    let held = 0
    const enter = async (): Promise<() => void> => {
      taken++
      held++
      return () => held--
    }
    const snapshot = await cache.reads.snapshotAt(rev(12), undefined, enter)
    t.same([taken, held], [1, 0], 'and gives it back')
    t.equal(await cache.reads.snapshotAt(rev(12), undefined, enter), snapshot)
    await cache.reads.snapshotAt(cache.revision, undefined, enter)
    t.equal(taken, 1)
    const refused = new BusyError('no slot', 1)
    await t.rejects(
      cache.reads.snapshotAt(rev(13), undefined, () => Promise.reject(refused)),
      refused,
    )
  })
  void t.test('is not rebuilt from a ring that has evicted it in the meantime', async (t) => {
    const { cache } = setUp({
      ring: { maxItems: 8 },
      objects: [podKeyValue('x', 'a', 5)],
      freshness: { readState: async (revision) => ({ revision: revision!, keyValues: [podKeyValue('x', 'z', 9)] }) },
    })
    cache.apply(history)
    const read = cache.reads.snapshotAt(rev(11))
    for (let i = 30; i < 50; i++) cache.apply([batch(i, put('x', 'a', i))])
    t.same(namesIn(await read), ['z@9'], 'it is read from etcd')
  })
  void t.test(
    'a state below the ring is read from etcd, and answered with 410 if etcd has compacted it too',
    async (t) => {
      let reads = 0
      const { cache } = setUp({
        ring: { maxItems: 2 },
        objects: [podKeyValue('x', 'a', 5)],
        freshness: {
          readState: async (revision) => {
            reads++
            if (revision === 11) throw Object.assign(new Error('compacted'), { code: 'compacted' })
            return { revision: revision!, keyValues: [podKeyValue('x', 'a', 11, {}, 5), podKeyValue('x', 'q', 13)] }
          },
        },
      })
      cache.apply(history)
      t.equal(cache.history.floorRevision, 14)
      t.same(namesIn(await cache.reads.snapshotAt(rev(14))), states[4]![1], 'at the floor: rebuilt')
      t.equal(reads, 0)
      t.same(namesIn(await cache.reads.snapshotAt(rev(13))), ['a@11', 'q@13'], 'one below: read')
      await cache.reads.snapshotAt(rev(13))
      t.equal(reads, 1, 'and kept')
      await t.rejects(cache.reads.snapshotAt(rev(11)), RevisionExpiredError)
    },
  )
  void t.test('a state inside a coalesced gap is read from etcd', async (t) => {
    const { cache, replace } = setUp({
      freshness: { readState: async (revision) => ({ revision: revision!, keyValues: [podKeyValue('x', 'e', 12)] }) },
    })
    replace(20, 'coalesce', podKeyValue('x', 'a', 15))
    t.same(namesIn(await cache.reads.snapshotAt(rev(16))), ['e@12'])
    t.same(namesIn(await cache.reads.snapshotAt(rev(10))), [], 'across it the ring is right again')
  })
  void t.test('too many reads of old states are refused as too many requests', async (t) => {
    const busy = new BusyError('too many reads of old revisions at once', 1)
    const { cache, replace } = setUp({ freshness: { readState: () => Promise.reject(busy) } })
    replace(20, 'coalesce', podKeyValue('x', 'a', 15))
    await t.rejects(cache.reads.snapshotAt(rev(16)), busy)
  })
  void t.test('a future revision is waited for, then rejected as too large', async (t) => {
    const { cache, clock } = setUp()
    const read = watched(cache.reads.snapshotAt(rev(12)))
    cache.apply([batch(12, put('x', 'a', 12)), batch(13, put('x', 'b', 13))])
    while (read.value === undefined) await nextTurn()
    t.same(namesIn(read.value), ['a@12'], 'exactly, although more has come since')
    const never = watched(cache.reads.snapshotAt(rev(99)))
    clock.advance(3_100)
    await nextTurn()
    t.ok(never.error instanceof BehindError)
  })
  void t.test('a kept state outlives the ring', async (t) => {
    const { cache } = setUp({ ring: { maxItems: 1 }, objects: [podKeyValue('x', 'a', 5)] })
    const page = cache.snapshot()
    cache.reads.keep(page)
    cache.apply(history)
    t.equal(await cache.reads.snapshotAt(rev(10)), page)
  })
  t.end()
})

void t.test('a cache that is not listed yet gives a Retry-After, with growing delays', (t) => {
  const { cache, clock, replace } = setUp({ isListed: false })
  const retryAfter = (): number | undefined => {
    try {
      cache.readiness.assertReadable()
    } catch (error) {
      if (error instanceof BusyError) return error.retryAfterSeconds
      throw error
    }
    return undefined
  }
  const cases: [afterMs: number, seconds: number][] = [
    [0, 1],
    [1_000, 1],
    [9_000, 10],
    [10_000, 20],
    [100_000, 30],
  ]
  t.notOk(cache.isAwaited)
  for (const [afterMs, seconds] of cases) {
    clock.advance(afterMs)
    t.equal(retryAfter(), seconds, `after ${clock.monotonic()} ms`)
  }
  t.ok(cache.isAwaited, 'its feed may then go first')
  replace(10, 'initial')
  t.equal(retryAfter(), 30, 'the history after the list is still to come')
  cache.synced()
  t.equal(retryAfter(), undefined)
  t.end()
})

void t.test('a read waits for the first state, and if that takes too long may come back soon', async (t) => {
  const { cache, clock, replace } = setUp({ isListed: false })
  const loaded = (signal = new AbortController().signal): Outcome<void> => watched(cache.readiness.load(signal))
  const retryAfter = ({ error }: Outcome<void>): number | undefined =>
    error instanceof BusyError ? error.retryAfterSeconds : undefined
  const first = loaded()
  t.ok(cache.isAwaited, 'its feed may go first')
  clock.advance(3_000)
  await nextTurn()
  t.equal(retryAfter(first), 1)
  clock.advance(37_000)
  const later = loaded()
  clock.advance(3_000)
  await nextTurn()
  t.equal(retryAfter(later), 5)

  const leaving = new AbortController()
  const [waiting, left] = [loaded(), loaded(leaving.signal)]
  leaving.abort()
  replace(10, 'initial')
  await nextTurn()
  t.equal(waiting.state, 'pending', 'the history after the list is still to come')
  t.equal(left.state, 'failed')
  cache.synced()
  await nextTurn()
  t.equal(waiting.state, 'done')
  t.notOk(cache.readiness.isLoading)
})

for (const why of ['disconnected', 'refused'] as const) {
  void t.test(`a read stops waiting for the first state when the source is ${why}`, async (t) => {
    const { cache } = setUp({ isListed: false })
    const waiting = watched(cache.readiness.load(new AbortController().signal))
    cache[why]('no such host', false)
    await nextTurn()
    t.equal(waiting.state, 'done')
    t.notOk(cache.readiness.isLoading)
    t.throws(() => cache.readiness.assertReadable(), /storage does not answer|cannot list it at its source/)
  })
}

void t.test(
  'a resource that cannot be listed reports why; one that was listed before can be read, not watched',
  (t) => {
    const { cache, replace } = setUp({ isListed: false })
    cache.refused('permission denied', false)
    t.throws(
      () => cache.readiness.assertReadable(),
      new WithheldError('pods cannot be served: this server cannot list it at its source'),
    )
    t.match(cache.readiness, { kind: 'refused', refusal: 'permission denied' })
    replace(10, 'initial')
    cache.synced()
    cache.readiness.assertReadable()
    cache.refused('permission denied', false)
    t.equal(cache.source.disconnectedReason, 'permission denied')
    cache.readiness.assertReadable()
    cache.refused('permission denied', true)
    cache.readiness.assertReadable(false)
    t.throws(() => cache.readiness.assertReadable(), RefusedWatchError)
    t.equal(cache.source.disconnectedReason, 'permission denied')
    cache.disconnected('no such host')
    t.throws(() => cache.readiness.assertReadable(), RefusedWatchError, 'nothing says that it is allowed now')
    cache.refused('permission denied', false)
    t.throws(() => cache.readiness.assertReadable(), RefusedWatchError, 'and one more refusal least of all')
    cache.progress(rev(11))
    cache.readiness.assertReadable()
    t.end()
  },
)

void t.test('staleness counts from the last message of the source', (t) => {
  const { cache, clock } = setUp()
  clock.advance(5_000)
  t.equal(cache.source.ageMs, 0, 'silence is not staleness')
  cache.disconnected('reset by peer')
  clock.advance(2_000)
  cache.disconnected('connection refused')
  t.equal(cache.source.ageMs, 7_000, 'from the last word, not from noticing')
  t.equal(cache.source.disconnectedReason, 'connection refused')
  cache.progress(rev(10))
  t.equal(cache.source.ageMs, 0)
  t.equal(cache.source.disconnectedReason, null)
  clock.advance(3_600_000)
  cache.disconnected('a quiet hour, and a silent peer')
  t.equal(cache.source.ageMs, 9_000, 'a connection that was alive had nothing to tell')
  t.end()
})

void t.test(
  'a source that confirms the content is the only one to set the age, and at once when it is known to be unreachable',
  (t) => {
    const { cache, clock } = setUp()
    cache.confirmed(200, 1_800)
    clock.advance(1_600)
    t.equal(cache.source.ageMs, 0, 'the next confirmation is not due')
    clock.advance(1)
    t.equal(cache.source.ageMs, 1_801, 'it is late')
    cache.confirmed(300, 1_800)
    t.equal(cache.source.ageMs, 0)
    cache.disconnected('connection refused')
    t.equal(cache.source.ageMs, 300, 'from the confirmation, not from noticing')
    clock.advance(60_000)
    cache.progress(rev(10))
    t.equal(cache.source.ageMs, 60_300, 'an event alone confirms nothing')
    cache.confirmed(0, 1_800)
    t.equal(cache.source.ageMs, 0)
    t.end()
  },
)

void t.test('a consistent read of a source that is behind the cache answers 504, not the cached state', async (t) => {
  const { cache } = setUp({
    revision: 50,
    objects: [podKeyValue('default', 'a', 40)],
    freshness: { currentRevision: async () => rev(45) },
  })
  await t.rejects(cache.reads.consistentSnapshot(), UnansweredError)
  await t.rejects(cache.reads.consistentObject(podKey('default', 'a')), UnansweredError)
})

void t.test(
  'while the watch is down but etcd answers, a consistent get reads its key and a list the prefix',
  async (t) => {
    const newer = podKeyValue('default', 'a', 60)
    let states = 0
    let keys = 0
    const { cache, asked } = setUp({
      revision: 50,
      objects: [podKeyValue('default', 'a', 40)],
      freshness: {
        currentRevision: async () => rev(60),
        readKey: async () => (keys++, newer),
        readState: async () => (states++, { revision: rev(60), keyValues: [newer] }),
      },
    })
    cache.disconnected('cut')
    t.equal((await cache.reads.consistentObject(podKey('default', 'a')))?.modRevision, 60)
    t.same([keys, states], [1, 0], 'the key alone')
    t.equal((await cache.reads.consistentSnapshot()).get(podKey('default', 'a'))?.modRevision, 60)
    t.same([keys, states], [1, 1])
    t.equal(cache.revision, 50, 'what was read moves nothing')
    t.equal(asked.progress, 0)
  },
)

void t.test('while the watch is down, a value of the same revision is not mistaken for the cached one', async (t) => {
  const theirs = podKeyValue('default', 'a', 40, { labels: { of: 'another-history' } })
  const { cache } = setUp({
    revision: 50,
    objects: [podKeyValue('default', 'a', 40)],
    freshness: {
      currentRevision: async () => rev(50),
      readKey: async () => theirs,
      readState: async () => ({ revision: rev(50), keyValues: [theirs] }),
    },
  })
  cache.disconnected('restored in the meantime, perhaps')
  t.match((await cache.reads.consistentObject(podKey('default', 'a')))?.bytes.toString(), /another-history/)
  const listed = (await cache.reads.consistentSnapshot()).get(podKey('default', 'a'))
  t.match(listed?.bytes.toString(), /another-history/)
})

void t.test('memory shared between batches or with the store counts once in the history', async (t) => {
  const { cache } = setUp({ revision: 10 })
  const value = (i: number): KeyValue => podKeyValue('x', 'a', i, { labels: { filler: 'y'.repeat(10_000) } })
  for (let i = 11; i <= 20; i++) cache.apply([{ revision: rev(i), events: [{ type: 'put', keyValue: value(i) }] }])
  const { length } = cache.snapshot().get(podKey('x', 'a'))!.bytes
  t.ok(cache.history.stats.bytes >= 9 * length, 'nine versions that only the history holds')
  t.ok(cache.history.stats.bytes < 10 * length, 'and not the one that the store holds, nor any twice')
})

void t.test(
  'after objects are presented differently no watch resumes from before, and the state is unchanged',
  async (t) => {
    const { cache } = setUp({ revision: 10, objects: [podKeyValue('x', 'a', 5)] })
    cache.apply([batch(11, put('x', 'b', 11))])
    const { name } = cache.history
    cache.history.assertResumable(rev(10))
    cache.reread()
    t.not(cache.history.name, name, 'list bodies are rebuilt')
    for (const revision of [10, 11])
      t.throws(() => cache.history.assertResumable(rev(revision)), RevisionExpiredError, `${revision}`)
    t.equal(cache.contents.size, 2)
    cache.apply([batch(12, put('x', 'c', 12))])
    cache.history.assertResumable(rev(12))
  },
)

void t.test('without a write, a list at the revision of such a change can be followed by a watch in the end', (t) => {
  const { cache, clock } = setUp({ revision: 10, objects: [podKeyValue('x', 'a', 5)] })
  cache.reread()
  clock.advance(74_000)
  t.throws(() => cache.history.assertResumable(rev(10)), RevisionExpiredError, 'its client may have been away since')
  clock.advance(1_000)
  t.doesNotThrow(() => cache.history.assertResumable(rev(10)))
  t.throws(() => cache.history.assertResumable(rev(9)), RevisionExpiredError)
  t.end()
})

void t.test('another history is not held up by the presentation of the one before', (t) => {
  const { cache, replace } = setUp({ revision: 100 })
  cache.reread()
  t.throws(() => cache.history.assertResumable(rev(100)), RevisionExpiredError)
  replace(40, 'history-changed', podKeyValue('x', 'a', 30))
  t.doesNotThrow(() => cache.history.assertResumable(rev(40)), 'a restored etcd is behind the revision of the change')
  t.end()
})

void t.test('before the first list a change of presentation rejects no watch', async (t) => {
  const { cache } = setUp({ isListed: false })
  cache.reread()
  t.doesNotThrow(() => cache.history.assertResumable(rev(1)))
})

void t.test('history from before the first state', (t) => {
  const EARLIER = { replaced: [podKeyValue('x', 'a', 4), podKeyValue('x', 'gone', 2)], after: 5, until: 10 }
  const events = [batch(6, put('x', 'a', 6)), batch(8, put('x', 'b', 8)), batch(9, del('x', 'gone'))]
  const precede = (cache: WatchCache, { replaced, after, until }: typeof EARLIER, batches = events): void => {
    const earlier = cache.earlier(rev(after), rev(until))
    earlier.add(replaced)
    earlier.apply(batches)
    earlier.commit()
  }
  const present = [podKeyValue('x', 'a', 6), podKeyValue('x', 'b', 8), podKeyValue('x', 'c', 3)]

  void t.test('watches resume within it, with the values that its events replaced', async (t) => {
    const { cache, told } = setUp({ objects: present })
    const whole = setUp({ revision: 5, objects: [...EARLIER.replaced, podKeyValue('x', 'c', 3)] })
    whole.cache.apply([...events, batch(11, put('x', 'a', 11))])
    whole.cache.progress(rev(12))
    cache.apply([batch(11, put('x', 'a', 11))])
    cache.progress(rev(12))
    const digest = await cache.history.digestAt(rev(10))
    precede(cache, EARLIER)
    t.equal(cache.history.floorRevision, 5)
    t.ok(cache.history.isResumable(rev(5)))
    t.notOk(cache.history.isResumable(rev(4)))
    const after = (revision: number): string => textOf(cache.history.batchAfter(rev(revision))!)
    t.same([5, 6, 8, 9].map(after), ['6: ~a', '8: +b', '9: -gone', '11: ~a'])
    t.equal(cache.history.batchAfter(rev(5))!.events[0]!.previous!.modRevision, 4)
    t.same(namesIn((await cache.history.stateAt(rev(8)))!), ['a@6', 'b@8', 'c@3', 'gone@2'])
    for (const revision of [5, 7, 9, 10, 11, 12]) {
      t.equal(await cache.history.digestAt(rev(revision)), await whole.cache.history.digestAt(rev(revision)))
    }
    t.equal(await cache.history.digestAt(rev(10)), digest)
    t.same(told.batches, ['11: ~a'], 'it is not reported as new')
  })

  void t.test('it is refused if it leads to another state, or if later history is gone', (t) => {
    for (const objects of [[], present.slice(1), [podKeyValue('x', 'a', 5), present[1]!]]) {
      const { cache } = setUp({ objects })
      precede(cache, EARLIER)
      t.equal(cache.history.floorRevision, 10, 'another state')
    }
    const { cache } = setUp({ objects: present })
    cache.apply([batch(11, put('x', 'a', 11))])
    cache.history.shrinkTo(0)
    precede(cache, EARLIER)
    t.equal(cache.history.floorRevision, 11)
    const quiet = setUp({ objects: present })
    precede(quiet.cache, { ...EARLIER, replaced: [] }, [])
    t.equal(quiet.cache.history.floorRevision, 5, 'without events')
    t.end()
  })

  void t.test('it is refused if one of its values cannot be read, which would look like a deletion', (t) => {
    const unreadable = keyValue(podKey('x', 'a'), Buffer.from('text'), 6, 4)
    for (const [first, floor] of [
      [put('x', 'a', 6), 5],
      [{ type: 'put', keyValue: unreadable }, 10],
    ] as const) {
      const { cache } = setUp({ ingest: ingestPod, objects: [podKeyValue('x', 'a', 8)] })
      precede(cache, { ...EARLIER, replaced: [podKeyValue('x', 'a', 4)] }, [
        batch(6, first),
        batch(8, put('x', 'a', 8)),
      ])
      t.equal(cache.history.floorRevision, floor)
    }
    t.end()
  })

  void t.test('as much of it is kept as the byte limit allows', (t) => {
    const { cache } = setUp({ objects: present, ring: { maxBytes: 1_400 } })
    precede(cache, EARLIER)
    t.equal(cache.history.floorRevision, 6)
    t.equal(cache.history.stats.batches, 2)
    t.ok(cache.history.stats.bytes <= 1_400)
    t.end()
  })

  void t.test(
    'a client that resumes from before the first state waits for that history, for a limited time',
    async (t) => {
      const { cache, clock } = setUp({ objects: present })
      t.notOk(await cache.history.seek(rev(7), undefined))
      cache.seeking(true)
      t.notOk(await cache.history.seek(rev(10), undefined))
      const waiting = watched(cache.history.seek(rev(7), undefined))
      t.ok(cache.isAwaited, 'the feed learns that a client waits')
      await nextTurn()
      t.equal(waiting.state, 'pending')
      precede(cache, EARLIER)
      cache.seeking(false)
      await nextTurn()
      t.equal(waiting.state, 'done')
      t.ok(cache.history.isResumable(rev(7)))
      t.ok(waiting.value, 'it has waited')
      cache.seeking(true)
      const late = watched(cache.history.seek(rev(3), undefined))
      await clock.advanceInTurns(EARLIER_WAIT_MS - 1, 1)
      t.equal(late.state, 'pending')
      await clock.advanceInTurns(1, 1)
      t.equal(late.state, 'done')
    },
  )
  t.end()
})

import { drain } from '../../../src/engine/broadcast/endings.js'
import t from 'tap'
import { PacedEndings } from '../../../src/engine/broadcast/paced-endings.js'
import { Pump } from '../../../src/engine/broadcast/pump.js'
import type { BodyEncoder } from '../../../src/engine/model/body-encoder.js'
import { RefusedWatchError, UnservedError, WithheldError } from '../../../src/engine/model/errors.js'
import type { StoredObject } from '../../../src/engine/model/stored-object.js'
import { batch, columnsEncoder, del, plainEncoder, podKeyValue, put, rev, specEncoder } from '../../support/objects.js'
import { nextTurn, VirtualClock } from '../../support/virtual-clock.js'
import { TestOutput, type Watcher, createHarness } from './harness.js'

void t.test('watchers without time when an event arrives get it from the ring, like everything else', async (t) => {
  const { watch, apply, settle, dispatcher } = createHarness({ revision: 10, dispatchMs: 0 })
  const encoders = Array.from({ length: 50 }, (_, i): BodyEncoder => ({ ...plainEncoder, key: `plain ${i}` }))
  const watchers = encoders.map((encoder) => watch({ encoder }))
  const columns = watch({ encoder: columnsEncoder })
  const selected = watch({ labels: 'app=web' })
  const slow = watch({ output: new TestOutput() })
  slow.output.isFull = true
  await settle()
  const all = ['ADDED a@11', 'ADDED b@11', 'MODIFIED a@12', 'DELETED b@13']
  await apply(batch(11, put('x', 'a', 11, { labels: { app: 'web' } }), put('x', 'b', 11)))
  await apply(batch(12, put('x', 'a', 12)), batch(13, del('x', 'b')))
  for (const { seen } of watchers) t.same(seen, all)
  for (const { output } of watchers) {
    t.same(
      output.events.map(({ resumeAfter }) => resumeAfter),
      [null, 11, 12, 13],
      'whole revisions',
    )
  }
  t.equal(columns.output.events.length, 4)
  t.same(selected.seen, ['ADDED a@11', 'DELETED a@12'])
  slow.drain()
  await settle()
  t.same(slow.seen, all)
  t.ok(
    [...dispatcher.cursors].every(({ isAtHead }) => isAtHead),
    'all have come to the head',
  )
})

/** So large that the ring sends one at a time, and a log several at once. */
const LARGE: BodyEncoder = {
  ...plainEncoder,
  key: 'large',
  encode: (object, revision) => Buffer.concat([plainEncoder.encode(object, revision)!, Buffer.alloc(10_000, ' ')]),
}

void t.test('a burst to a few groups is not cut: their watchers stay in the log, and get it at once', async (t) => {
  for (const [unslicedGroups, state] of [
    [16, 'active'],
    [0, 'lagging'],
  ] as const) {
    const { watch, cache, apply, settle } = createHarness({ revision: 10, dispatchMs: 0, unslicedGroups })
    const watcher = watch()
    await settle()
    await apply(batch(11, put('x', 'a', 11)))
    cache.apply([batch(12, put('x', 'a', 12)), batch(13, put('x', 'a', 13))])
    t.equal(watcher.cursor.state, state, `${unslicedGroups} groups are not sliced`)
    await settle()
    t.same(watcher.seen, ['ADDED a@11', 'MODIFIED a@12', 'MODIFIED a@13'])
    // A replay from the ring ends its write after a millisecond, which a busy machine may take for each event.
    if (state === 'active') t.equal(watcher.output.writes.length, 2)
  }
})

void t.test(
  'a lagging watcher gets small events of several revisions in one write, and large ones separately',
  async (t) => {
    const { watch, settle, apply } = createHarness({ revision: 10 })
    await apply(...Array.from({ length: 400 }, (_, i) => batch(11 + i, put('x', `a${i}`, 11 + i))))
    const [small, large, selected] = [
      watch({ start: 10 }),
      watch({ start: 10, encoder: LARGE }),
      watch({ start: 10, fields: 'metadata.name=a399' }),
    ]
    await settle()
    t.equal(small.seen.length, 400)
    t.same(
      small.seen.map((event) => Number(event.split('@')[1])),
      Array.from({ length: 400 }, (_, i) => 11 + i),
    )
    t.ok(
      small.output.writes.every(({ length }) => length <= 16 * 1024),
      'a socket that is full holds no more than this',
    )
    t.equal(large.output.writes.length, 400)
    t.ok(small.output.writes.length < large.output.writes.length, 'one write has several events')
    t.same(selected.seen, ['ADDED a399@410'])
  },
)

void t.test('when events arrive faster than they leave, a log keeps only events that are needed', async (t) => {
  const pump = new Pump({ sliceMs: 0.001, dispatchMs: 60_000, metrics: { slice: () => {} } })
  const { watch, cache, settle, logBytes } = createHarness({
    revision: 10,
    pump,
    logBytes: 2 ** 30,
    allLogBytes: 2 ** 30,
  })
  const watchers = Array.from({ length: 100 }, () => watch({ encoder: LARGE }))
  await settle()
  let most = 0
  for (let i = 0; i < 1_000; i++) {
    cache.apply([batch(11 + i, put('x', `a${i}`, 11 + i))])
    await nextTurn()
    most = Math.max(most, logBytes())
  }
  await settle()
  for (const { seen } of watchers) t.equal(seen.length, 1_000)
  t.ok(most < 2 ** 20, `${most} bytes of 10 MB`)
})

void t.test(
  'groups with many watchers are dispatched before groups of one, in whatever order they joined',
  async (t) => {
    const { watch, cache, apply, settle } = createHarness({ revision: 10, dispatchMs: 0, unslicedGroups: 16 })
    const encoders = Array.from({ length: 200 }, (_, i): BodyEncoder => ({ ...plainEncoder, key: `plain ${i}` }))
    const loners = encoders.map((encoder) => watch({ encoder }))
    const selectors = encoders.map((_, i) => watch({ labels: `app!=${i}` }))
    const selected = Array.from({ length: 20 }, () => watch({ labels: 'app!=web' }))
    const many = Array.from({ length: 20 }, () => watch())
    await settle()
    await apply(batch(11, put('x', 'a', 11)))
    const statesOf = (watchers: readonly Watcher[]): string[] => [
      ...new Set(watchers.map(({ cursor }) => cursor.state)),
    ]
    t.same(statesOf([...loners, ...many]), ['active'])
    cache.apply([batch(12, put('x', 'a', 12)), batch(13, put('x', 'a', 13))])
    t.same(statesOf(many), ['active'], 'from the log')
    t.same(statesOf(selected), ['active'], 'by a selector too')
    t.ok(statesOf(loners).includes('lagging'), 'the others from the ring')
    await settle()
    const all = ['ADDED a@11', 'MODIFIED a@12', 'MODIFIED a@13']
    for (const { seen } of [...loners, ...selectors, ...selected, ...many]) t.same(seen, all)
  },
)

void t.test('a watch from a revision', (t) => {
  void t.test('a watcher at the head gets each new revision in one write', async (t) => {
    const { watch, apply } = createHarness({ revision: 10 })
    const watcher = watch()
    await apply(batch(11, put('x', 'a', 11), put('x', 'b', 11)))
    await apply(batch(12, put('x', 'a', 12)))
    await apply(batch(13, del('x', 'b')))
    t.same(watcher.seen, ['ADDED a@11', 'ADDED b@11', 'MODIFIED a@12', 'DELETED b@13'])
    t.equal(watcher.output.writes.length, 3)
    t.same(
      watcher.output.events.map(({ resumeAfter }) => resumeAfter),
      [null, 11, 12, 13],
      'no point to resume from lies inside a revision',
    )
    t.equal(watcher.cursor.state, 'active')
  })
  void t.test('a watcher from the past gets all later events, one from the future no earlier ones', async (t) => {
    const { watch, apply, settle } = createHarness({ revision: 10 })
    for (let i = 11; i <= 14; i++) await apply(batch(i, put('x', `p${i}`, i)))
    const cases: [start: number, seen: string[]][] = [
      [10, ['ADDED p11@11', 'ADDED p12@12', 'ADDED p13@13', 'ADDED p14@14', 'ADDED p15@15', 'ADDED p17@17']],
      [12, ['ADDED p13@13', 'ADDED p14@14', 'ADDED p15@15', 'ADDED p17@17']],
      [14, ['ADDED p15@15', 'ADDED p17@17']],
      [15, ['ADDED p17@17']],
      [16, ['ADDED p17@17']],
      [17, []],
      [18, []],
    ]
    const watchers = cases.map(([start]) => watch({ start }))
    await settle()
    await apply(batch(15, put('x', 'p15', 15)))
    await apply(batch(17, put('x', 'p17', 17)))
    for (const [i, [start, seen]] of cases.entries()) t.same(watchers[i]!.seen, seen, `after ${start}`)
    t.same(
      watchers.map(({ cursor }) => cursor.state),
      ['active', 'active', 'active', 'active', 'active', 'active', 'waiting'],
    )
  })
  void t.test('a watcher from below the floor is rejected at once', async (t) => {
    const { watch, apply, dispatcher } = createHarness({ revision: 10, ring: { maxItems: 2 } })
    for (let i = 11; i <= 14; i++) await apply(batch(i, put('x', `p${i}`, i)))
    t.throws(() => watch({ start: 11 }), { name: 'RevisionExpiredError', requested: 11, oldest: 13 })
    watch({ start: 12 })
    t.equal([...dispatcher.groups].length, 1, 'a refused one leaves no group')
  })
  void t.test('many watchers join a busy log from the ring without a hole or an overlap', async (t) => {
    const { watch, cache, settle } = createHarness({ revision: 10 })
    const first = watch()
    const watchers = []
    for (let i = 11; i <= 60; i++) {
      cache.apply([batch(i, put('x', `p${i}`, i))])
      watchers.push({ start: i - 5 < 10 ? 10 : i - 5, watcher: watch({ start: Math.max(10, i - 5) }) })
      if (i % 7 === 0) await settle()
    }
    await settle()
    t.equal(first.seen.length, 50)
    for (const { start, watcher } of watchers) {
      t.same(
        watcher.seen,
        Array.from({ length: 60 - start }, (_, k) => `ADDED p${start + 1 + k}@${start + 1 + k}`),
      )
    }
  })
  t.end()
})

void t.test('a watch from a state', (t) => {
  const objects = [podKeyValue('x', 'a', 5), podKeyValue('x', 'b', 7), podKeyValue('y', 'c', 6)]
  void t.test('a watcher gets the objects, the mark of their end, then the stream', async (t) => {
    const { watch, apply, settle, cache } = createHarness({ revision: 10, objects })
    const watcher = watch({ start: 'initial' })
    cache.apply([batch(11, put('x', 'a', 11, {}, 5))])
    await settle()
    await apply(batch(12, del('x', 'b')))
    t.same(watcher.seen, ['ADDED a@5', 'ADDED b@7', 'ADDED c@6', 'INITIAL-END @10', 'MODIFIED a@11', 'DELETED b@12'])
    t.same(
      watcher.output.events.map(({ resumeAfter }) => resumeAfter),
      [null, null, null, 10, 11, 12],
    )
    t.ok(watcher.isInitialComplete)
  })
  void t.test('the state covers one namespace and one selector; an empty one is complete as well', async (t) => {
    const { watch, settle } = createHarness({ revision: 10, objects })
    const x = watch({ start: 'initial', namespace: 'x' })
    const none = watch({ start: 'initial', labels: 'app=none' })
    await settle()
    t.same(x.seen, ['ADDED a@5', 'ADDED b@7', 'INITIAL-END @10'])
    t.same(none.seen, ['INITIAL-END @10'])
  })
  void t.test('a state ahead of the cache is not sent again when the cache gets there', async (t) => {
    const ahead = [podKeyValue('x', 'a', 5), podKeyValue('x', 'b', 12)]
    const harness = createHarness({
      revision: 10,
      objects: [podKeyValue('x', 'a', 5)],
      freshness: { trustsProgress: false, readState: async () => ({ revision: rev(13), keyValues: ahead }) },
    })
    const { watch, apply, settle, cache, clock } = harness
    const snapshot = await cache.reads.consistentSnapshot()
    const start = { kind: 'initial', snapshot, minRevision: snapshot.revision, marksEnd: true } as const
    const watcher = watch({ start, bookmarks: true })
    await settle()
    t.equal(watcher.cursor.state, 'waiting')
    clock.advance(120_000)
    await apply(batch(12, put('x', 'b', 12)))
    await apply(batch(13, put('x', 'z', 13), del('x', 'z')))
    await apply(batch(14, put('x', 'b', 14, {}, 12)))
    t.same(
      watcher.seen.filter((seen) => !seen.startsWith('BOOKMARK')),
      ['ADDED a@5', 'ADDED b@12', 'INITIAL-END @13', 'MODIFIED b@14'],
    )
  })
  void t.test(
    'watchers that start together share the bytes, and late ones share a state that is fresh enough',
    async (t) => {
      let encoded = 0
      const encoder: BodyEncoder = {
        ...plainEncoder,
        encode: (object, revision) => {
          encoded++
          return plainEncoder.encode(object, revision)
        },
      }
      const many = Array.from({ length: 100 }, (_, i) => podKeyValue('x', `p${i}`, 5))
      const { watch, apply, settle, cache, clock } = createHarness({ revision: 10, objects: many })
      const output = new TestOutput()
      output.isFull = true
      const first = watch({ start: 'initial', encoder, output })
      for (let i = 0; i < 20; i++) watch({ start: 'initial', encoder })
      await settle()
      t.equal(encoded, 100)
      await apply(batch(11, put('x', 'p0', 11, {}, 5)))
      encoded = 0
      const snapshot = cache.snapshot()
      const any = watch({ start: { kind: 'initial', snapshot, minRevision: rev(0), marksEnd: true }, encoder })
      const fresh = watch({ start: { kind: 'initial', snapshot, minRevision: rev(11), marksEnd: true }, encoder })
      t.equal(any.cursor.initial, first.cursor.initial, 'as old as this will do')
      t.not(fresh.cursor.initial, first.cursor.initial)
      clock.advance(2_000)
      const later = watch({ start: { kind: 'initial', snapshot, minRevision: rev(0), marksEnd: true }, encoder })
      t.not(later.cursor.initial, first.cursor.initial, 'but not forever')
      await settle()
      for (const { seen } of [any, fresh, later]) t.equal(seen.filter((text) => text.startsWith('ADDED')).length, 100)
    },
  )
  void t.test('a state whose history is gone is no longer shared', async (t) => {
    const { watch, apply, settle, cache } = createHarness({ revision: 10, objects, ring: { maxItems: 1 } })
    const output = new TestOutput()
    output.isFull = true
    watch({ start: 'initial', output })
    await settle()
    await apply(batch(11, put('x', 'a', 11, {}, 5)), batch(12, put('x', 'a', 12, {}, 5)))
    const start = { kind: 'initial', snapshot: cache.snapshot(), minRevision: rev(0), marksEnd: true } as const
    const watcher = watch({ start })
    await settle()
    t.same(watcher.seen, ['ADDED a@12', 'ADDED b@7', 'ADDED c@6', 'INITIAL-END @12'])
  })
  void t.test('a state whose history is evicted before its end stops with an ERROR', async (t) => {
    const large = [podKeyValue('x', 'a', 5, { padding: 70_000 }), podKeyValue('x', 'b', 5, { padding: 70_000 })]
    const { watch, apply, settle } = createHarness({ revision: 10, objects: large, ring: { maxItems: 1 } })
    const watcher = watch({ start: 'initial' })
    watcher.output.isFull = true
    await settle()
    t.same(watcher.seen, ['ADDED a@5'])
    await apply(batch(11, put('x', 'c', 11)), batch(12, put('x', 'c', 12, {}, 11)))
    watcher.drain()
    await settle()
    t.same(watcher.seen, ['ADDED a@5', 'ERROR 410'])
    t.notOk(watcher.isInitialComplete)
  })
  for (const [how, act] of [
    ['drained', (h: ReturnType<typeof createHarness>, w: ReturnType<typeof h.watch>) => drain(w.cursor)],
    ['at its deadline', (h: ReturnType<typeof createHarness>) => h.clock.advance(5_000)],
    ['with its resource', (h: ReturnType<typeof createHarness>) => h.dispatcher.close()],
    ['with its version', (h: ReturnType<typeof createHarness>) => h.dispatcher.endVersion('v1')],
  ] as const) {
    void t.test(
      `a state that is stopped ${how} before its end stops with an ERROR, never with a clean end`,
      async (t) => {
        const harness = createHarness({ revision: 10, objects })
        const watcher = harness.watch({ start: 'initial', timeoutMs: 4_000 })
        watcher.output.isFull = true
        await harness.settle()
        const other = harness.watch({ start: 10, timeoutMs: 4_000 })
        t.equal(watcher.cursor.state, 'initial')
        act(harness, watcher)
        t.same(watcher.seen.at(-1), 'ERROR 503')
        t.ok(watcher.output.isEnded)
        if (how !== 'drained') t.same([other.seen, other.output.isEnded], [[], true], 'a stream ends cleanly')
      },
    )
  }
  t.end()
})

void t.test('selectors', (t) => {
  void t.test(
    'an object that moves in is ADDED, one that moves out DELETED in its old form, at the revision of the move',
    async (t) => {
      const { watch, apply } = createHarness({ revision: 10 })
      const web = watch({ labels: 'app=web' })
      const n1 = watch({ fields: 'spec.nodeName=n1' })
      await apply(batch(11, put('x', 'a', 11, { labels: { app: 'web' }, nodeName: 'n1' })))
      await apply(batch(12, put('x', 'a', 12, { labels: { app: 'db' }, nodeName: 'n1' }, 11)))
      await apply(batch(13, put('x', 'a', 13, { labels: { app: 'web' } }, 11)))
      await apply(batch(14, del('x', 'a')))
      t.same(web.seen, ['ADDED a@11', 'DELETED a@12', 'ADDED a@13', 'DELETED a@14'])
      t.same(web.output.events[1]!.object.metadata.labels, { app: 'web' })
      t.same(n1.seen, ['ADDED a@11', 'MODIFIED a@12', 'DELETED a@13'])
      t.equal(n1.output.events[2]!.object.spec?.nodeName, 'n1')
    },
  )
  void t.test('a watcher of one namespace sees no event of another with the same prefix', async (t) => {
    const { watch, apply } = createHarness({ revision: 10 })
    const watcher = watch({ namespace: 'x' })
    await apply(batch(11, put('xy', 'a', 11), put('x', 'b', 11)))
    t.same(watcher.seen, ['ADDED b@11'])
  })
  void t.test('an event is encoded once for all watchers that want the same bytes', async (t) => {
    let encoded = 0
    const encoder: BodyEncoder = {
      ...plainEncoder,
      encode: (object, revision) => {
        encoded++
        return plainEncoder.encode(object, revision)
      },
    }
    const { watch, apply, settle } = createHarness({ revision: 10 })
    for (let i = 0; i < 100; i++) watch({ encoder })
    for (let i = 0; i < 100; i++) watch({ encoder, namespace: 'x', labels: `app!=a${i}` })
    await settle()
    await apply(batch(11, put('x', 'a', 11)))
    t.equal(encoded, 1)
  })
  t.end()
})

void t.test('with fields=, a change to fields that are not shown is not sent, and bookmarks continue', async (t) => {
  const { watch, apply, clock, settle } = createHarness({ revision: 10 })
  const watcher = watch({ encoder: specEncoder, bookmarks: true })
  await apply(batch(11, put('x', 'a', 11, { nodeName: 'n1' })))
  await apply(batch(12, put('x', 'a', 12, { nodeName: 'n1', phase: 'Failed' }, 11)))
  const late = watch({ encoder: specEncoder, start: 10 })
  await settle()
  clock.advance(61_000)
  await apply(batch(13, put('x', 'a', 13, { nodeName: 'n2' }, 11)))
  t.same(watcher.seen, ['ADDED a@11', 'BOOKMARK @12', 'MODIFIED a@13'])
  t.same(late.seen, ['ADDED a@11', 'MODIFIED a@13'], 'the same from the ring')
})

void t.test('a Table', (t) => {
  const columns = (watcher: { output: TestOutput }): (true | undefined)[] =>
    watcher.output.events.filter(({ type }) => type !== 'BOOKMARK').map(({ object }) => object.columns)
  void t.test('a Table has columns in the first event of each watcher and in no other', async (t) => {
    const { watch, apply, settle } = createHarness({
      revision: 10,
      objects: [podKeyValue('x', 'a', 5), podKeyValue('x', 'b', 6)],
    })
    const first = watch({ encoder: columnsEncoder })
    await settle()
    t.equal(first.cursor.state, 'lagging', 'it waits for its first event')
    t.equal(first.cursor.shownState, 'active', 'and misses nothing')
    await apply(batch(11, put('x', 'c', 11), put('x', 'd', 11)))
    await apply(batch(12, put('x', 'e', 12)))
    const second = watch({ encoder: columnsEncoder })
    const initial = watch({ encoder: columnsEncoder, start: 'initial' })
    await settle()
    await apply(batch(13, put('x', 'f', 13)))
    t.same(columns(first), [true, undefined, undefined, undefined])
    t.same(first.seen, ['ADDED c@11', 'ADDED d@11', 'ADDED e@12', 'ADDED f@13'])
    t.same(columns(second), [true])
    t.same(columns(initial), [true, undefined, undefined, undefined, undefined, undefined])
    t.equal(first.cursor.state, 'active')
  })
  void t.test('a watcher of Tables whose first event takes long never falls out of the ring', async (t) => {
    const { watch, apply, clock, settle } = createHarness({ revision: 10, ring: { maxItems: 2 } })
    const watcher = watch({ encoder: columnsEncoder, namespace: 'quiet', bookmarks: true })
    await settle()
    // A bookmark that fills the socket, and a while until it drains.
    watcher.output.isFull = true
    clock.advance(61_000)
    for (let i = 11; i <= 20; i++) await apply(batch(i, put('busy', 'a', i, {}, 11)))
    clock.advance(50_000)
    t.equal(watcher.endReason, null, 'not stuck: it stands at the head')
    watcher.drain()
    await settle()
    await apply(batch(21, put('quiet', 'a', 21)))
    t.same(
      watcher.seen.filter((seen) => !seen.startsWith('BOOKMARK')),
      ['ADDED a@21'],
    )
    t.same(columns(watcher), [true])
  })
  t.end()
})

void t.test('bookmarks', (t) => {
  void t.test('bookmarks come about once a minute, at the head, for watchers that asked for them', async (t) => {
    const { watch, apply, clock, cache } = createHarness({ revision: 10 })
    const watcher = watch({ bookmarks: true, labels: 'app=none' })
    const other = watch({ labels: 'app=none' })
    await apply(batch(11, put('x', 'a', 11)))
    clock.advance(53_000)
    t.same(watcher.seen, [])
    clock.advance(7_250)
    t.same(watcher.seen, ['BOOKMARK @11'], 'although nothing concerned it')
    cache.progress(rev(40))
    clock.advance(60_250)
    t.same(watcher.seen, ['BOOKMARK @11', 'BOOKMARK @40'])
    t.same(other.seen, [])
  })
  void t.test(
    'bookmarks of a quiet resource advance: progress is requested shortly before, once for all watchers',
    async (t) => {
      let head = 40
      const asked: number[] = []
      const freshness = {
        requestProgress: () => {
          asked.push(h.clock.monotonic())
          h.cache.progress(rev((head += 10)))
        },
      }
      const h = createHarness({ revision: 10, freshness })
      h.cache.synced()
      const watchers = Array.from({ length: 200 }, () => h.watch({ bookmarks: true, timeoutMs: 1e7 }))
      h.watch({ timeoutMs: 1e7 })
      h.clock.advance(61_000)
      await h.settle()
      for (const { seen } of watchers)
        t.match(seen, [/^BOOKMARK @[5-9]0$|^BOOKMARK @1[0-9]0$/], 'beyond where it began')
      t.ok(asked.length >= 1 && asked.length <= 15, `${asked.length} questions for 200 bookmarks`)
      for (let i = 1; i < asked.length; i++) t.ok(asked[i]! - asked[i - 1]! >= 500, 'at most two a second')
    },
  )
  void t.test('no progress is requested from a source whose progress cannot be trusted', async (t) => {
    const asked: number[] = []
    const freshness = { trustsProgress: false, requestProgress: () => asked.push(1) }
    const h = createHarness({ revision: 10, freshness })
    h.cache.synced()
    const watcher = h.watch({ bookmarks: true, timeoutMs: 1e7 })
    await h.settle()
    h.clock.advance(61_000)
    t.same(watcher.seen, ['BOOKMARK @10'])
    t.same(asked, [])
  })
  void t.test('bookmarks wait for a full socket and then have the revision of the head', async (t) => {
    const { watch, apply, clock, settle } = createHarness({ revision: 10 })
    const watcher = watch({ bookmarks: true })
    watcher.output.isFull = true
    await apply(batch(11, put('x', 'a', 11)))
    await apply(batch(12, put('x', 'b', 12)))
    clock.advance(61_000)
    t.same(watcher.seen, ['ADDED a@11'])
    watcher.drain()
    await settle()
    t.same(watcher.seen, ['ADDED a@11', 'ADDED b@12', 'BOOKMARK @12'])
  })
  void t.test('no bookmark is written between an event and its write', async (t) => {
    const { watch, cache, clock, settle } = createHarness({ revision: 10 })
    const watcher = watch({ bookmarks: true })
    await settle()
    clock.advance(50_000)
    cache.apply([batch(11, put('x', 'a', 11))])
    clock.advance(11_000)
    t.same(watcher.seen, [], 'it fell due while the event was in the log')
    await settle()
    t.same(watcher.seen, ['ADDED a@11', 'BOOKMARK @11'])
  })
  void t.test('the last bookmark comes 2 s before the deadline, then a clean end', async (t) => {
    const { watch, clock, settle, apply } = createHarness({ revision: 10 })
    const watcher = watch({ bookmarks: true, timeoutMs: 30_000 })
    const plain = watch({ timeoutMs: 30_000 })
    await apply(batch(11, put('x', 'a', 11)))
    clock.advance(27_900)
    t.same(watcher.seen, ['ADDED a@11'])
    clock.advance(400)
    t.same(watcher.seen, ['ADDED a@11', 'BOOKMARK @11'])
    clock.advance(1_600)
    t.notOk(watcher.output.isEnded, 'not before the deadline')
    clock.advance(400)
    await settle()
    t.same(watcher.seen, ['ADDED a@11', 'BOOKMARK @11'])
    t.same([watcher.endReason, plain.endReason], ['timeout', 'timeout'])
    t.ok(watcher.output.isEnded && plain.output.isEnded)
    t.same(plain.seen, ['ADDED a@11'])
  })
  t.end()
})

void t.test('slow readers', (t) => {
  void t.test('a slow reader continues where it was if the log still has that', async (t) => {
    const { watch, apply, settle } = createHarness({ revision: 10 })
    const watcher = watch()
    await settle()
    watcher.output.isFull = true
    for (let i = 11; i <= 20; i++) await apply(batch(i, put('x', `p${i}`, i)))
    t.same(watcher.seen, ['ADDED p11@11'])
    t.equal(watcher.cursor.state, 'active')
    watcher.drain()
    await settle()
    t.same(
      watcher.seen,
      Array.from({ length: 10 }, (_, i) => `ADDED p${i + 11}@${i + 11}`),
    )
    t.equal(watcher.output.writes.length, 2, 'nine revisions in one write')
  })
  void t.test('a slow reader falls back to the ring when the log was trimmed, and returns to the log', async (t) => {
    const { watch, apply, settle } = createHarness({ revision: 10, logBytes: 4_096 })
    const watcher = watch()
    const fast = watch()
    await settle()
    watcher.output.isFull = true
    for (let i = 11; i <= 110; i++) await apply(batch(i, put('x', `p${i}`, i)))
    watcher.drain()
    await settle()
    t.same(watcher.seen, fast.seen)
    t.equal(watcher.seen.length, 100)
    t.equal(watcher.cursor.state, 'active')
  })
  void t.test('a slow reader gets 410 when the ring has moved past it', async (t) => {
    const { watch, apply, settle } = createHarness({ revision: 10, logBytes: 4_096, ring: { maxItems: 5 } })
    const watcher = watch()
    await settle()
    watcher.output.isFull = true
    for (let i = 11; i <= 110; i++) await apply(batch(i, put('x', `p${i}`, i)))
    watcher.drain()
    await settle()
    t.same(watcher.seen, ['ADDED p11@11', 'ERROR 410'])
    t.match(watcher.output.events[1]!.object.message, /^too old resource version: 11 \(\d+\)$/)
    t.equal(watcher.endReason, 'expired')
  })
  void t.test('a reader that has every event does not get 410, however old its last one is', async (t) => {
    const { watch, apply, settle } = createHarness({ revision: 10, logBytes: 4_096, ring: { maxItems: 60 } })
    const watcher = watch({ namespace: 'quiet' })
    const others = watch()
    await settle()
    watcher.output.isFull = true
    await apply(batch(11, put('quiet', 'a', 11)))
    for (let i = 12; i <= 200; i++) await apply(batch(i, put('busy', 'a', i, {}, 12)))
    // More than its log holds, and less than the ring does.
    for (let i = 201; i <= 250; i++) await apply(batch(i, put('quiet', 'a', i, {}, 11)))
    watcher.drain()
    await settle()
    t.same(watcher.seen, ['ADDED a@11', ...Array.from({ length: 50 }, (_, i) => `MODIFIED a@${201 + i}`)])
    t.equal(others.seen.length, 240)
  })
  void t.test('a client that does not read its initial state for 30 s loses its slot', async (t) => {
    const { watch, apply, clock, settle } = createHarness({ revision: 10 })
    for (let i = 11; i < 16; i++) await apply(batch(i, put('x', `p${i}`, i)))
    const watcher = watch({ start: 'initial', timeoutMs: 1e7 })
    watcher.output.isFull = true
    watcher.cursor.write({ bytes: Buffer.alloc(0), checksum: null })
    await settle()
    clock.advance(25_000)
    t.equal(watcher.endReason, null)
    clock.advance(15_000)
    t.equal(watcher.endReason, 'stuck')
  })
  void t.test('a reader that drips through an initial state loses its slot, a steady one keeps it', async (t) => {
    const { watch, apply, clock, settle } = createHarness({ revision: 10 })
    // 200 units of about 64 KB.
    const padding = 64 * 1024
    for (let i = 11; i < 211; i++) await apply(batch(i, put('x', `p${i}`, i, { padding })))
    const open = (): Watcher => watch({ start: 'initial', timeoutMs: 1e7 })
    const [drip, steady] = [open(), open()]
    drip.output.isFull = true
    steady.output.isFull = true
    await settle()
    for (let second = 5; second <= 120 && drip.endReason === null; second += 5) {
      clock.advance(5_000)
      if (second % 25 === 0) drip.cursor.drained()
      // Enough bytes to be well above the requested amount.
      for (let i = 0; i < 8; i++) {
        steady.cursor.drained()
        await settle()
      }
    }
    t.equal(drip.endReason, 'slow')
    t.ok(drip.output.isDestroyed)
    t.notOk(drip.isInitialComplete)
    t.equal(steady.endReason, null)
  })
  void t.test('stuck below the floor for 30 s are destroyed; stuck above it never', async (t) => {
    const { watch, apply, clock, settle, dispatcher } = createHarness({ revision: 10, ring: { maxItems: 5 } })
    const below = watch({ timeoutMs: 1e7 })
    const quiet = watch({ namespace: 'quiet', timeoutMs: 1e7 })
    await settle()
    below.output.isFull = true
    quiet.output.isFull = true
    await apply(batch(11, put('quiet', 'a', 11)))
    for (let i = 12; i <= 40; i++) await apply(batch(i, put('busy', 'a', i, {}, 12)))
    // The log of the first watcher still holds the missing events, but it is no use once the ring does not reach back.
    await apply(batch(41, put('quiet', 'a', 41, {}, 11)))
    clock.advance(29_000)
    t.notOk(below.output.isDestroyed)
    clock.advance(10_000)
    t.ok(below.output.isDestroyed)
    t.equal(below.endReason, 'stuck')
    clock.advance(600_000)
    t.notOk(quiet.output.isDestroyed)
    quiet.drain()
    await settle()
    t.same(quiet.seen, ['ADDED a@11', 'MODIFIED a@41'])
    t.equal(dispatcher.watchers, 1)
  })
  void t.test('slow readers in ten thousand groups hold no more than the limit for all logs', async (t) => {
    const allLogBytes = 256 * 1024
    const { watch, apply, settle, logBytes } = createHarness({ revision: 10, allLogBytes, ring: { maxItems: 100 } })
    const watchers = Array.from({ length: 100 }, (_, i) => watch({ labels: `app!=a${i}` }))
    await settle()
    for (const { output } of watchers) output.isFull = true
    for (let i = 11; i <= 60; i++) await apply(batch(i, put('x', 'a', i, { padding: 1_000 }, 11)))
    const held = logBytes()
    t.ok(held <= allLogBytes + 100 * 8 * 1024, `${held} bytes`)
    for (const watcher of watchers) watcher.drain()
    await settle()
    for (const { seen } of watchers) t.equal(seen.length, 50)
  })
  t.end()
})

void t.test('an initial state that cannot be encoded fails for all watchers that share it', async (t) => {
  const objects = ['a', 'b', 'bad', 'c', 'd'].map((name, i) => podKeyValue('x', name, i + 1))
  const { watch, settle } = createHarness({ revision: 10, objects })
  let isBroken = true
  const encoder: BodyEncoder = {
    ...plainEncoder,
    encode(object, revision) {
      if (isBroken && object.name === 'bad') throw new WithheldError('stored in another form')
      return plainEncoder.encode(object, revision)
    },
  }
  const together = [watch({ encoder, start: 'initial' }), watch({ encoder, start: 'initial' })]
  await settle()
  for (const { seen } of together) {
    t.equal(seen.at(-1), 'ERROR 501')
    // How many arrive before depends on how long their encoding takes.
    t.same(seen.slice(0, -1), ['ADDED a@1', 'ADDED b@2'].slice(0, seen.length - 1))
  }
  isBroken = false
  const later = watch({ encoder, start: 'initial' })
  await settle()
  t.equal(later.seen.filter((line) => line.startsWith('ADDED')).length, 5)
})

void t.test('gaps', (t) => {
  void t.test('a gap expires all watchers except those of a future revision', async (t) => {
    const { watch, apply, settle, cache } = createHarness({ revision: 10 })
    const cases: [start: number, expires: boolean][] = [
      [10, true],
      [15, true],
      [19, true],
      [20, false],
      [25, false],
    ]
    const watchers = cases.map(([start]) => watch({ start }))
    await settle()
    cache.replace(rev(20), 'gap').commit()
    await apply(batch(26, put('x', 'a', 26)))
    for (const [i, [start, expires]] of cases.entries()) {
      t.same(watchers[i]!.seen, expires ? ['ERROR 410'] : ['ADDED a@26'], `after ${start}`)
    }
  })
  void t.test('a gap into another history expires those as well', async (t) => {
    const { watch, settle, cache, dispatcher } = createHarness({ revision: 10 })
    const watchers = [watch(), watch({ start: 100 }), watch({ start: 'initial' })]
    await settle()
    cache.replace(rev(5), 'history-changed').commit()
    t.equal(dispatcher.watchers, 3, 'in their turn: there may be thousands')
    const later = watch({ start: 'initial' })
    await settle()
    for (const { seen } of watchers) t.equal(seen.at(-1), 'ERROR 410')
    t.equal(dispatcher.watchers, 1)
    t.same(
      later.seen.map((line) => line.split(' ')[0]),
      ['INITIAL-END'],
      'of the new history, and only that',
    )
    drain(later.cursor)
    t.equal(dispatcher.watchers, 0)
    t.equal([...dispatcher.groups].length, 0)
  })
  void t.test('a coalesced gap keeps watchers connected, except those inside it', async (t) => {
    const { watch, settle, cache, apply } = createHarness({ revision: 10, objects: [podKeyValue('x', 'gone', 8)] })
    const active = watch()
    const inside = watch({ start: 15 })
    const atEnd = watch({ start: 20 })
    await settle()
    const state = cache.replace(rev(20), 'coalesce')
    state.add([podKeyValue('x', 'a', 13), podKeyValue('x', 'b', 17)])
    state.commit()
    await settle()
    await apply(batch(21, put('x', 'c', 21)))
    t.same(active.seen, ['ADDED a@13', 'ADDED b@17', 'DELETED gone@20', 'ADDED c@21'])
    t.same(inside.seen, ['ERROR 410'], 'an object it knew may have come and gone in between')
    t.same(atEnd.seen, ['ADDED c@21'])
  })
  void t.test('a coalesced gap ends a state that was read inside it', async (t) => {
    const { watch, settle, cache } = createHarness({
      revision: 10,
      freshness: {
        trustsProgress: false,
        readState: async () => ({ revision: rev(15), keyValues: [podKeyValue('x', 'seen', 12)] }),
      },
    })
    const snapshot = await cache.reads.consistentSnapshot()
    const watcher = watch({ start: { kind: 'initial', snapshot, minRevision: rev(15), marksEnd: true } })
    await settle()
    cache.replace(rev(20), 'coalesce').commit()
    t.same(watcher.seen, ['ADDED seen@12', 'INITIAL-END @15', 'ERROR 410'])
  })
  t.end()
})

void t.test('an object that cannot be written', (t) => {
  const broken: BodyEncoder = {
    ...plainEncoder,
    key: 'broken',
    encode: (object: StoredObject, revision) => {
      if (object.name === 'bad') throw new WithheldError('no such form')
      if (object.name === 'bug') throw new TypeError('of ours')
      return plainEncoder.encode(object, revision)
    },
  }
  void t.test(
    'ends the watchers that would see it, at the head, from the ring and in a state, and no others',
    async (t) => {
      const { watch, settle, cache, errors } = createHarness({ revision: 10 })
      const active = watch({ encoder: broken })
      const other = watch({ encoder: broken, fields: 'metadata.name!=bad' })
      const plain = watch()
      await settle()
      cache.apply([
        batch(11, put('x', 'ok', 11)),
        batch(12, put('x', 'bad', 12)),
        batch(13, put('x', 'ok', 13, {}, 11)),
      ])
      const lagging = watch({ encoder: broken, start: 10 })
      const initial = watch({ encoder: broken, start: 'initial' })
      await settle()
      t.equal(active.seen.at(-1), 'ERROR 501')
      t.same(lagging.seen, ['ADDED ok@11', 'ERROR 501'])
      t.same(initial.seen, ['ERROR 501'])
      t.same(other.seen, ['ADDED ok@11', 'MODIFIED ok@13'])
      t.same(plain.seen, ['ADDED ok@11', 'ADDED bad@12', 'MODIFIED ok@13'])
      for (const error of errors) t.ok(error instanceof WithheldError, 'the caller of the broadcast tells these apart')
    },
  )
  void t.test('an object that cannot be written because of a bug is answered with 500 and logged', async (t) => {
    const { watch, apply, errors } = createHarness({ revision: 10 })
    const watcher = watch({ encoder: broken })
    await apply(batch(11, put('x', 'bug', 11)))
    t.same(watcher.seen, ['ERROR 500'])
    t.equal(errors.length, 1)
    t.ok(errors[0] instanceof TypeError)
  })
  t.end()
})

void t.test('ends', (t) => {
  void t.test('a drain ends watchers cleanly, with a last bookmark for those at the head', async (t) => {
    const { watch, apply } = createHarness({ revision: 10 })
    const marked = watch({ bookmarks: true })
    const plain = watch()
    const waiting = watch({ start: 50, bookmarks: true })
    await apply(batch(11, put('x', 'a', 11)))
    for (const { cursor } of [marked, plain, waiting]) drain(cursor)
    t.same(marked.seen, ['ADDED a@11', 'BOOKMARK @11'])
    t.same(plain.seen, ['ADDED a@11'])
    t.same(waiting.seen, [], 'nothing that it has not asked for')
    for (const { output, endReason } of [marked, plain, waiting]) t.same([output.isEnded, endReason], [true, 'drain'])
  })
  void t.test('a version that is no longer served ends its watchers, and no others', (t) => {
    const { watch, dispatcher } = createHarness({ revision: 10 })
    const v1 = watch()
    const v2 = watch({ encoder: { ...plainEncoder, key: 'v2', schemaVersion: 'v2' } })
    dispatcher.endVersion('v2')
    t.same([v1.output.isEnded, v2.output.isEnded, v2.endReason], [false, true, 'removed'])
    t.end()
  })
  void t.test('a watcher of a resource that is no longer served ends once it has every event', async (t) => {
    const { watch, apply, dispatcher, settle, clock } = createHarness({ revision: 10 })
    const [quick, slow, later] = [watch(), watch(), watch({ start: 50 })]
    await settle()
    slow.output.isFull = true
    await apply(batch(11, put('x', 'a', 11)))
    await apply(batch(12, put('x', 'b', 12)))
    await apply(batch(13, del('x', 'a')))
    const retired = dispatcher.retire()
    t.same([quick.output.isEnded, quick.endReason, later.output.isEnded], [true, 'removed', true])
    t.same([slow.seen, slow.output.isEnded], [['ADDED a@11'], false])
    t.throws(() => watch(), UnservedError)
    slow.drain()
    await settle()
    t.same([slow.seen, slow.output.isEnded, slow.endReason], [quick.seen, true, 'removed'])
    await retired
    t.equal(clock.pending, 0, 'no timer is left')
  })
  void t.test('a watcher of such a resource that takes too long gets an error', async (t) => {
    const { watch, apply, dispatcher, settle, clock } = createHarness({ revision: 10 })
    const slow = watch()
    await settle()
    slow.output.isFull = true
    await apply(batch(11, put('x', 'a', 11)))
    await apply(batch(12, put('x', 'b', 12)))
    const retired = dispatcher.retire()
    clock.advance(60_000)
    t.same(slow.seen, ['ADDED a@11', 'ERROR 503'])
    await retired
    t.equal(clock.pending, 0, 'no timer is left')
  })
  void t.test('a closed dispatcher accepts no watcher', (t) => {
    const { watch, dispatcher, clock } = createHarness({ revision: 10 })
    watch()
    dispatcher.close()
    t.throws(() => watch(), UnservedError)
    t.equal(dispatcher.watchers, 0)
    t.equal(clock.pending, 0, 'no timer is left')
    t.end()
  })
  void t.test('a watcher that has left is released at once and completely', async (t) => {
    const { watch, apply, dispatcher, settle, pump } = createHarness({ revision: 10 })
    const watchers = []
    for (const start of [10, 50, 'initial'] as const) {
      for (const labels of ['app=web', 'tier!=a', '']) watchers.push(watch({ start, labels, bookmarks: true }))
    }
    watchers.push(watch({ encoder: columnsEncoder }))
    await apply(batch(11, put('x', 'a', 11)))
    for (const { cursor } of watchers) {
      cursor.closed()
      cursor.closed()
    }
    t.equal(dispatcher.watchers, 0)
    t.same([...dispatcher.groups], [])
    t.equal(dispatcher.matchers, 0)
    t.equal(dispatcher.facts.pathsInUse, 0)
    t.equal(dispatcher.scheduled, 0, 'not at its deadline, half an hour later')
    await settle()
    t.equal(pump.depth, 0)
    await apply(batch(12, put('x', 'a', 12, {}, 11)))
    for (const { endReason } of watchers) t.equal(endReason, 'closed')
  })
  void t.test('facts of unused selectors are dropped after some minutes, or when memory is short', async (t) => {
    const { watch, apply, dispatcher, cache, clock } = createHarness({ revision: 10 })
    await apply(batch(11, put('x', 'a', 11, { labels: { app: 'web' } })))
    await apply(batch(12, put('y', 'a', 12, { labels: { app: 'web' } })))
    const useFacts = async (labels: string): Promise<() => void> => {
      const { cursor } = watch({ start: 'initial', labels })
      for (const object of cache.snapshot().all()) cursor.group.matcher.matches(object)
      await turn()
      return () => cursor.closed()
    }
    const columns = (): (number | undefined)[] =>
      [...cache.snapshot().all()].map(({ notes: { facts } }) => (facts as { values: unknown[] } | null)?.values.length)
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    const stay = await useFacts('app=web')
    const leave = await Promise.all(Array.from({ length: 20 }, (_, i) => useFacts(`unused-${i}=a`)))
    t.same(columns(), [21, 21])
    for (const close of leave) close()
    clock.advance(200_000)
    await turn()
    t.same(columns(), [21, 21], 'a client that comes back in time finds them')
    clock.advance(600_000)
    await turn()
    t.same(columns(), [undefined, undefined])
    const again = await useFacts('unused-1=a')
    t.same(columns(), [2, 2])
    again()
    dispatcher.relieveMemory()
    await turn()
    t.same(columns(), [undefined, undefined])
    stay()
  })
  void t.test('a socket that closes during a write is not written to again', async (t) => {
    const { watch, apply, settle, dispatcher } = createHarness({ revision: 10 })
    for (let i = 11; i <= 20; i++) await apply(batch(i, put('x', `p${i}`, i)))
    const output = new TestOutput()
    const lagging = watch({ start: 10, output })
    output.onWrite = () => lagging.cursor.closed()
    await settle()
    t.equal(output.writes.length, 1)
    t.equal(dispatcher.watchers, 0)
    t.equal([...dispatcher.groups].length, 0)
    const live = watch()
    await settle()
    live.output.onWrite = () => live.cursor.closed()
    await apply(batch(21, put('x', 'p21', 21)))
    t.equal(live.output.writes.length, 1)
    t.equal([...dispatcher.groups].length, 0)
  })
  t.end()
})

void t.test(
  'lower limits free the logs at once, and a slow watcher falls back to the ring without a hole',
  async (t) => {
    const { watch, apply, settle, dispatcher, logBytes } = createHarness({ revision: 10 })
    const quick = watch()
    const slow = watch({ output: new TestOutput() })
    slow.output.isFull = true
    await settle()
    for (const at of [11, 12, 13]) await apply(batch(at, put('x', 'a', at)))
    t.ok(logBytes() > 0, 'the log is kept for the slow one')
    dispatcher.setBounds({ logBytes: 100, allLogBytes: 100, replayBytes: 100 })
    t.equal(logBytes(), 0)
    await apply(batch(14, put('x', 'a', 14)))
    slow.drain()
    await settle()
    const all = ['ADDED a@11', 'MODIFIED a@12', 'MODIFIED a@13', 'MODIFIED a@14']
    t.same(quick.seen, all)
    t.same(slow.seen, all)
  },
)

void t.test('watchers of a source that refuses the resource', (t) => {
  void t.test('they end 200 a second, with their position, and none begins', async (t) => {
    const { watch, cache, clock, ended, settle, apply, dispatcher } = createHarness({ revision: 10 })
    const watchers = Array.from({ length: 1_000 }, () => watch({ bookmarks: true }))
    await settle()
    cache.progress(rev(20))
    cache.refused('permission denied', true)
    t.equal(ended.length, 10)
    t.throws(() => watch(), RefusedWatchError)
    await clock.advanceInTurns(2_000, 50)
    t.equal(ended.length, 410)
    cache.refused('permission denied', true)
    await clock.advanceInTurns(1_000, 50)
    t.equal(ended.length, 610, 'the same news does not make it faster')
    t.same([...new Set(ended)], ['refused'])
    t.same(watchers[0]!.seen, ['BOOKMARK @20'], 'and no ERROR')
    t.ok(watchers[0]!.output.isEnded)
    cache.synced()
    await clock.advanceInTurns(2_000, 50)
    t.equal(dispatcher.watchers, 390, 'those that are left go on once it is allowed again')
    await apply(batch(21, put('x', 'a', 21)))
    t.same(watchers.at(-1)!.seen, ['ADDED a@21'])
    const resumed = watch({ start: 20 })
    await settle()
    t.same(resumed.seen, ['ADDED a@21'])
  })

  void t.test('one that has not received its whole state ends with an ERROR that says when to retry', async (t) => {
    const { watch, cache, settle } = createHarness({ revision: 10, objects: [podKeyValue('x', 'a', 5)] })
    const output = new TestOutput()
    output.isFull = true
    const initial = watch({ start: 'initial', output })
    await settle()
    cache.refused('permission denied', true)
    t.equal(initial.endReason, 'refused')
    t.equal(initial.output.events.at(-1)?.type, 'ERROR')
  })

  void t.test('all resources share one pace', async (t) => {
    const clock = new VirtualClock()
    const endings = new PacedEndings(clock)
    const harnesses = Array.from({ length: 5 }, () => createHarness({ revision: 10, endings, clock }))
    for (const { watch } of harnesses) for (let i = 0; i < 20; i++) watch()
    for (const { settle } of harnesses) await settle()
    const left = (): number => harnesses.reduce((sum, { dispatcher }) => sum + dispatcher.watchers, 0)
    for (const { cache } of harnesses) cache.refused('permission denied', true)
    t.equal(left(), 90)
    await clock.advanceInTurns(200, 50)
    t.equal(left(), 50)
    await clock.advanceInTurns(1_000, 50)
    t.equal(left(), 0)
  })
  t.end()
})

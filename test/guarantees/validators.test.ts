/** Tests the validators: a good history passes all of them, and each kind of violation is detected by name. */
import t from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { type Revision, toRevision } from '../../src/engine/model/revision.js'
import { randomInteger, seededRandom } from '../../src/support/random.js'
import { createEmbeddedUpstream } from '../support/faulty-store.js'
import type { WriteOperation } from '../../src/engine/upstream/upstream.js'
import {
  type BookmarkItem,
  type ListRecord,
  type ObjectItem,
  type RecordedHistory,
  ReferenceHistory,
  type Scope,
  type WatchItem,
  type WatchRecord,
  type WatchStart,
} from '../support/history.js'
import { validate } from './validate.js'
import { testSeeds } from '../support/test-seeds.js'

const rev = toRevision
const prefix = keyFromText('/registry/pods/')
const everything: Scope = { prefix }
const inNamespaceA: Scope = { prefix, namespace: 'a' }
const web: Scope = { prefix, selects: (object) => (object as { app?: string }).app === 'web' }

function put(name: string, app: string, value: number): WriteOperation {
  const [namespace, ...rest] = name.split('/')
  const object = { kind: 'Pod', metadata: { namespace, name: rest.join('/') }, app, value }
  return { type: 'put', key: keyFromText(`/registry/pods/${name}`), value: Buffer.from(JSON.stringify(object)) }
}

function del(name: string): WriteOperation {
  return { type: 'delete', key: keyFromText(`/registry/pods/${name}`) }
}

const reference = referenceOf([
  /* 2 */ [put('a/x', 'web', 2)],
  /* 3 */ [put('a/y', 'web', 3)],
  /* 4 */ [put('ab/z', 'web', 4)],
  /* 5 */ [put('a/x', 'web', 5), put('a/y', 'web', 5), put('ab/z', 'db', 5)],
  /* 6 */ [del('a/x')],
  /* 7 */ [put('a/w', 'web', 7)],
  /* 8 */ [put('a/y', 'db', 8)],
  /* 9 */ [put('a/y', 'web', 9)],
  /* 10 */ [put('a/x', 'web', 10)],
])

function referenceOf(writes: readonly (readonly WriteOperation[])[]): ReferenceHistory {
  const upstream = createEmbeddedUpstream()
  for (const operations of writes) upstream.commit(operations)
  return new ReferenceHistory(upstream.history())
}

const after = (revision: number): WatchStart => ({ kind: 'after', revision: rev(revision) })
const initial = (hasEndMark: boolean): WatchStart => ({ kind: 'initial', notOlderThan: rev(0), hasEndMark })
const bookmark = (revision: number, isInitialEventsEnd = false): BookmarkItem => ({
  type: 'BOOKMARK',
  revision: rev(revision),
  isInitialEventsEnd,
})

/** The items of a correct stream in (from, through]. */
function events(from: number, through: number, scope = everything): ObjectItem[] {
  return reference.expectedEvents(scope, rev(from), rev(through))
}

function state(revision: number, scope = everything): ObjectItem[] {
  return [...reference.stateAt(scope, rev(revision)).values()].map((item) => ({ type: 'ADDED', ...item }))
}

function watch(start: WatchStart, items: readonly WatchItem[], other: Partial<WatchRecord> = {}): RecordedHistory {
  const record = { name: 'w', scope: everything, start, items, end: 'open', requestedAtMs: 0, ...other } as const
  return { watches: [record], lists: [], writes: [] }
}

function list(
  revision: number,
  asked: ListRecord['asked'],
  items = state(revision),
  requestedAtMs = 10,
  statedAgeMs = 0,
): RecordedHistory {
  const record = { name: 'l', scope: everything, asked, revision: rev(revision), items, requestedAtMs, statedAgeMs }
  return { watches: [], lists: [record], writes: [{ revision: rev(7), returnedAtMs: 5 }] }
}

function broken(history: RecordedHistory, settledRevision?: Revision): string[] {
  const violations = validate(history, reference, settledRevision === undefined ? {} : { settledRevision })
  return [...new Set(violations.map(({ guarantee }) => guarantee))].sort()
}

void t.test('a watcher receives what its scope selects, including transitions', async (t) => {
  const lines = (scope: Scope, from: number): string[] =>
    events(from, 10, scope).map(({ type, id, revision }) => `${type} ${id}@${revision}`)
  t.same(lines(web, 3), [
    'ADDED ab/z@4',
    'MODIFIED a/x@5',
    'MODIFIED a/y@5',
    'DELETED ab/z@5',
    'DELETED a/x@6',
    'ADDED a/w@7',
    'DELETED a/y@8',
    'ADDED a/y@9',
    'ADDED a/x@10',
  ])
  t.notOk(
    lines(inNamespaceA, 1).some((line) => line.includes('ab/')),
    'namespace a is not ab',
  )
  const [gone] = events(7, 8, web)
  const [last] = events(4, 5, web).filter(({ id }) => id === 'a/y')
  t.equal(gone?.fingerprint, last?.fingerprint, 'out of the selector: the previous object, at the event’s revision')
  t.same(
    state(8, web).map(({ id, revision }) => `${id}@${revision}`),
    ['a/w@7'],
  )
})

const goodStreams: Record<string, RecordedHistory> = {
  'from a revision': watch(after(3), events(3, 10)),
  'with bookmarks on the boundaries': watch(after(3), [
    bookmark(3),
    ...events(3, 5),
    bookmark(5),
    bookmark(5),
    ...events(5, 7),
    bookmark(9 - 2),
    ...events(7, 10),
  ]),
  'with an initial state and its end mark': watch(initial(true), [...state(5), bookmark(5, true), ...events(5, 10)]),
  'with an unsorted initial state': watch(initial(true), [...state(9).reverse(), bookmark(9, true), ...events(9, 10)]),
  'with an initial state and no mark': watch(initial(false), [...state(4), ...events(4, 10)]),
  'with an initial state and no mark, followed by ADDED': watch(initial(false), [...state(6), ...events(6, 10)]),
  'with an initial state from after a delete, and nothing else': watch(initial(false), state(6)),
  'an empty one': watch(initial(true), [bookmark(1, true), ...events(1, 10)]),
  'of one namespace': watch(after(1), events(1, 10, inNamespaceA), { scope: inNamespaceA }),
  'of a selector': watch(initial(true), [...state(4, web), bookmark(4, true), ...events(4, 10, web)], { scope: web }),
  'cut in the middle of a revision': watch(after(3), events(3, 5).slice(0, 2), { end: 'cut' }),
  'cut in the middle of its initial state': watch(initial(true), state(5).slice(0, 1), { end: 'cut' }),
  'cut in the middle of an initial state without a mark': watch(initial(false), state(5).slice(0, 1), { end: 'cut' }),
  'ended with a clean EOF on a boundary': watch(after(3), events(3, 5), { end: 'eof' }),
  'ended with 410 before anything': watch(after(3), [], { end: 'error', code: 410 }),
  'resumed inside a revision, which loses its rest': watch(after(5), events(5, 10)),
  'from the future': watch(after(8), events(8, 10)),
  'from a revision that etcd had not had when it was asked for': {
    ...watch(after(8), [], { end: 'error', code: 410, neverHad: true, requestedAtMs: 8 }),
    writes: [
      { revision: rev(7), returnedAtMs: 7 },
      { revision: rev(9), returnedAtMs: 9 },
    ],
  },
  'of a projection': watch(
    after(3),
    events(3, 10).map((item) => ({ ...item, fingerprint: null })),
  ),
}
for (const [name, history] of Object.entries(goodStreams)) {
  void t.test(`a good stream passes: ${name}`, async (t) => t.same(broken(history), []))
}

const cached = { kind: 'not-older-than', revision: rev(0) } as const

void t.test('a good list passes', async (t) => {
  t.same(broken(list(7, { kind: 'consistent' })), [])
  t.same(broken(list(3, cached)), [])
  t.same(broken(list(3, { kind: 'not-older-than', revision: rev(3) })), [])
  t.same(broken(list(6, { kind: 'exact', revision: rev(6) })), [])
  t.same(broken(list(6, cached, state(6), 8_005, 6_000)), [], 'as old as it says')
})

const all = events(3, 10)
/** Returns the items without those of one revision. */
const without = (revision: number, from = all): ObjectItem[] => from.filter((item) => item.revision !== revision)
const swap = <T>(items: readonly T[], i: number, j: number): T[] =>
  items.map((item, at) => (at === i ? items[j] : at === j ? items[i] : item) as T)
const other = (item: ObjectItem | undefined, change: Partial<ObjectItem>): ObjectItem =>
  ({ ...item, ...change }) as ObjectItem

const brokenStreams: [name: string, history: RecordedHistory, guarantees: string[]][] = [
  ['a skipped event', watch(after(3), without(7)), ['reliable']],
  ['a skipped event of several in a revision', watch(after(3), all.toSpliced(2, 1)), ['atomic']],
  ['a skipped event, then a bookmark', watch(after(3), [...without(7), bookmark(10)]), ['bookmarkable', 'reliable']],
  [
    'an event that did not happen',
    watch(after(3), [...all, other(all[0], { id: 'a/q', revision: rev(11) })]),
    ['reliable'],
  ],
  ['an old object under a new revision', watch(after(3), swapFingerprints(all)), ['reliable']],
  ['a MODIFIED that is an ADDED', watch(after(3), all.with(1, other(all[1], { type: 'ADDED' }))), ['reliable']],
  ['an event of another namespace', watch(after(1), events(1, 10), { scope: inNamespaceA }), ['reliable']],
  ['a selector’s DELETED left out', watch(after(7), events(8, 10, web), { scope: web }), ['resumable']],
  ['a duplicated event', watch(after(3), all.toSpliced(5, 0, all[4] as ObjectItem)), ['unique']],
  ['an event repeated later', watch(after(3), [...all, all[4] as ObjectItem]), ['atomic', 'ordered', 'unique']],
  ['two revisions in the wrong order', watch(after(3), swap(all, 4, 5)), ['ordered']],
  ['going back in time', watch(after(3), [...events(3, 8), ...events(5, 10)]), ['atomic', 'ordered', 'unique']],
  ['a bookmark that goes back', watch(after(3), [...events(3, 8), bookmark(6), ...events(8, 10)]), ['ordered']],
  ['a bookmark one too early', watch(after(3), [...events(3, 6), bookmark(7), ...events(6, 10)]), ['bookmarkable']],
  [
    'a bookmark before events that never come',
    watch(after(3), [bookmark(5)], { end: 'cut' }),
    ['bookmarkable', 'resumable'],
  ],
  [
    'a bookmark inside a revision',
    watch(after(3), [...all.slice(0, 2), bookmark(5), ...all.slice(2)]),
    ['atomic', 'bookmarkable'],
  ],
  ['a resume one too late', watch(after(3), events(4, 10)), ['resumable']],
  ['a resume one too early', watch(after(4), events(3, 10)), ['resumable']],
  [
    'a revision denied that a write had returned',
    {
      ...watch(after(8), [], { end: 'error', code: 410, neverHad: true, requestedAtMs: 9 }),
      writes: [{ revision: rev(8), returnedAtMs: 9 }],
    },
    ['resumable'],
  ],
  ['a resume that starts with a bookmark from before', watch(after(4), [bookmark(3), ...events(4, 10)]), ['resumable']],
  ['a split revision', watch(after(3), swap(all, 3, 4)), ['atomic', 'ordered']],
  ['an end inside a revision', watch(after(3), events(3, 5).slice(0, 2), { end: 'eof' }), ['atomic']],
  ['a 410 inside a revision', watch(after(3), events(3, 5).slice(0, 2), { end: 'error', code: 410 }), ['atomic']],
  [
    'an initial state that overlaps with what follows',
    watch(initial(true), [...state(7), bookmark(7, true), ...events(6, 10)]),
    ['bookmarkable', 'unique'],
  ],
  [
    'a hole between the initial state and what follows',
    watch(initial(true), [...state(5), bookmark(5, true), ...events(6, 10)]),
    ['reliable'],
  ],
  [
    'an object missing from the initial state',
    watch(initial(true), [...state(5).slice(1), bookmark(5, true), ...events(5, 10)]),
    ['reliable'],
  ],
  [
    'an old object in the initial state',
    watch(initial(true), [...state(4).slice(0, 1), ...state(5).slice(1), bookmark(5, true)]),
    ['reliable'],
  ],
  [
    'an object twice in the initial state',
    watch(initial(true), [...state(5), ...state(5).slice(0, 1), bookmark(5, true)]),
    ['reliable', 'unique'],
  ],
  [
    'an initial state without a mark that nothing explains',
    watch(initial(false), [...state(5).slice(1), ...events(5, 10)]),
    ['reliable'],
  ],
  ['a clean EOF inside the initial state', watch(initial(true), state(5).slice(0, 1), { end: 'eof' }), ['reliable']],
  [
    'an initial state older than was asked for',
    watch({ ...initial(true), notOlderThan: rev(6) } as WatchStart, [...state(5), bookmark(5, true)]),
    ['fresh'],
  ],
  [
    'an initial state older than a write that had returned',
    {
      ...watch({ ...initial(true), notOlderThan: 'consistent' } as WatchStart, [...state(5), bookmark(5, true)], {
        requestedAtMs: 10,
      }),
      writes: [{ revision: rev(6), returnedAtMs: 9 }],
    },
    ['fresh'],
  ],
  ['a list older than a write that had returned', list(6, { kind: 'consistent' }), ['fresh']],
  ['a list older than was asked for', list(6, { kind: 'not-older-than', revision: rev(7) }), ['fresh']],
  ['a list older than it says', list(6, cached, state(6), 8_006, 6_000), ['aged']],
  ['a list at another revision than asked for', list(7, { kind: 'exact', revision: rev(6) }), ['fresh']],
  ['a list of another revision’s state', list(7, { kind: 'consistent' }, state(6)), ['convergent']],
  [
    'a list of two states mixed',
    list(8, { kind: 'consistent' }, [...state(8).slice(1), ...state(5).slice(0, 1)]),
    ['convergent'],
  ],
  ['a list from a revision that never was', list(11, { kind: 'consistent' }, state(10)), ['convergent']],
]
for (const [name, history, guarantees] of brokenStreams) {
  void t.test(`a stream that is not ${guarantees.join(', ')} is caught: ${name}`, async (t) => {
    t.same(broken(history), guarantees)
  })
}

function swapFingerprints(items: readonly ObjectItem[]): ObjectItem[] {
  return items.with(1, other(items[1], { fingerprint: items[0]?.fingerprint ?? '' }))
}

void t.test('when all is quiet, a running watch has everything', async (t) => {
  t.same(broken(watch(after(3), events(3, 10)), rev(10)), [])
  t.same(broken(watch(after(3), events(3, 9)), rev(10)), ['convergent'], 'silent')
  t.same(broken(watch(after(3), events(3, 9), { end: 'eof' }), rev(10)), [], 'it had ended')
  t.same(
    broken(watch(initial(true), state(10)), rev(10)),
    ['convergent'],
    'it never came to the end of its initial state',
  )
})

/** A fault that a server under test could have, applied to a correct stream. */
type Mutation = (items: readonly WatchItem[], at: number) => readonly WatchItem[]
const mutations: Record<string, Mutation> = {
  'drops an item': (items, at) => items.toSpliced(at, 1),
  'repeats an item': (items, at) => [...items.slice(0, at + 1), ...items.slice(at)],
  'repeats from an earlier place': (items, at) => [...items.slice(0, at), ...items.slice(Math.max(0, at - 3))],
  'bookmarks one too early': (items, at) => items.toSpliced(at, 0, bookmark(items[at]?.revision ?? 0)),
}
for (const seed of testSeeds(3)) {
  void t.test(`random histories: faultless ones pass, and every fault is detected (seed ${seed})`, async (t) => {
    const random = seededRandom(seed)
    const names = ['a/1', 'a/2', 'a/3', 'ab/1', 'b/1', 'b/2']
    const writes = Array.from({ length: 200 }, () => {
      const chosen = new Set(
        Array.from({ length: randomInteger(random, 1, 3) }, () => names[randomInteger(random, 0, 5)]),
      )
      return [...chosen].map((name = 'a/1') =>
        random.next() < 0.25 ? del(name) : put(name, random.next() < 0.7 ? 'web' : 'db', randomInteger(random, 0, 1e6)),
      )
    })
    const reference = referenceOf(writes)
    let noticed = 0
    let made = 0
    for (let i = 0; i < 120; i++) {
      const scope = [everything, inNamespaceA, web][i % 3] ?? everything
      const from = rev(randomInteger(random, 1, reference.revision - 40))
      const through = rev(randomInteger(random, from + 30, reference.revision))
      const expected = reference.expectedEvents(scope, from, through)
      const state = [...reference.stateAt(scope, from).values()].map((item) => ({ type: 'ADDED', ...item }) as const)
      const starts: [WatchStart, readonly WatchItem[]][] = [
        [after(from), expected],
        [initial(true), [...state, bookmark(from, true), ...expected]],
        [initial(false), [...state, ...expected]],
      ]
      for (const [start, faultless] of starts) {
        const history = (items: readonly WatchItem[]): RecordedHistory => watch(start, items, { scope })
        const wrong = validate(history(faultless), reference)
        if (wrong.length > 0) t.same(wrong.map(String), [], `faultless from ${from} to ${through}`)
        if (start.kind !== 'after') continue
        for (const [name, mutate] of Object.entries(mutations)) {
          // The last revision of a running stream may be incomplete: the rest may not have arrived yet.
          const whole = faultless.filter(({ revision }) => revision < (faultless.at(-1)?.revision ?? 0)).length
          if (whole < 2) continue
          const at = randomInteger(random, 1, whole - 1)
          made++
          if (validate(history(mutate(faultless, at)), reference).length > 0) noticed++
          else t.fail(`a stream from ${from} to ${through} that ${name} at ${at} passes`)
        }
      }
    }
    t.equal(noticed, made)
    t.ok(made > 100)
  })
}

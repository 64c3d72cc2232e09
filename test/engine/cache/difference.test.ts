import t from 'tap'
import type { CacheBatch } from '../../../src/engine/cache/cache-batch.js'
import { differenceBatches, type DifferenceOptions } from '../../../src/engine/cache/difference.js'
import { Store, type Snapshot } from '../../../src/engine/cache/store.js'
import { isUnservable, type StoredObject } from '../../../src/engine/model/stored-object.js'
import { ingestPod, podKeyValue, PODS, podObject, rev } from '../../support/objects.js'

const OPTIONS: DifferenceOptions = { prefix: PODS.etcdPrefix, receivedAtMs: 1 }

type PodAt = [name: string, modified: number, created: number]

function stateAt(revision: number, ...pods: PodAt[]): Snapshot {
  const store = new Store()
  for (const [name, modified, created] of pods) {
    const object = podObject('x', name, modified, {}, created)
    store.set(object.key, object)
  }
  return store.snapshot(rev(revision), 0)
}

/** `12: +a ~b -c`: added, modified, deleted. */
const texts = (batches: readonly CacheBatch[]): string[] =>
  batches.map(({ revision, events }) => {
    const events_ = events.map(({ object, previous }) =>
      object === null ? `-${previous!.name}` : previous === null ? `+${object.name}` : `~${object.name}`,
    )
    return `${revision}: ${events_.join(' ')}`
  })

void t.test('a gap becomes the fewest events that lead from one state to the other', (t) => {
  const cases: [name: string, older: PodAt[], newer: PodAt[], batches: string[]][] = [
    ['nothing happened', [['a', 5, 5]], [['a', 5, 5]], []],
    ['from nothing', [], [['a', 12, 12]], ['12: +a']],
    ['to nothing', [['a', 5, 5]], [], ['20: -a']],
    ['a put goes out at its own revision', [['a', 5, 5]], [['a', 12, 5]], ['12: ~a']],
    ['a put at the very end', [['a', 5, 5]], [['a', 20, 5]], ['20: ~a']],
    ['deleted and created again', [['a', 5, 5]], [['a', 14, 13]], ['13: -a', '14: +a']],
    ['a delete shares the revision of a put', [['a', 5, 5]], [['b', 20, 20]], ['20: +b -a']],
    [
      'in order of revision, not of key',
      [
        ['a', 5, 5],
        ['b', 6, 6],
        ['c', 7, 7],
      ],
      [
        ['a', 19, 5],
        ['b', 11, 6],
        ['d', 15, 15],
      ],
      ['11: ~b', '15: +d', '19: ~a', '20: -c'],
    ],
    [
      'keys of one transaction stay together',
      [],
      [
        ['a', 12, 12],
        ['b', 12, 12],
      ],
      ['12: +a +b'],
    ],
  ]
  for (const [name, older, newer, batches] of cases) {
    const found = differenceBatches(stateAt(10, ...older), stateAt(20, ...newer), OPTIONS)
    t.same(texts(found), batches, name)
  }
  t.end()
})

void t.test('every event carries the previous object', (t) => {
  const older = stateAt(10, ['a', 5, 5], ['b', 6, 6], ['c', 7, 7])
  const batches = differenceBatches(older, stateAt(20, ['a', 12, 5], ['b', 13, 13]), OPTIONS)
  const previous = batches.flatMap(({ events }) => events.map((event) => event.previous?.modRevision ?? null))
  t.same(previous, [5, 6, null, 7], 'a modified, b deleted and added, c deleted')
  t.end()
})

void t.test('where a source does not say when objects were created, their uids tell which were recreated', (t) => {
  const unversioned = (revision: number, ...pods: PodAt[]): Snapshot => {
    const store = new Store()
    for (const [name, modified] of pods) {
      const object = ingestPod({ ...podKeyValue('x', name, modified), createRevision: rev(modified), version: 0 })
      if (!isUnservable(object)) store.set(object.key, object)
    }
    return store.snapshot(rev(revision), 0)
  }
  const [older, newer] = [unversioned(10, ['a', 5, 5], ['b', 6, 6]), unversioned(20, ['a', 12, 12], ['b', 13, 13])]
  const identityOf = (object: StoredObject): string => (object.name === 'a' ? 'one' : `at ${object.modRevision}`)
  t.same(texts(differenceBatches(older, newer, { ...OPTIONS, identityOf })), ['12: ~a -b', '13: +b'])
  const unreadable = (object: StoredObject): string => {
    if (object.name === 'a') throw new Error('no metadata')
    return 'one'
  }
  const batches = differenceBatches(older, newer, { ...OPTIONS, identityOf: unreadable })
  t.same(texts(batches), ['11: -a', '12: +a', '13: ~b'], 'a uid that cannot be read may be another one')
  t.end()
})

void t.test('an object written earlier that can only now be served appears at the newer revision', (t) => {
  const batches = differenceBatches(stateAt(10), stateAt(20, ['a', 7, 7]), OPTIONS)
  t.same(texts(batches), ['20: +a'], 'only after the revisions already sent')
  t.end()
})

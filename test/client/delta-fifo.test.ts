import t from 'tap'
import { DeltaFifo, type Delta } from '../../src/client/delta-fifo.js'
import { randomInteger, seededRandom } from '../../src/support/random.js'
import { testSeeds } from '../support/test-seeds.js'

interface Thing {
  readonly key: string
  readonly version: number
}

type Op = readonly ['ADDED' | 'MODIFIED' | 'DELETED', string, number]

function fifoOver(known: Map<string, Thing>): DeltaFifo<Thing> {
  return new DeltaFifo<Thing>({ keyOf: ({ key }) => key, known })
}

function told(deltas: readonly Delta<Thing>[]): string {
  return deltas
    .map(
      (delta) =>
        `${delta.type}${delta.type === 'Deleted' && delta.isFinalStateUnknown ? '?' : ''}:${delta.object.version}`,
    )
    .join(' ')
}

void t.test('the changes of one object are compressed to at most three deltas', async (t) => {
  const cases: readonly [string, readonly Op[], string][] = [
    ['one', [['ADDED', 'a', 1]], 'Added:1'],
    [
      'the newest of several',
      [
        ['ADDED', 'a', 1],
        ['MODIFIED', 'a', 2],
        ['MODIFIED', 'a', 3],
      ],
      'Added:3',
    ],
    [
      'a deletion stays beside what came before',
      [
        ['ADDED', 'a', 1],
        ['DELETED', 'a', 2],
      ],
      'Added:1 Deleted:2',
    ],
    [
      'created again',
      [
        ['ADDED', 'a', 1],
        ['DELETED', 'a', 2],
        ['ADDED', 'a', 3],
      ],
      'Added:1 Deleted:2 Added:3',
    ],
    [
      'between two deletions nothing',
      [
        ['ADDED', 'a', 1],
        ['DELETED', 'a', 2],
        ['ADDED', 'a', 3],
        ['DELETED', 'a', 4],
      ],
      'Added:1 Deleted:4',
    ],
    [
      'deleted twice is once',
      [
        ['ADDED', 'a', 1],
        ['DELETED', 'a', 2],
        ['DELETED', 'a', 2],
      ],
      'Added:1 Deleted:2',
    ],
  ]
  for (const [name, ops, expected] of cases) {
    const fifo = fifoOver(new Map())
    for (const [type, key, version] of ops) fifo.change({ type, key, object: { key, version }, resourceVersion: '' })
    t.equal(told(fifo.pop()?.deltas ?? []), expected, name)
    t.equal(fifo.pop(), null)
  }
})

void t.test('a list without an object deletes it, with its last known state', async (t) => {
  const known = new Map([
    ['a', { key: 'a', version: 1 }],
    ['b', { key: 'b', version: 1 }],
  ])
  const fifo = fifoOver(known)
  fifo.change({ type: 'MODIFIED', key: 'b', object: { key: 'b', version: 2 }, resourceVersion: '' })
  fifo.change({ type: 'ADDED', key: 'c', object: { key: 'c', version: 1 }, resourceVersion: '' })
  fifo.replace([{ key: 'd', version: 5 }])
  const all: string[] = []
  for (let item = fifo.pop(); item !== null; item = fifo.pop()) all.push(`${item.key} ${told(item.deltas)}`)
  t.same(all, ['b Updated:2 Deleted?:2', 'c Added:1 Deleted?:1', 'd Replaced:5', 'a Deleted?:1'])
})

void t.test('a deletion that was seen takes precedence over one that a list implies', async (t) => {
  const fifo = fifoOver(new Map([['a', { key: 'a', version: 1 }]]))
  fifo.change({ type: 'DELETED', key: 'a', object: { key: 'a', version: 2 }, resourceVersion: '' })
  fifo.replace([])
  t.equal(told(fifo.pop()?.deltas ?? []), 'Deleted:2')
})

void t.test('the deletion of an object that no handler has seen is not reported', async (t) => {
  const fifo = fifoOver(new Map())
  fifo.change({ type: 'DELETED', key: 'a', object: { key: 'a', version: 2 }, resourceVersion: '' })
  t.equal(fifo.length, 0)
})

void t.test('the queue has synced once the first state has been processed, whatever was added after it', async (t) => {
  const known = new Map<string, Thing>()
  const fifo = fifoOver(known)
  t.notOk(fifo.hasSynced, 'before there is one')
  fifo.replace([{ key: 'a', version: 1 }])
  fifo.change({ type: 'ADDED', key: 'b', object: { key: 'b', version: 2 }, resourceVersion: '' })
  t.notOk(fifo.hasSynced)
  fifo.pop()
  t.ok(fifo.hasSynced)
  const empty = fifoOver(new Map())
  empty.replace([])
  t.ok(empty.hasSynced, 'an empty state is one')
})

void t.test('the waiting part of a first state is merged with later changes', async (t) => {
  const things = (...keys: string[]): Thing[] => keys.map((key) => ({ key, version: 1 }))
  const known = new Map<string, Thing>()
  const rest = (fifo: DeltaFifo<Thing>): string[] => {
    const all: string[] = []
    for (let item = fifo.pop(); item !== null; item = fifo.pop()) all.push(`${item.key} ${told(item.deltas)}`)
    return all
  }
  const changed = fifoOver(known)
  changed.replace(things('a', 'b', 'c', 'd'))
  t.equal(changed.length, 4)
  t.same(
    [changed.pop()].map((item) => [item?.key, item?.isOfFirstState]),
    [['a', true]],
  )
  changed.change({ type: 'MODIFIED', key: 'b', object: { key: 'b', version: 2 }, resourceVersion: '' })
  changed.change({ type: 'DELETED', key: 'c', object: { key: 'c', version: 3 }, resourceVersion: '' })
  changed.change({ type: 'ADDED', key: 'e', object: { key: 'e', version: 4 }, resourceVersion: '' })
  t.equal(changed.length, 4)
  t.notOk(changed.hasSynced)
  t.same(rest(changed), ['b Replaced:2', 'c Replaced:1 Deleted:3', 'd Replaced:1', 'e Added:4'])
  t.ok(changed.hasSynced)

  const relisted = fifoOver(known)
  relisted.replace(things('a', 'b'))
  relisted.replace(things('b', 'c'))
  t.same(rest(relisted), ['a Replaced:1 Deleted?:1', 'b Replaced:1', 'c Replaced:1'])

  const twice = fifoOver(known)
  twice.replace(things('a', 'b', 'a'))
  t.same(rest(twice), ['a Replaced:1', 'b Replaced:1', 'a Replaced:1'])
  t.ok(twice.hasSynced, 'a server that lists an object twice')
})

void t.test('a resync covers the known objects without pending deltas', async (t) => {
  const fifo = fifoOver(
    new Map([
      ['a', { key: 'a', version: 1 }],
      ['b', { key: 'b', version: 1 }],
    ]),
  )
  fifo.change({ type: 'MODIFIED', key: 'b', object: { key: 'b', version: 2 }, resourceVersion: '' })
  fifo.resync()
  fifo.resync()
  t.same([told(fifo.pop()?.deltas ?? []), told(fifo.pop()?.deltas ?? [])], ['Updated:2', 'Sync:1'])
})

void t.test('in random histories a slow reader misses no deletion and ends with the same state', async (t) => {
  for (const seed of testSeeds(400)) {
    const random = seededRandom(seed)
    const server = new Map<string, Thing>()
    const reader = new Map<string, Thing>()
    const fifo = fifoOver(reader)
    let version = 0
    let wrong = ''
    const pop = (): void => {
      const item = fifo.pop()
      if (item === null) return
      if (item.deltas.length > 3) wrong ||= `${item.deltas.length} deltas`
      for (const delta of item.deltas) {
        const held = reader.get(item.key)
        if (delta.type === 'Deleted') {
          // Only the first of several deletions may follow an Added that this reader never saw.
          if (held === undefined) wrong ||= `a deletion of ${item.key}, which is not held`
          reader.delete(item.key)
        } else {
          if (held !== undefined && held.version > delta.object.version) wrong ||= `${item.key} went back`
          reader.set(item.key, delta.object)
        }
      }
    }
    // While the feed is disconnected, changes are not delivered; a list delivers their outcome.
    let isConnected = false
    for (let step = 0; step < 200; step++) {
      const key = `k${randomInteger(random, 0, 6)}`
      const dice = random.next()
      if (dice < 0.55) {
        version++
        const held = server.get(key)
        const isDeletion = held !== undefined && random.next() < 0.4
        const object = { key, version }
        if (isDeletion) server.delete(key)
        else server.set(key, object)
        const type = isDeletion ? 'DELETED' : held === undefined ? 'ADDED' : 'MODIFIED'
        if (isConnected) fifo.change({ type, key, object, resourceVersion: String(version) })
      } else if (dice < 0.9) pop()
      else if (dice < 0.93) isConnected = false
      else if (dice < 0.96) fifo.resync()
      else {
        fifo.replace([...server.values()])
        isConnected = true
      }
    }
    fifo.replace([...server.values()])
    while (fifo.length > 0) pop()
    t.equal(wrong, '', `seed ${seed}`)
    t.same(Object.fromEntries(reader), Object.fromEntries(server), `seed ${seed}`)
    t.ok(fifo.hasSynced, `seed ${seed}`)
  }
})

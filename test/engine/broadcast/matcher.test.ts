/** Which events a watcher sees, and that the index finds exactly the matchers that may see one. */
import t from 'tap'
import { FactRegistry } from '../../../src/engine/broadcast/fact-registry.js'
import { Matcher } from '../../../src/engine/broadcast/matcher.js'
import { MatcherIndex } from '../../../src/engine/broadcast/matcher-index.js'
import { CacheEvent } from '../../../src/engine/cache/cache-batch.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { factSource } from '../../support/fact-source.js'
import { EVERYTHING, parseSelector, parseShardedSelector as sharded } from '../../support/parse-selector.js'
import type { StoredObject } from '../../../src/engine/model/stored-object.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { type PodFields, podObject, rev } from '../../support/objects.js'
import { rangesText, shardTexts, uidOf } from '../../support/shards.js'

const MAX_PATHS = 256
const MAX_PATHS_PER_IDENTITY = MAX_PATHS / 4
const SHARED_ROWS_BYTES = 1024 * 1024
const SHARED_ROW_BYTES = 4 * 1024

const facts = (): FactRegistry => new FactRegistry(factSource())
const event = (object: StoredObject | null, previous: StoredObject | null): CacheEvent =>
  new CacheEvent(rev(9), object, previous)

void t.test('a selector turns a change into the event that its watchers see', (t) => {
  const web = podObject('x', 'a', 5, { labels: { app: 'web' } })
  const db = podObject('x', 'a', 6, { labels: { app: 'db' } })
  const web2 = podObject('x', 'a', 7, { labels: { app: 'web', tier: 'front' } })
  const cases: [name: string, object: StoredObject | null, previous: StoredObject | null, seen: string | null][] = [
    ['created inside', web, null, 'ADDED@5'],
    ['created outside', db, null, null],
    ['changed inside', web2, web, 'MODIFIED@7'],
    ['changed outside', db, podObject('x', 'a', 4), null],
    ['moved in', web, db, 'ADDED@5'],
    ['moved out: the previous one', db, web, 'DELETED@5'],
    ['deleted inside', null, web, 'DELETED@5'],
    ['deleted outside', null, db, null],
  ]
  const matcher = new Matcher('', parseSelector('app=web', undefined), facts(), 'v1')
  for (const [name, object, previous, seen] of cases) {
    const matchedEvent = matcher.match(event(object, previous))
    t.equal(matchedEvent === null ? null : `${matchedEvent.type}@${matchedEvent.object.modRevision}`, seen, name)
  }
  t.end()
})

void t.test('every kind of selector reads the right field', (t) => {
  const pod = podObject('x', 'a', 5, { labels: { app: 'web', n: '7' }, nodeName: 'n1', phase: 'Pending' })
  const cases: [namespace: string, labels: string, fields: string, matches: boolean][] = [
    ['', '', '', true],
    ['x', '', '', true],
    ['xy', '', '', false],
    ['', 'app=web', '', true],
    ['', 'app==db', '', false],
    ['', 'app!=db', '', true],
    ['', 'tier!=front', '', true],
    ['', 'app in (web,db)', '', true],
    ['', 'app notin (web,db)', '', false],
    ['', 'app', '', true],
    ['', '!app', '', false],
    ['', 'n>6', '', true],
    ['', 'n<7', '', false],
    ['', 'app=web,n=8', '', false],
    ['', '', 'metadata.name=a', true],
    ['', '', 'metadata.name!=a', false],
    ['', '', 'metadata.namespace=x', true],
    ['', '', 'metadata.namespace=y', false],
    ['', '', 'spec.nodeName=n1', true],
    ['', '', 'spec.nodeName!=n1', false],
    ['', '', 'spec.missing=', true],
    ['', '', 'status.phase=Pending,spec.nodeName=n1', true],
    ['x', 'app=web', 'status.phase=Running', false],
  ]
  for (const [namespace, labels, fields, matches] of cases) {
    const matcher = new Matcher(namespace, parseSelector(labels, fields), facts(), 'v1')
    t.equal(matcher.matches(pod), matches, `${namespace} ${labels} ${fields}`)
  }
  t.end()
})

void t.test('the index finds the matchers that an event may concern, and no others', (t) => {
  const registry = facts()
  const index = new MatcherIndex<Matcher>()
  const matchers = new Map<string, Matcher>()
  for (let i = 0; i < 100; i++) {
    const matcher = new Matcher('', parseSelector('', `spec.nodeName=n${i}`), registry, 'v1')
    matchers.set(`n${i}`, matcher)
    index.add(matcher)
  }
  const on = (nodeName: string, labels = {}): StoredObject => podObject('x', 'a', 5, { nodeName, labels })
  t.same(index.candidates(event(on('n7'), null)), [matchers.get('n7')])
  t.same(index.candidates(event(on('n7'), on('n7'))), [matchers.get('n7')], 'once')
  t.same(index.candidates(event(on('n7'), on('n9'))), [matchers.get('n7'), matchers.get('n9')], 'where it was as well')
  t.same(index.candidates(event(null, on('n9'))), [matchers.get('n9')])
  t.same(index.candidates(event(on('elsewhere'), null)), [])
  index.remove(matchers.get('n7')!)
  t.same(index.candidates(event(on('n7'), null)), [])
  t.end()
})

void t.test('matchers of one namespace are not tried for events of another, whatever else they select', (t) => {
  const registry = facts()
  const index = new MatcherIndex<Matcher>()
  for (let i = 0; i < 50; i++) {
    index.add(new Matcher(`ns${i}`, parseSelector('app=web', ''), registry, 'v1'))
    index.add(new Matcher(`ns${i}`, parseSelector('', ''), registry, 'v1'))
    index.add(new Matcher(`ns${i}`, parseSelector('app', ''), registry, 'v1'))
  }
  const found = index.candidates(event(podObject('ns7', 'a', 5, { labels: { app: 'web' } }), null))
  t.equal(found.length, 3)
  for (const { scope: namespace } of found) t.equal(namespace, 'ns7')
  t.end()
})

void t.test('an event costs as much with 10,000 sub-prefixes as with a hundred', (t) => {
  const visited = (watched: number): number => {
    const index = new MatcherIndex<Matcher>()
    let matched = 0
    class Counting extends Matcher {
      override matches(object: StoredObject): boolean {
        matched++
        return super.matches(object)
      }
    }
    const add = (prefix: string): void =>
      index.add(new Counting('', EVERYTHING, facts(), 'v1', '', keyFromText(`/registry/pods/${prefix}`)))
    for (let i = 0; i < watched; i++) add(`tenant${i}/`)
    add('tenant7/eu')
    const change = event(podObject('tenant7', 'eu1', 5), null)
    for (const matcher of index.candidates(change)) matcher.match(change)
    t.equal(index.candidates(event(podObject('tenant7', 'us1', 5), null)).length, 1)
    t.equal(index.candidates(event(podObject('other', 'eu1', 5), null)).length, 0)
    return matched
  }
  t.equal(visited(100), 2)
  t.equal(visited(10_000), 2)
  t.end()
})

void t.test('an event costs no more with a hundred shards than with one, whatever else they select', (t) => {
  for (const labels of ['', 'app=web', 'app!=db']) {
    for (const field of ['uid', 'namespace']) {
      const tried = (count: number): number => {
        const [index, registry] = [new MatcherIndex<Matcher>(), facts()]
        for (const shard of shardTexts(count, field)) index.add(new Matcher('', sharded(shard, labels), registry, 'v1'))
        let candidates = 0
        let matches = 0
        for (let i = 0; i < 200; i++) {
          const pod = (revision: number) =>
            podObject(uidOf(i), 'a', revision, { uid: uidOf(i), labels: { app: 'web' } })
          const change = event(pod(6), pod(5))
          for (const matcher of index.candidates(change)) {
            candidates++
            if (matcher.match(change)?.type === 'MODIFIED') matches++
          }
        }
        t.equal(matches, 200, `each event is for one of ${count}`)
        return candidates
      }
      t.equal(tried(1), 200)
      t.ok(tried(100) < 220)
    }
  }
  t.end()
})

void t.test('an object that another one replaces under its key leaves its shard', (t) => {
  const [index, registry] = [new MatcherIndex<Matcher>(), facts()]
  const [low, high] = shardTexts(2).map((shard) => new Matcher('', sharded(shard), registry, 'v1')) as [
    Matcher,
    Matcher,
  ]
  index.add(low)
  index.add(high)
  const first = podObject('x', 'a', 5, { uid: 'a' })
  const second = Array.from({ length: 20 }, (_, i) => podObject('x', 'a', 6, { uid: uidOf(i) })).find(
    (object) => low.matches(object) !== low.matches(first),
  )!
  const change = event(second, first)
  t.same(new Set(index.candidates(change)), new Set([low, high]))
  t.same(new Set([low, high].map((one) => one.match(change)?.type)), new Set(['ADDED', 'DELETED']))
  t.end()
})

void t.test('the uid of an object is read once, and not at all for shards by namespace', (t) => {
  let reads = 0
  const source = factSource()
  const registry = new FactRegistry({
    ...source,
    identity: (object) => {
      reads++
      return source.identity(object)
    },
  })
  const pod = podObject('x', 'a', 5, { uid: 'a' })
  const matches = (field: string): number =>
    shardTexts(100, field).filter((shard) => new Matcher('', sharded(shard), registry, 'v1').matches(pod)).length
  t.equal(matches('namespace'), 1)
  t.equal(reads, 0)
  t.equal(matches('uid'), 1)
  t.equal(reads, 1)
  t.end()
})

void t.test('an object whose uid cannot be read ends the watchers of shards by uid, and no others', (t) => {
  const source = factSource()
  const identity = (object: StoredObject): string => {
    if (object.modRevision === 6) throw new Error('no metadata')
    return source.identity(object)
  }
  const [index, registry] = [new MatcherIndex<Matcher>(), new FactRegistry({ ...source, identity })]
  const make = (shard: string) => new Matcher('', shard === '' ? EVERYTHING : sharded(shard), registry, 'v1')
  const byUid = shardTexts(3).map(make)
  const others = ['', ...shardTexts(1, 'namespace')].map(make)
  for (const matcher of [...byUid, ...others]) index.add(matcher)
  const [readable, unreadable] = [5, 6].map((revision) => podObject('x', 'a', revision, { uid: 'a' })) as [
    StoredObject,
    StoredObject,
  ]
  for (const change of [event(unreadable, null), event(unreadable, readable), event(null, unreadable)]) {
    const found = index.candidates(change)
    t.same(new Set(found), new Set([...byUid, ...others]))
    t.equal(found.length, 5, 'each once')
    for (const matcher of others) t.ok(matcher.match(change))
    for (const matcher of byUid) t.throws(() => matcher.match(change), { message: 'no metadata' })
  }
  t.end()
})

void t.test('with any mix of selectors the index misses no matcher and finds none twice', (t) => {
  const random = seededRandom(11)
  const oneOf = <T>(list: readonly T[]): T => list[randomInteger(random, 0, list.length - 1)]!
  const registry = facts()
  const index = new MatcherIndex<Matcher>()
  const labels = ['', 'app=web', 'app=db', 'app!=web', 'app in (web)', 'app', '!app', 'app=web,tier=a']
  const fields = [
    '',
    'spec.nodeName=n1',
    'spec.nodeName=',
    'spec.nodeName!=n1',
    'metadata.name=p1',
    'status.phase=Running',
  ]
  const shards = [
    '',
    '',
    ...shardTexts(3),
    ...shardTexts(2, 'namespace'),
    rangesText([
      [5n, 2n ** 63n + 9n],
      [2n ** 63n + 10n, 2n ** 64n - 7n],
    ]),
  ]
  const matchers = new Set<Matcher>()
  const pod = (): StoredObject | null => {
    if (random.next() < 0.2) return null
    const tags: PodFields['labels'] = oneOf([{}, { app: 'web' }, { app: 'db' }, { app: 'web', tier: 'a' }])
    const options = {
      labels: tags,
      nodeName: oneOf(['', 'n1', 'n2']),
      phase: oneOf(['Running', 'Failed']),
      uid: uidOf(randomInteger(random, 1, 5)),
    }
    return podObject(oneOf(['x', 'xy']), oneOf(['p1', 'p2']), 5, options)
  }
  for (let step = 0; step < 3_000; step++) {
    if (random.next() < 0.1) {
      const prefix = oneOf([null, null, '', 'x', 'x/', 'x/p1', 'xy/p', 'x/p1/longer'])
      const key = prefix === null ? null : keyFromText(`/registry/pods/${prefix}`)
      const selector = sharded(oneOf(shards), oneOf(labels), oneOf(fields))
      const matcher = new Matcher(oneOf(['', 'x', 'xy']), selector, registry, 'v1', '', key)
      if (![...matchers].some(({ key }) => key === matcher.key)) {
        matchers.add(matcher)
        index.add(matcher)
      } else matcher.close()
    } else if (random.next() < 0.05 && matchers.size > 0) {
      const matcher = oneOf([...matchers])
      matchers.delete(matcher)
      index.remove(matcher)
      matcher.close()
    }
    const object = pod()
    const key = object ?? podObject('x', 'p1', 4)
    const other = pod()
    const previous = other === null ? null : podObject(key.scope, key.name, 4, JSON.parse(fieldsIn(other)) as PodFields)
    if (object === null && previous === null) continue
    const change = event(object, previous)
    const candidates = [...index.candidates(change)]
    if (new Set(candidates).size !== candidates.length) t.fail(`step ${step}: somebody twice`)
    for (const matcher of matchers) {
      if (matcher.match(change) !== null && !candidates.includes(matcher))
        t.fail(`step ${step}: ${matcher.key} is missed`)
    }
  }
  for (const matcher of matchers) {
    index.remove(matcher)
    matcher.close()
  }
  t.equal(registry.pathsInUse, 0)
  t.same(index.candidates(event(podObject('x', 'p1', 5), null)), [], 'nobody is left')
  t.end()
})

function fieldsIn(object: StoredObject): string {
  const { metadata, spec, status } = JSON.parse(object.bytes.toString()) as {
    metadata: { labels: object; uid: string }
    spec: { nodeName: string }
    status: { phase: string }
  }
  return JSON.stringify({ uid: metadata.uid, labels: metadata.labels, nodeName: spec.nodeName, phase: status.phase })
}

void t.test('facts', (t) => {
  void t.test('facts are extracted once per object version and set of paths', (t) => {
    let reads = 0
    const registry = new FactRegistry(
      factSource((object) => {
        reads++
        return object.bytes
      }),
    )
    const use = registry.use(['spec.nodeName'])
    const pod = podObject('x', 'a', 5, { nodeName: 'n1' })
    t.equal(use.subject(pod, '').field('spec.nodeName'), 'n1')
    t.equal(registry.use(['spec.nodeName']).subject(pod, '').field('spec.nodeName'), 'n1')
    t.equal(reads, 1)
    t.end()
  })
  void t.test('are shared by objects with the same values, and only by those', (t) => {
    const label = 'metadata.labels[a]'
    const use = new FactRegistry(factSource()).use(['spec.nodeName', label])
    const rowOf = (name: string, nodeName: string, labels: Record<string, string>): object | null => {
      const pod = podObject('x', name, 5, { nodeName, labels })
      const subject = use.subject(pod, '')
      t.equal(subject.field('spec.nodeName'), nodeName)
      t.equal(subject.attribute('metadata.labels[a]'), labels['a'])
      t.equal(subject.field('metadata.name'), name)
      return pod.notes.facts
    }
    const first = rowOf('one', 'n1', {})
    t.equal(rowOf('two', 'n1', {}), first)
    t.not(rowOf('three', 'n1', { a: '' }), first, 'an empty label is not an absent one')
    t.not(rowOf('four', 'n1', { a: 'b' }), first)
    const apart = rowOf('five', 'n1', { a: 'b\nc' })
    t.not(rowOf('six', 'n1\nb', { a: 'c' }), apart, 'whatever characters a value has')
    t.equal(rowOf('seven', 'n1', { a: 'b\nc' }), apart)
    const long = 'n'.repeat(SHARED_ROW_BYTES)
    t.not(rowOf('eight', long, {}), rowOf('nine', long, {}), 'long values live as long as their object')
    for (let i = 0; i < SHARED_ROWS_BYTES / 200; i++) use.subject(podObject('x', 'a', 5, { nodeName: `node-${i}` }), '')
    t.not(rowOf('ten', 'n1', {}), first, 'what was not seen for long is forgotten')
    t.end()
  })
  void t.test('of a new path are read from already processed objects only for that path', (t) => {
    let reads = 0
    const registry = new FactRegistry(
      factSource((object) => {
        reads++
        return object.bytes
      }),
    )
    const node = registry.use(['spec.nodeName'])
    const pod = podObject('x', 'a', 5, { nodeName: 'n1', phase: 'Running', labels: { app: 'web' } })
    node.subject(pod, '')
    const phase = registry.use(['status.phase', 'spec.nodeName'])
    t.equal(node.subject(pod, '').field('spec.nodeName'), 'n1')
    t.equal(reads, 1, 'what was extracted is not lost')
    t.equal(phase.subject(pod, '').field('status.phase'), 'Running')
    t.equal(phase.subject(pod, '').field('spec.nodeName'), 'n1')
    t.equal(reads, 2)
    node.release()
    const label = registry.use(['metadata.labels[app]'])
    t.equal(label.subject(pod, '').attribute('metadata.labels[app]'), 'web')
    t.equal(phase.subject(pod, '').field('status.phase'), 'Running', 'still in use')
    t.equal(reads, 3)
    t.end()
  })
  void t.test('they survive any number of paths that come and go', (t) => {
    const registry = facts()
    const pod = podObject('x', 'a', 5, { nodeName: 'n1', labels: { l1999: 'yes' } })
    const node = registry.use(['spec.nodeName', 'metadata.name'])
    for (let i = 0; i < 2_000; i++) {
      const label = registry.use([`metadata.labels[l${i}]`])
      t.equal(label.subject(pod, '').attribute(`metadata.labels[l${i}]`), i === 1_999 ? 'yes' : undefined)
      t.equal(node.subject(pod, '').field('spec.nodeName'), 'n1')
      label.release()
    }
    registry.forget()
    t.equal(node.subject(pod, '').field('spec.nodeName'), 'n1')
    t.end()
  })
  void t.test('without selectors, no facts are read', (t) => {
    const registry = new FactRegistry(
      factSource(() => {
        throw new Error('nobody should look')
      }),
    )
    t.equal(
      registry
        .use([])
        .subject(podObject('x', 'a', 5), '')
        .field('metadata.name'),
      'a',
    )
    t.end()
  })
  void t.test('paths are reference-counted', (t) => {
    const registry = facts()
    const uses = [registry.use(['a', 'b']), registry.use(['b', 'c'])]
    t.equal(registry.pathsInUse, 3)
    uses[0]!.release()
    t.equal(registry.pathsInUse, 2)
    uses[1]!.release()
    t.equal(registry.pathsInUse, 0)
    t.end()
  })
  void t.test('an object that cannot be read as JSON has its name and no other fact', (t) => {
    const subject = new FactRegistry(factSource(() => null)).use(['spec.nodeName']).subject(podObject('x', 'a', 5), '')
    t.equal(subject.field('spec.nodeName'), '')
    t.equal(subject.field('metadata.name'), 'a')
    t.end()
  })
  t.end()
})

void t.test('facts for selectors are kept up to a share for each identity, and read each time beyond it', (t) => {
  let reads = 0
  const registry = new FactRegistry(
    factSource((object) => {
      reads++
      return object.bytes
    }),
  )
  const pod = podObject('x', 'a', 5, { nodeName: 'n1', labels: { app: 'web' } })
  const many = (from: number, count: number): string[] => Array.from({ length: count }, (_, i) => `spec.x${from + i}`)
  const greedy = registry.use(many(0, MAX_PATHS_PER_IDENTITY), 'greedy')
  t.ok(greedy.isKept)
  const beyond = registry.use(['metadata.labels[app]', 'spec.nodeName'], 'greedy')
  t.notOk(beyond.isKept)
  for (let i = 1; i <= 2; i++) {
    t.equal(beyond.subject(pod, '').attribute('metadata.labels[app]'), 'web')
    t.equal(beyond.subject(pod, '').field('spec.nodeName'), 'n1')
    t.equal(reads, 2 * i)
  }
  t.equal(registry.pathsInUse, MAX_PATHS_PER_IDENTITY, 'nothing of it is kept')
  t.ok(registry.use(['spec.nodeName', 'status.phase'], 'greedy').isKept, 'well-known fields do not count')
  t.ok(registry.use(many(0, 5), 'other').isKept, 'what is in use may be used by others')
  const others = Array.from({ length: 3 }, (_, i) =>
    registry.use(many(1_000 * (i + 1), MAX_PATHS_PER_IDENTITY), `other ${i}`),
  )
  t.ok(
    others.every(({ isKept }) => isKept),
    'others have their share',
  )
  t.notOk(registry.use(['spec.more'], 'late').isKept, 'all together have a bound')
  t.ok(registry.use(['spec.nodeName'], 'late').isKept)
  others[0]!.release()
  t.ok(registry.use(['spec.more'], 'late').isKept, 'what is given back is free again')
  t.equal(MAX_PATHS, 4 * MAX_PATHS_PER_IDENTITY)
  t.end()
})

void t.test('a matcher beyond the table sees the same events, in any version', (t) => {
  const registry = facts()
  registry.use(
    Array.from({ length: MAX_PATHS_PER_IDENTITY }, (_, i) => `spec.x${i}`),
    'greedy',
  )
  const matcher = new Matcher('', parseSelector('app=web', 'spec.nodeName=n1'), registry, 'v1', 'greedy')
  t.equal(matcher.indexTerm, null, 'no index reads each object for it')
  t.ok(matcher.matches(podObject('x', 'a', 5, { nodeName: 'n1', labels: { app: 'web' } })))
  t.notOk(matcher.matches(podObject('x', 'a', 5, { nodeName: 'n2', labels: { app: 'web' } })))
  const named = new Matcher('', parseSelector('app=web', 'metadata.name=a'), registry, 'v1', 'greedy')
  t.equal(named.indexTerm?.path, 'metadata.name', 'a name is in the key, so it is still indexed')
  t.end()
})

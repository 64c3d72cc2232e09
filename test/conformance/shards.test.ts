/** PROTOCOL section 11: shardSelector. */
import t from 'tap'
import { pod } from '../support/pod.js'
import { brief } from '../support/event-reader.js'
import { shardTexts, uidOf } from '../support/shards.js'
import { checkRows, namesOf, status } from './row.js'
import { overEveryUpstream } from './world.js'

const PODS = '/api/v1/pods'
const NAMES = Array.from('abcdefghijkl')

/** All pods, labelled by their number. */
const podsWith = (app: (i: number) => string): Readonly<Record<string, object>> =>
  Object.fromEntries(
    NAMES.map((name, i) => {
      const namespace = i % 2 === 0 ? 'even' : 'odd'
      const { metadata, ...rest } = pod(name, {
        namespace,
        labels: { app: app(i) },
        spec: { nodeName: `n${i % 3}` },
      }) as {
        metadata: object
      }
      return [`pods/${namespace}/${name}`, { metadata: { ...metadata, uid: uidOf(i + 12) }, ...rest }]
    }),
  )

const SEEDS = [podsWith((i) => (i < 6 ? 'web' : 'db'))]
const SHARDS = shardTexts(3)
const query = (text: string): string => `shardSelector=${encodeURIComponent(text)}`
/** The pods of each shard; recorded once, since neither the uids nor the hash ever change. */
const OWNED = ['', '', '']

overEveryUpstream(t, 'shards', { seeds: SEEDS }, async (t, w) => {
  await t.test('the shards together are everything, each object in one, and lists repeat the selector', async (t) => {
    const lists = await Promise.all(SHARDS.map((shard) => w.ask(`${PODS}?${query(shard)}`)))
    t.same(lists.flatMap(namesOf).toSorted(), NAMES)
    for (const [i, list] of lists.entries()) {
      t.ok(namesOf(list).length > 0)
      t.match(list.json.metadata, { shardInfo: { selector: SHARDS[i] } })
      OWNED[i] = namesOf(list).join('')
    }
  })

  await t.test('every form, version of the state and selector keeps to the shard', async (t) => {
    const [shard] = SHARDS as [string]
    const own = Array.from(OWNED[0]!)
    const selected = (of: (i: number) => boolean): string[] => own.filter((name) => of(NAMES.indexOf(name)))
    const rev = (await w.ask(`${PODS}?resourceVersion=0`)).json.metadata.resourceVersion
    const table = 'application/json;as=Table;v=v1;g=meta.k8s.io'
    const partial = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'
    const info = { metadata: { shardInfo: { selector: shard } } }
    await checkRows(t, w, [
      { promise: 'cached', path: `${PODS}?resourceVersion=0&${query(shard)}`, code: 200, names: own, has: info },
      { promise: 'exact', path: `${PODS}?resourceVersion=${rev}&resourceVersionMatch=Exact&${query(shard)}`, code: 200, names: own },
      { promise: 'with labels', path: `${PODS}?labelSelector=app%3Dweb&${query(shard)}`, code: 200, names: selected((i) => i < 6) },
      { promise: 'with fields', path: `${PODS}?fieldSelector=spec.nodeName%3Dn1&${query(shard)}`, code: 200, names: selected((i) => i % 3 === 1) },
      { promise: 'one namespace', path: `/api/v1/namespaces/odd/pods?${query(shard)}`, code: 200, names: selected((i) => i % 2 === 1) },
      { promise: 'metadata', path: `${PODS}?${query(shard)}`, headers: { accept: partial }, code: 200, names: own, has: info },
      { promise: 'a table', path: `${PODS}?${query(shard)}`, headers: { accept: table }, code: 200, has: info, check: (t, { json }) => t.equal((json['rows'] as []).length, own.length) },
      { promise: 'YAML', path: `${PODS}?${query(shard)}`, headers: { accept: 'application/yaml' }, code: 200, check: (t, { text }) => t.match(text, 'shardInfo:') },
      { promise: 'protobuf', path: `${PODS}?${query(shard)}`, headers: { accept: 'application/vnd.kubernetes.protobuf' }, code: 200, check: (t, { body }) => t.ok(body.includes(shard)) },
      { promise: 'an empty parameter is none', path: `${PODS}?shardSelector=`, code: 200, check: (t, answer) => t.equal(namesOf(answer).length, NAMES.length) },
      { promise: 'a malformed one', path: `${PODS}?shardSelector=x`, code: 400, has: status(400, 'BadRequest', 'invalid shard selector: unexpected expression kind 3; expected shardRange() call or || operator') },
      { promise: 'a malformed one of a watch', path: `${PODS}?watch=1&shardSelector=x`, code: 400, has: status(400, 'BadRequest', /^invalid shard selector/) },
    ]) // prettier-ignore
  })

  await t.test('pages of a shard are all of it', async (t) => {
    const found: string[] = []
    for (let token = '', pages = 0; pages < 20; pages++) {
      const { json, ...answer } = await w.ask(`${PODS}?limit=1&${query(SHARDS[1]!)}&continue=${token}`)
      found.push(...namesOf({ json, ...answer }))
      t.match(json.metadata, { shardInfo: { selector: SHARDS[1] } })
      t.notOk('remainingItemCount' in json.metadata)
      token = json.metadata.continue ?? ''
      if (token === '') break
    }
    t.equal(found.join(''), OWNED[1])
  })

  await t.test('shards by namespace own whole namespaces', async (t) => {
    const lists = await Promise.all(shardTexts(50, 'namespace').map((shard) => w.ask(`${PODS}?${query(shard)}`)))
    const full = lists.map(namesOf).filter((names) => names.length > 0)
    t.same(full.map((names) => names.join('')).toSorted(), ['acegik', 'bdfhjl'])
  })

  await t.test('an event reaches only the shard that owns its object, and every shard its bookmark', async (t) => {
    const initial = 'watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan'
    const watches = await Promise.all(
      SHARDS.map((shard) => w.watch(`${PODS}?${initial}&timeoutSeconds=4&${query(shard)}`)),
    )
    const changed = await w.write(podsWith(() => 'new'))
    const gone = await w.write({ 'pods/even/a': null })
    const started = Number(w.seeds.at(-1))
    for (const [i, { events }] of watches.entries()) {
      await events.all()
      const told = events.events.filter(({ type }) => type !== 'BOOKMARK').map(brief)
      const own = Array.from(OWNED[i]!)
      t.same(
        told.filter((text) => text.startsWith('ADDED')).toSorted(),
        own.toSorted().map((name) => `ADDED ${name}@${started}`),
      )
      t.same(
        told.filter((text) => text.startsWith('MODIFIED')).toSorted(),
        own.toSorted().map((name) => `MODIFIED ${name}@${changed}`),
      )
      t.same(
        told.filter((text) => text.startsWith('DELETED')),
        own.includes('a') ? [`DELETED a@${gone}`] : [],
      )
      const last = events.events.filter(({ type }) => type === 'BOOKMARK').at(-1)
      t.ok(Number(last?.object.metadata.resourceVersion) >= started)
    }
    const resumed = await w.watch(`${PODS}?watch=1&resourceVersion=${started}&${query(SHARDS[2]!)}`)
    const own = Array.from(OWNED[2]!)
    const expected = [
      ...(own.includes('a') ? [`DELETED a@${gone}`] : []),
      ...own.toSorted().map((name) => `MODIFIED ${name}@${changed}`),
    ]
    await resumed.events.first(expected.length)
    resumed.close()
    t.same(resumed.events.events.map(brief).toSorted(), expected)
  })
})

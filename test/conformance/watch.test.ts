/** PROTOCOL section 3: watch. */
import t, { type Test } from 'tap'
import { pod } from '../support/pod.js'
import { type SeenEvent, brief } from '../support/event-reader.js'
import { type Row, checkRows, status } from './row.js'
import { type World, overEveryUpstream } from './world.js'

const PODS = '/api/v1/namespaces/default/pods'
const FAR = 1_000_000
const INITIAL = 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan'
const BOOKMARKS = 'allowWatchBookmarks=true'
const END = 'k8s.io/initial-events-end'

/** In the end a is unchanged, b has changed, d is new, and c is gone; some namespaces share a prefix. */
const SEEDS = [
  { 'pods/default/a': pod('a', { labels: { app: 'web' } }) },
  { 'pods/default/b': pod('b') },
  { 'pods/default/c': pod('c', { labels: { app: 'web' } }) },
  { 'pods/default/b': pod('b', { status: { phase: 'Failed' } }) },
  { 'pods/default/d': pod('d') },
  { 'pods/default/c': null },
  { 'pods/n/x': pod('x', { namespace: 'n' }) },
  { 'pods/n1/y': pod('y', { namespace: 'n1' }) },
]

interface WatchRow {
  readonly promise: string
  /**
   * The watch ends after a second by its own timeout, so its last bookmark, due 2 s before that, comes at once and is
   * not counted.
   */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly events: readonly string[]
  readonly check?: (t: Test, events: readonly SeenEvent[]) => unknown
}

async function checkWatches(t: Test, w: World, rows: readonly WatchRow[]): Promise<void> {
  const streams = rows.map(async ({ path, headers }) => {
    const url = `${path}${path.includes('?') ? '&' : '?'}timeoutSeconds=3`
    const watch = await w.watch(url, headers)
    await watch.events.all()
    return watch
  })
  await Promise.allSettled(streams)
  for (const [i, row] of rows.entries()) {
    await t.test(row.promise, async (t) => {
      const { code, headers, events } = await streams[i]!
      t.equal(code, 200)
      t.match(headers, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' })
      const told = events.events.filter((event) => event.type !== 'BOOKMARK' || isEnd(event))
      t.same(told.map(brief), row.events)
      t.equal(events.ending, 'clean')
      await row.check?.(t, told)
    })
  }
}

const isEnd = ({ type, object }: SeenEvent): boolean =>
  type === 'BOOKMARK' && object.metadata.annotations?.[END] === 'true'

overEveryUpstream(t, 'where a watch starts', { seeds: SEEDS }, async (t, w) => {
  const [a, , c, b, d, deleted, x, y] = w.seeds
  const state = [`ADDED a@${a}`, `ADDED b@${b}`, `ADDED d@${d}`]
  const after = [`MODIFIED b@${b}`, `ADDED d@${d}`, `DELETED c@${deleted}`]
  const marked = (t: Test, events: readonly SeenEvent[]): void => {
    t.ok(isEnd(events.at(-1)!), 'the end of the state is marked')
    const { kind, apiVersion, metadata, ...rest } = events.at(-1)!.object
    t.same([kind, apiVersion, rest], ['Pod', 'v1', {}])
    t.same(Object.keys(metadata).sort(), ['annotations', 'resourceVersion'])
  }
  const [start] = [await w.ask(`${PODS}?resourceVersion=0`)]
  t.equal(start.json.metadata.resourceVersion, String(y), 'the cache has everything')
  await checkWatches(t, w, [
    { promise: 'unset: the current state, then the stream', path: `${PODS}?watch=1`, events: state },
    { promise: 'watch=true is the same', path: `${PODS}?watch=true`, events: state },
    { promise: 'empty is unset', path: `${PODS}?watch=1&resourceVersion=`, events: state },
    { promise: '0: the state of the cache', path: `${PODS}?watch=1&resourceVersion=0`, events: state },
    {
      promise: 'unset with bookmarks: as with sendInitialEvents',
      path: `${PODS}?watch=1&${BOOKMARKS}`,
      events: [...state, `BOOKMARK @${y}`],
      check: marked,
    },
    {
      promise: '0 with bookmarks: as with sendInitialEvents',
      path: `${PODS}?watch=1&${BOOKMARKS}&resourceVersion=0`,
      events: [...state, `BOOKMARK @${y}`],
      check: marked,
    },
    { promise: 'N: exactly the events after N', path: `${PODS}?watch=1&resourceVersion=${c}`, events: after },
    { promise: 'N with leading zeros is N', path: `${PODS}?watch=1&resourceVersion=00${c}`, events: after },
    {
      promise: 'N with bookmarks: no end mark',
      path: `${PODS}?watch=1&resourceVersion=${c}&${BOOKMARKS}`,
      events: after,
    },
    { promise: 'the newest N: nothing', path: `${PODS}?watch=1&resourceVersion=${y}`, events: [] },
    {
      promise: 'N that etcd never had: 410 instead of silence',
      path: `${PODS}?watch=1&${BOOKMARKS}&resourceVersion=${FAR}`,
      events: ['ERROR @'],
      check: (t, [event]) =>
        t.same(event?.object, {
          ...status(410, 'Expired', `resource version ${FAR} has never existed here: the storage is at ${y}`),
          details: { causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }] },
        }),
    },
    {
      promise: 'sendInitialEvents: state and mark',
      path: `${PODS}?watch=1&${INITIAL}&${BOOKMARKS}`,
      events: [...state, `BOOKMARK @${y}`],
      check: marked,
    },
    {
      promise: 'sendInitialEvents with 0: state and mark',
      path: `${PODS}?watch=1&${INITIAL}&${BOOKMARKS}&resourceVersion=0`,
      events: [...state, `BOOKMARK @${y}`],
      check: marked,
    },
    {
      promise: 'sendInitialEvents with N: a state not older than N',
      path: `${PODS}?watch=1&${INITIAL}&${BOOKMARKS}&resourceVersion=${c}`,
      events: [...state, `BOOKMARK @${y}`],
      check: marked,
    },
    { promise: 'sendInitialEvents without bookmarks: no mark', path: `${PODS}?watch=1&${INITIAL}`, events: state },
    {
      promise: 'sendInitialEvents of an empty list: a mark',
      path: `/api/v1/namespaces/nobody/pods?watch=1&${INITIAL}&${BOOKMARKS}`,
      events: [`BOOKMARK @${y}`],
      check: marked,
    },
    ...['', '0'].map((rv) => ({
      promise: `sendInitialEvents=false with ${JSON.stringify(rv)}: no state`,
      path: `${PODS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=${rv}`,
      events: [],
    })),
    {
      promise: 'sendInitialEvents=false with N: the events after N',
      path: `${PODS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=${c}`,
      events: after,
    },
    {
      promise: 'all namespaces',
      path: '/api/v1/pods?watch=1&resourceVersion=0',
      events: [...state, `ADDED x@${x}`, `ADDED y@${y}`],
    },
    { promise: 'namespace n is not n1', path: '/api/v1/namespaces/n/pods?watch=1', events: [`ADDED x@${x}`] },
    {
      promise: 'nor are its events those of n1',
      path: `/api/v1/namespaces/n/pods?watch=1&resourceVersion=${deleted}`,
      events: [`ADDED x@${x}`],
    },
    {
      promise: 'the deprecated path of all namespaces',
      path: '/api/v1/watch/pods?resourceVersion=0',
      events: [...state, `ADDED x@${x}`, `ADDED y@${y}`],
    },
    { promise: 'the deprecated path of a namespace', path: '/api/v1/watch/namespaces/default/pods', events: state },
    {
      promise: 'the deprecated path of one object selects metadata.name=NAME',
      path: '/api/v1/watch/namespaces/default/pods/b',
      events: [`ADDED b@${b}`],
    },
    {
      promise: 'and accepts an equivalent selector',
      path: `/api/v1/watch/namespaces/default/pods/b?fieldSelector=metadata.name%3Db&resourceVersion=${a}`,
      events: [`ADDED b@${w.seeds[1]}`, `MODIFIED b@${b}`],
    },
    {
      promise: 'one object by fieldSelector',
      path: `${PODS}?watch=1&fieldSelector=metadata.name%3Dd`,
      events: [`ADDED d@${d}`],
    },
    {
      promise: 'the deletion of an unselected object is not sent',
      path: `${PODS}?watch=1&resourceVersion=${c}&labelSelector=app%21%3Dweb`,
      events: [`MODIFIED b@${b}`, `ADDED d@${d}`],
    },
    {
      promise: 'an object that starts to match a field selector is ADDED',
      path: `${PODS}?watch=1&resourceVersion=${c}&fieldSelector=status.phase%3DFailed`,
      events: [`ADDED b@${b}`],
    },
  ])
})

const forbidden = (...messages: readonly string[]): object => ({
  ...status(422, 'Invalid', /^ListOptions\.meta\.k8s\.io "" is invalid: /),
  details: {
    group: 'meta.k8s.io',
    kind: 'ListOptions',
    causes: messages.map((message) => ({ field: 'resourceVersionMatch', message })),
  },
})
const REQUIRES = 'Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan'
const UNLESS = 'Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided'
const ONLY = 'Unsupported value: "Exact": supported values: "NotOlderThan"'

const REFUSED: readonly Row[] = [
  {
    promise: 'sendInitialEvents without resourceVersionMatch',
    path: '?watch=1&sendInitialEvents=true',
    code: 422,
    has: forbidden(REQUIRES),
  },
  {
    promise: 'sendInitialEvents=false without resourceVersionMatch',
    path: '?watch=1&sendInitialEvents=false',
    code: 422,
    has: forbidden(REQUIRES),
  },
  {
    promise: 'sendInitialEvents with Exact',
    path: '?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1',
    code: 422,
    has: forbidden(REQUIRES, ONLY),
  },
  {
    promise: 'resourceVersionMatch alone',
    path: '?watch=1&resourceVersionMatch=NotOlderThan',
    code: 422,
    has: forbidden(UNLESS),
  },
  {
    promise: 'resourceVersionMatch with only a resourceVersion',
    path: '?watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1',
    code: 422,
    has: forbidden(UNLESS),
  },
  {
    promise: 'Exact alone',
    path: '?watch=1&resourceVersionMatch=Exact&resourceVersion=1',
    code: 422,
    has: forbidden(UNLESS, ONLY),
  },
  ...['x', '-1', '1.5', '99999999999999999999'].map((text) => ({
    promise: `the resourceVersion ${text} is 400`,
    path: `?watch=1&resourceVersion=${text}`,
    code: 400,
    has: status(400, 'BadRequest', /^invalid resource version: /),
  })),
  ...['x', '1.5', '99999999999999999999'].map((text) => ({
    promise: `a timeout of ${text} is 400`,
    path: `?watch=1&timeoutSeconds=${text}`,
    code: 400,
    has: status(400, 'BadRequest', 'timeoutSeconds'),
  })),
  {
    promise: 'a bad selector is 400, before any event',
    path: '?watch=1&labelSelector=%21%21',
    code: 400,
    has: status(400, 'BadRequest', /./),
  },
]

overEveryUpstream(t, 'rejected watches', { seeds: SEEDS }, async (t, w) => {
  await checkRows(t, w, [
    ...REFUSED.map((row) => ({ ...row, path: `${PODS}${row.path}` })),
    {
      promise: 'a deprecated path whose selector names another object is 400',
      path: '/api/v1/watch/namespaces/default/pods/b?fieldSelector=metadata.name%3Da',
      code: 400,
      has: status(400, 'BadRequest', "fieldSelector metadata.name doesn't match requested name"),
    },
    {
      promise: 'a deprecated path of an unknown resource is 404',
      path: '/api/v1/watch/nothings',
      code: 404,
      has: status(404, 'NotFound', 'the server could not find the requested resource'),
    },
    { promise: 'watch=false is a list', path: `${PODS}?watch=false`, code: 200, has: { kind: 'PodList' } },
    { promise: 'watch=0 is a list', path: `${PODS}?watch=0`, code: 200, has: { kind: 'PodList' } },
    {
      promise: 'watch=1 on the path of an object is a get',
      path: `${PODS}/a?watch=1`,
      code: 200,
      has: { kind: 'Pod' },
    },
    {
      promise: 'HEAD of a watch ends',
      path: `${PODS}?watch=1&timeoutSeconds=1`,
      method: 'HEAD',
      code: 200,
      check: (t, { body }) => t.equal(body.length, 0),
    },
  ])
})

overEveryUpstream(t, 'errors in the stream', { seeds: SEEDS, keepsSeeds: 1 }, async (t, w) => {
  const compacted = w.seeds.at(-2)!
  const errorOf = async (path: string): Promise<unknown> => {
    const { code, events } = await w.watch(path)
    const all = await events.all()
    t.equal(code, 200)
    t.equal(all.length, 1, 'one event')
    t.equal(events.ending, 'clean', 'and a clean end')
    return all[0]
  }
  t.same(
    await errorOf(`${PODS}?watch=1&resourceVersion=1`),
    {
      type: 'ERROR',
      object: {
        kind: 'Status',
        apiVersion: 'v1',
        metadata: {},
        status: 'Failure',
        message: `too old resource version: 1 (${compacted})`,
        reason: 'Expired',
        code: 410,
      },
    },
    'too old',
  )
  const kept = await w.watch(`/api/v1/pods?watch=1&resourceVersion=${compacted}`)
  const resumed = (await kept.events.first(1)).map(brief)
  t.same(resumed, [`ADDED y@${w.seeds.at(-1)}`], 'the oldest that is kept can be resumed')
  kept.close()
  const started = performance.now()
  t.match(await errorOf(`${PODS}?watch=1&${INITIAL}&resourceVersion=${FAR}`), {
    type: 'ERROR',
    object: {
      ...status(504, 'Timeout', `Timeout: Too large resource version: ${FAR}, current: `),
      details: {
        causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
        retryAfterSeconds: 1,
      },
    },
  })
  const waitedMs = performance.now() - started
  t.ok(waitedMs > 2_500, `not before about 3 s: ${waitedMs}`)
})

overEveryUpstream(t, 'changes while it runs', { seeds: SEEDS.slice(0, 2) }, async (t, w) => {
  const from = w.seeds.at(-1)!
  const open = (path: string) => w.watch(`${path}${path.includes('?') ? '&' : '?'}watch=1&resourceVersion=${from}`)
  const web = await open(`${PODS}?labelSelector=app%3Dweb`)
  const node = await open(`${PODS}?fieldSelector=spec.nodeName%3Dn1`)
  const single = await open(`${PODS}?fieldSelector=metadata.name%3Db`)
  const short = await open('/api/v1/namespaces/n/pods')
  const into = await w.write({ 'pods/default/b': pod('b', { labels: { app: 'web' }, spec: { nodeName: 'n1' } }) })
  const within = await w.write({
    'pods/default/b': pod('b', { labels: { app: 'web', x: 'y' }, spec: { nodeName: 'n1' } }),
  })
  const out = await w.write({ 'pods/default/b': pod('b', { labels: { app: 'db' }, spec: { nodeName: 'n2' } }) })
  const long = await w.write({ 'pods/n1/z': pod('z', { namespace: 'n1' }) })
  const gone = await w.write({ 'pods/default/b': null })
  const other = await w.write({ 'pods/n/z': pod('z', { namespace: 'n' }), 'pods/default/a': null })

  await t.test('an object is ADDED when it enters the selector, and DELETED when it leaves it', async (t) => {
    for (const watch of [web, node]) {
      const events = await watch.events.first(3)
      t.same(events.map(brief), [`ADDED b@${into}`, `MODIFIED b@${within}`, `DELETED b@${out}`])
    }
    const [, , last] = await web.events.first(3)
    t.match(last!.object, {
      metadata: { labels: { app: 'web', x: 'y' }, resourceVersion: String(out) },
      spec: { nodeName: 'n1' },
    })
    t.same((await web.events.first(4)).slice(3).map(brief), [`DELETED a@${other}`])
  })
  await t.test('a true delete carries the last object with the revision of the deletion', async (t) => {
    const events = await single.events.first(4)
    t.same(events.slice(2).map(brief), [`MODIFIED b@${out}`, `DELETED b@${gone}`])
    t.match(events[3]!.object, { kind: 'Pod', spec: { nodeName: 'n2' }, metadata: { labels: { app: 'db' } } })
  })
  await t.test('a watch of namespace n gets no events of n1', async (t) => {
    t.same((await short.events.first(1)).map(brief), [`ADDED z@${other}`])
    t.ok(long < other)
  })
  for (const watch of [web, node, single, short]) watch.close()
})

overEveryUpstream(t, 'bookmarks', { seeds: SEEDS, flags: ['--bookmark-interval=1s'] }, async (t, w) => {
  const from = w.seeds.at(-1)!
  const watch = await w.watch(`${PODS}?watch=1&resourceVersion=${from}&${BOOKMARKS}`)
  const without = await w.watch(`${PODS}?watch=1&resourceVersion=${from}`)
  const elsewhere = await w.watch(`/api/v1/namespaces/nobody/pods?watch=1&resourceVersion=${from}&${BOOKMARKS}`)
  const [first] = await watch.events.first(1)
  t.same(first, {
    type: 'BOOKMARK',
    object: { kind: 'Pod', apiVersion: 'v1', metadata: { resourceVersion: String(from) } },
  })
  const put = await w.write({ 'pods/default/e': pod('e') })
  const sawPut = (events: readonly SeenEvent[]): boolean =>
    events.some(({ type, object }) => type === 'BOOKMARK' && object.metadata.resourceVersion === String(put))
  while (!sawPut(watch.events.events)) await watch.events.first(watch.events.events.length + 1)
  const seen = watch.events.events.filter(
    (event) => event.type !== 'BOOKMARK' || event.object.metadata.resourceVersion === String(put),
  )
  t.same(seen.slice(0, 2).map(brief), [`ADDED e@${put}`, `BOOKMARK @${put}`], 'after all that is at or before it')
  while (!sawPut(elsewhere.events.events)) await elsewhere.events.first(elsewhere.events.events.length + 1)
  t.pass('a watch which no event touches advances too')
  await without.events.first(1)
  t.same(without.events.events.map(brief), [`ADDED e@${put}`], 'who did not ask gets none')
  for (const one of [watch, without, elsewhere]) one.close()
})

overEveryUpstream(t, 'the end of a watch', { seeds: SEEDS, flags: ['--min-request-timeout=1s'] }, async (t, w) => {
  const from = w.seeds.at(-1)!
  await t.test('a watch gets a last bookmark 2 s before its deadline, and then ends cleanly', async (t) => {
    const started = performance.now()
    const { events } = await w.watch(`${PODS}?watch=1&resourceVersion=${from}&${BOOKMARKS}&timeoutSeconds=3`)
    const [bookmark] = await events.first(1)
    const atMs = performance.now() - started
    t.ok(atMs > 600, `not before about 1 s after the start: ${atMs}`)
    t.same(bookmark, {
      type: 'BOOKMARK',
      object: { kind: 'Pod', apiVersion: 'v1', metadata: { resourceVersion: String(from) } },
    })
    t.equal((await events.all()).length, 1)
    t.equal(events.ending, 'clean')
    const endedMs = performance.now() - started
    t.ok(endedMs > 2_800, `not before 3 s: ${endedMs}`)
  })
  await t.test('without a timeout it ends at a random time between the minimum and twice that', async (t) => {
    const started = performance.now()
    const times = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const { events } = await w.watch(`${PODS}?watch=1&resourceVersion=${from}`)
        await events.all()
        t.equal(events.ending, 'clean')
        return performance.now() - started
      }),
    )
    t.ok(Math.min(...times) >= 950, `not before the shortest: ${times.map(Math.round).join(' ')}`)
    t.ok(Math.max(...times) - Math.min(...times) > 50, 'not all at one time')
  })
})

overEveryUpstream(t, 'a revision is sent as a whole', { seeds: SEEDS }, async (t, w) => {
  const from = w.seeds.at(-1)!
  const watch = await w.watch(`${PODS}?watch=1&resourceVersion=${from}`)
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`pods/default/m${10 + i}`, pod(`m${10 + i}`)]))
  const revision = await w.write(many)
  const events = await watch.events.first(40)
  t.same(
    events.map(brief),
    Object.values(many).map((_, i) => `ADDED m${10 + i}@${revision}`),
  )
  watch.close()
})

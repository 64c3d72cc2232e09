/**
 * Tests writes in threads: they give the same answers as on the event loop, and one that exceeds its limits harms no
 * other.
 */
import t, { type Test } from 'tap'
import { FairSemaphore } from '../../../src/server/limits/fair-semaphore.js'
import { ObjectViews } from '../../../src/kubernetes/codec/object-views.js'
import { DefinedSchema } from '../../../src/kubernetes/codec/defined-schema.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { resolveResources } from '../../../src/kubernetes/dialect/declared-resource.js'
import { ResourceRegistry, servedResource, viewTargetOf } from '../../../src/kubernetes/dialect/resource-registry.js'
import type { Batch } from '../../../src/engine/model/event.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { ForbiddenError } from '../../../src/kubernetes/model/status.js'
import { statusOf } from '../../../src/kubernetes/model/status-of.js'
import { systemClock, type Timer } from '../../../src/support/clock.js'
import { systemRandom } from '../../../src/support/random.js'
import { ThreadPool } from '../../../src/support/thread-pool.js'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { OffLoopWriter } from '../../../src/kubernetes/writes/off-loop-writer.js'
import type { WriteRequest } from '../../../src/kubernetes/writes/write-context.js'
import type { WriteVerb } from '../../../src/kubernetes/writes/writer.js'
import { bodyOf } from './writer-over.js'
import { shardTexts } from '../../support/shards.js'

const program = new URL('../../../src/kubernetes/writes/writer-thread.js', import.meta.url)
const PATTERN = '^([a-z0-9]+-?)+$'
const WIDGETS = servedResource(
  {
    group: 'example.com',
    version: 'v1',
    plural: 'widgets',
    singular: 'widget',
    kind: 'Widget',
    listKind: 'WidgetList',
    shortNames: [],
    categories: [],
    namespaced: true,
    etcdPrefix: keyFromText('/registry/example.com/widgets/'),
    holds: 'kubernetes',
  },
  'custom',
  {
    schema: DefinedSchema.of({
      type: 'object',
      properties: {
        // The pattern takes minutes on a text of 3 MB, and no time on a short one.
        text: { type: 'string', pattern: PATTERN, allOf: Array.from({ length: 1_000 }, () => ({ pattern: PATTERN })) },
        size: { type: 'integer', default: 7 },
        items: {
          type: 'array',
          items: { type: 'object', properties: { text: { type: 'string', default: 'x'.repeat(1_000) } } },
        },
      },
    }),
  },
)

interface Bounds {
  readonly deadlineMs?: number
  readonly maxHeapMegabytes?: number
  readonly slots?: number
}

function world(t: Test, { deadlineMs = 60_000, maxHeapMegabytes = 256, slots = 2 }: Bounds = {}) {
  const upstream = createEmbeddedUpstream()
  const registry = new ResourceRegistry()
  registry.set('configured', [...resolveResources({}).resources, WIDGETS])
  const schema = kubernetesSchema()
  const views = new ObjectViews({ schema, maxBytes: 1_000_000, onUnreadable: () => {}, onUnknownFields: () => {} })
  const clock = { ...systemClock, setTimer: heldTimer }
  const replaced: string[] = []
  const threads = new ThreadPool({
    program,
    deadlineMs,
    maxHeapMegabytes,
    clock,
    onReplaced: (reason) => replaced.push(reason),
  })
  t.teardown(() => threads.close())
  let jobs = 0
  const admitted: number[] = []
  const semaphore = new FairSemaphore({
    slots,
    maxSlotsPerIdentity: slots,
    maxWaiting: 1,
    maxWaitingPerIdentity: 1,
    maxWaitMs: 60_000,
    clock,
    onRejected: () => {},
  })
  const writer = new OffLoopWriter({
    threads,
    semaphore,
    deadlineMs,
    admit: (bytes) => void admitted.push(bytes),
    onJob: () => jobs++,
    upstream,
    clock,
    random: systemRandom,
    jsonOf: (served, object) => views.json(object, viewTargetOf(served))?.bytes ?? null,
    maxValueBytes: 8 * 1024 * 1024,
    schema,
    etcdPrefix: '/registry',
    find: (...path) => registry.find(...path),
    resources: () => registry.list(),
  })
  const ask = async (
    verb: WriteVerb,
    plural: string,
    body: string | Buffer,
    more: Partial<WriteRequest> = {},
  ): Promise<{ code: number; body: Record<string, unknown> }> => {
    try {
      const request = {
        served: registry.list().find(({ resource }) => resource.plural === plural)!,
        namespace: 'default',
        name: '',
        subresource: '',
        query: new URLSearchParams(),
        userAgent: 'test/1',
        contentType: 'application/json',
        body: Buffer.from(body),
        mayCreate: () => Promise.resolve(),
        mayDelete: () => Promise.resolve(),
        ...more,
      }
      const answer = await writer.perform(verb, request, 'somebody')
      if (answer.kind === 'object') t.ok(Buffer.isBuffer(answer.stored.bytes), 'bytes are Buffers on both sides')
      return { code: answer.code, body: bodyOf(answer, request.served) }
    } catch (error) {
      const status = statusOf(error)
      return { code: status.code, body: { ...status.toStatus() } }
    }
  }
  return { upstream, ask, replaced, threads, admitted, jobs: () => jobs }
}

function heldTimer(delayMs: number, callback: () => void): Timer {
  const handle = setTimeout(callback, delayMs)
  return { cancel: () => clearTimeout(handle) }
}

const map = (name: string, text: string): string => JSON.stringify({ metadata: { name }, data: { text } })

void t.test('small JSON is parsed on the event loop; what may be expensive is not', async (t) => {
  const { ask, jobs } = world(t)
  t.equal((await ask('create', 'configmaps', map('small', 'x'))).code, 201)
  t.equal(jobs(), 0, 'small JSON')
  t.equal((await ask('create', 'configmaps', map('large', 'x'.repeat(40_000)))).code, 201)
  t.equal(jobs(), 1, 'a large body')
  const patch = JSON.stringify({ data: { more: 'y' } })
  const merge = { name: 'large', contentType: 'application/merge-patch+json' }
  t.match(await ask('patch', 'configmaps', patch, merge), { code: 200, body: { data: { more: 'y' } } })
  t.equal(jobs(), 2, 'a small patch of a large object')
  const yaml = { contentType: 'application/yaml' }
  const text = `metadata:\n  name: yaml\ndata:\n  text: "${'z'.repeat(600)}"\n`
  t.match(await ask('create', 'configmaps', text, yaml), { code: 201, body: { kind: 'ConfigMap' } })
  t.equal(jobs(), 3, 'YAML')
  const widget = JSON.stringify({ metadata: { name: 'w' }, text: 'fine' })
  t.match(await ask('create', 'widgets', widget), { code: 201, body: { kind: 'Widget', size: 7 } })
  t.equal(jobs(), 4, 'a custom resource')
  t.equal((await ask('delete', 'configmaps', '', { name: 'large' })).code, 200)
  t.equal(jobs(), 5, 'the end of a large object')
  const changes = { name: 'small', contentType: 'application/json-patch+json' }
  const add = JSON.stringify([{ op: 'add', path: '/data/more', value: 'y' }])
  t.equal((await ask('patch', 'configmaps', add, changes)).code, 200)
  t.equal(jobs(), 5, 'a small JSON Patch')
  for (const [i, copy] of ['"copy"', String.raw`"\u0063opy"`].entries()) {
    const text = `[{"op":${copy},"from":"/data","path":"/metadata/annotations"}]`
    t.equal((await ask('patch', 'configmaps', text, changes)).code, 200)
    t.equal(jobs(), 6 + i, 'one that multiplies what is stored')
  }
  const containers = Array.from({ length: 300 }, () => ({}))
  t.equal((await ask('create', 'pods', JSON.stringify({ metadata: { name: 'p' }, spec: { containers } }))).code, 201)
  t.equal(jobs(), 8, 'a body of many objects, each with defaults')
})

void t.test(
  'larger objects of a collection are removed in threads, and the answer has all of it in order',
  async (t) => {
    const { ask, jobs } = world(t)
    for (const name of ['a', 'c', 'e']) await ask('create', 'configmaps', map(name, 'small'))
    for (const name of ['b', 'd']) await ask('create', 'configmaps', map(name, 'x'.repeat(40_000)))
    const before = jobs()
    const dry = { query: new URLSearchParams({ dryRun: 'All' }) }
    const items = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ metadata: { name } }))
    t.match(await ask('deletecollection', 'configmaps', '', dry), { code: 200, body: { items } })
    t.equal(jobs() - before, 2)
    const some = { query: new URLSearchParams({ fieldSelector: 'metadata.name!=d' }) }
    const left = items.filter(({ metadata: { name } }) => name !== 'd')
    t.match(await ask('deletecollection', 'configmaps', '', some), { code: 200, body: { items: left } })
    t.equal(jobs() - before, 3)
    t.match(await ask('deletecollection', 'configmaps', ''), { body: { items: [{ metadata: { name: 'd' } }] } })
    t.match(await ask('deletecollection', 'configmaps', ''), { code: 200, body: { kind: 'ConfigMapList', items: [] } })
  },
)

void t.test('a deletecollection with a shard removes no object of another', async (t) => {
  const { ask } = world(t)
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  for (const name of names) await ask('create', 'configmaps', map(name, 'small'))
  const [low, high] = shardTexts(2) as [string, string]
  const removed = async (query: Record<string, string>): Promise<readonly string[]> => {
    const { body } = await ask('deletecollection', 'configmaps', '', { query: new URLSearchParams(query) })
    return (body as { items: { metadata: { name: string } }[] }).items.map(({ metadata }) => metadata.name)
  }
  const others = await removed({ shardSelector: high, dryRun: 'All' })
  t.same([...(await removed({ shardSelector: low })), ...others].toSorted(), names)
  t.same(await removed({}), others)
})

void t.test('removing custom objects on the loop does not parse their schema there', async (t) => {
  const { ask } = world(t)
  for (const name of ['a', 'b']) {
    t.equal((await ask('create', 'widgets', JSON.stringify({ metadata: { name } }))).code, 201)
  }
  const { schema } = WIDGETS
  t.teardown(() => Reflect.deleteProperty(schema!, 'parsed'))
  Object.defineProperty(schema, 'parsed', { configurable: true, get: () => t.fail('it was parsed') })
  const items = [{ metadata: { name: 'a' }, size: 7 }, { size: 7 }]
  t.match(await ask('deletecollection', 'widgets', ''), { code: 200, body: { kind: 'WidgetList', items } })
})

void t.test('errors, permissions and warnings are the same from a thread', async (t) => {
  const { ask } = world(t)
  t.match(await ask('create', 'widgets', JSON.stringify({ metadata: { name: 'w' }, text: '!' })), {
    code: 422,
    body: { kind: 'Status', reason: 'Invalid', details: { causes: [{ field: 'text' }] } },
  })
  const elsewhere = { namespace: 'nowhere' }
  t.match(await ask('create', 'widgets', JSON.stringify({ metadata: { name: 'w' } }), elsewhere), { code: 404 })
  const apply = {
    name: 'new',
    contentType: 'application/apply-patch+yaml',
    query: new URLSearchParams({ fieldManager: 'me' }),
    mayCreate: () => Promise.reject(new ForbiddenError('not you')),
  }
  const body = JSON.stringify({ apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'new' } })
  t.match(await ask('patch', 'widgets', body, apply), { code: 403, body: { message: 'not you' } })
})

void t.test('confirmation of a put is requested from a thread as well', async (t) => {
  const { ask, jobs } = world(t)
  const asked: unknown[] = []
  const more = {
    confirm: (before: unknown, after: unknown) => {
      asked.push([before, JSON.parse(JSON.stringify(after))])
      return asked.length > 1 ? Promise.reject(new ForbiddenError('not that')) : Promise.resolve()
    },
  }
  t.equal((await ask('create', 'widgets', JSON.stringify({ metadata: { name: 'w' } }), more)).code, 201)
  t.match(asked, [[null, { kind: 'Widget', metadata: { name: 'w' }, size: 7 }]])
  const put = JSON.stringify({ size: 8 })
  const asPatch = { ...more, name: 'w', contentType: 'application/merge-patch+json' }
  t.match(await ask('patch', 'widgets', put, asPatch), { code: 403, body: { message: 'not that' } })
  t.match(asked[1], [{ size: 7 }, { size: 8 }])
  t.equal(jobs(), 2)
})

void t.test('a write that computes for too long ends alone: events and other writes continue', async (t) => {
  const { upstream, ask, replaced } = world(t, { deadlineMs: 5_000 })
  const batches: Batch[] = []
  const watch = upstream.watch(
    { prefix: keyFromText('/registry/configmaps/'), startRevision: 1 as Revision },
    { onOpen: () => {}, onProgress: () => {}, onEnd: () => {}, onBatches: (some) => batches.push(...some) },
  )
  t.teardown(() => watch.close())
  let hasEnded = false
  const bad = JSON.stringify({ metadata: { name: 'bad' }, text: `${'a'.repeat(2_900_000)}!` })
  const hanging = ask('create', 'widgets', bad).finally(() => (hasEnded = true))
  for (let n = 0; n < 5; n++) {
    t.equal((await ask('create', 'configmaps', map(`n${n}`, 'x'))).code, 201)
    t.equal((await ask('create', 'widgets', JSON.stringify({ metadata: { name: `n${n}` } }))).code, 201)
  }
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(batches.length, 5, 'every event of the small writes')
  t.notOk(hasEnded, 'while the bad one still ran')
  t.match(await hanging, { code: 504, body: { reason: 'Timeout', message: /nothing was written/ } })
  t.same(replaced, ['deadline'])
  t.equal((await ask('create', 'widgets', JSON.stringify({ metadata: { name: 'after' } }))).code, 201)
})

void t.test('a write that takes too much memory is rejected with 413', async (t) => {
  const { ask, replaced } = world(t, { maxHeapMegabytes: 32 })
  // An empty object takes 56 bytes, and 8 where it is listed: these take 57 MB as soon as they are parsed.
  const bad = `{"metadata":{"name":"bad"},"text":"a","list":[${'{},'.repeat(900_000)}1]}`
  t.match(await ask('create', 'widgets', bad), { code: 413, body: { message: /memory limit.*nothing was written/ } })
  t.same(replaced, ['memory'])
})

void t.test(
  'only a write of many values needs a place in the memory target, and its thread ends with it',
  async (t) => {
    const { ask, admitted, threads } = world(t)
    const text = JSON.stringify({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'text' },
      data: { a: 'x'.repeat(1e6) },
    })
    t.equal((await ask('create', 'configmaps', text)).code, 201)
    t.same(admitted, [])
    t.equal(threads.size, 1)
    const fields = `[{}${',{}'.repeat(300_000)}]`
    const dense = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"dense","managedFields":${fields}}}`
    await ask('create', 'configmaps', dense)
    t.equal(admitted.length, 1)
    t.ok(admitted[0]! > 100e6)
    t.equal(threads.size, 0)
  },
)

void t.test('writes beyond the slots and the queue are rejected with 429', async (t) => {
  const { ask } = world(t, { slots: 1 })
  const made = await Promise.all(
    ['a', 'b', 'c'].map((name) => ask('create', 'widgets', JSON.stringify({ metadata: { name } }))),
  )
  t.same(
    made.map(({ code }) => code).toSorted((a, b) => a - b),
    [201, 201, 429],
  )
})

void t.test('bodies of deletes that stay on the loop are limited', async (t) => {
  const { ask } = world(t)
  const options = JSON.stringify({ kind: 'DeleteOptions', dryRun: ['x'.repeat(9_000)] })
  t.equal((await ask('deletecollection', 'configmaps', options)).code, 413)
})

void t.test(
  'no write of a definition runs on the event loop, because its patterns may take long to compile',
  async (t) => {
    const { ask, jobs } = world(t)
    const schema = { type: 'object', properties: { text: { type: 'string', pattern: '(?i)[a-z]+' } } }
    const definition = {
      metadata: { name: 'gadgets.example.com' },
      spec: {
        group: 'example.com',
        scope: 'Namespaced',
        names: { plural: 'gadgets', kind: 'Gadget' },
        versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
      },
    }
    const plural = 'customresourcedefinitions'
    t.equal((await ask('create', plural, JSON.stringify(definition), { namespace: '' })).code, 201)
    t.equal(jobs(), 1)
    const patch = { namespace: '', name: 'gadgets.example.com', contentType: 'application/merge-patch+json' }
    t.equal((await ask('patch', plural, '{"metadata":{"labels":{"a":"b"}}}', patch)).code, 200)
    t.equal(jobs(), 2)
    t.equal(
      (await ask('patch', plural, '{"status":{"storedVersions":["v1"]}}', { ...patch, subresource: 'status' })).code,
      200,
    )
    t.equal(jobs(), 3)
  },
)

void t.test('an object whose defaults would be too large is rejected', async (t) => {
  const { ask } = world(t)
  const body = JSON.stringify({ metadata: { name: 'w' }, items: Array.from({ length: 20_000 }, () => ({})) })
  t.match(await ask('create', 'widgets', body), { code: 413, body: { message: /the defaults of its definition/ } })
})

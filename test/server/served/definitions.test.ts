/** Definitions become resources: small ones at once, large ones without stopping the event loop. */
import t from 'tap'
import { ResourceRegistry, viewTargetOf } from '../../../src/kubernetes/dialect/resource-registry.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { LooseObject, type StoredObject } from '../../../src/engine/model/stored-object.js'
import { Definitions } from '../../../src/server/served/definitions.js'
import type { SharedReading } from '../../../src/server/served/document-messages.js'
import { toShared } from '../../../src/kubernetes/dialect/shared-resource.js'
import { silentLogger } from '../../../src/support/log.js'
import { type ThreadEnd, ThreadEndedError } from '../../../src/support/thread-pool.js'
import { startApp } from '../../support/app.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { definitionObject, object } from '../../support/definition.js'

const MAX_DEFINITION_BYTES = 64 * 1024

const GROUP = 'edge.example.com'

function definition(plural: string, properties: number): object {
  const kind = plural[0]!.toUpperCase() + plural.slice(1, -1)
  const described = { type: 'string', description: 'x'.repeat(40), default: 'given' }
  const spec = Object.fromEntries(Array.from({ length: properties }, (_, i) => [`p${i}`, described]))
  return definitionObject({
    group: GROUP,
    plural,
    kind,
    scope: 'Namespaced',
    versions: [{ name: 'v1', storage: true, schema: object({ spec: object(spec) }) }],
  })
}

const keyOf = (plural: string): string => `apiextensions.k8s.io/customresourcedefinitions/${plural}.${GROUP}`
const LARGE = 2_000

let revision = 0

const stored = (plural: string, properties: number): StoredObject => storedAs(plural, definition(plural, properties))

function storedAs(plural: string, object: object): StoredObject {
  const bytes = Buffer.from(JSON.stringify(object))
  const at = toRevision(++revision)
  return new LooseObject({
    key: keyFromText(`/registry/${keyOf(plural)}`),
    scope: '',
    name: `${plural}.${GROUP}`,
    createRevision: at,
    modRevision: at,
    version: 1,
    leaseId: '',
    encoding: 'json',
    schemaVersion: 'apiextensions.k8s.io/v1',
    typeName: 'CustomResourceDefinition',
    bytes,
    revisionOffset: 0,
  })
}

/** Reads of large definitions wait until the test answers them. */
function world({ areReadThere = false, whenEmptied = (): Promise<void> | undefined => undefined } = {}) {
  const registry = new ResourceRegistry()
  const asked: {
    readonly object: StoredObject
    readonly answer: (reading: SharedReading) => void
    readonly end: (reason: ThreadEnd) => void
  }[] = []
  const warned: object[] = []
  const crashed: object[] = []
  const clock = new VirtualClock()
  const definitions = new Definitions({
    registry,
    etcdPrefix: '/registry',
    reservedFor: () => null,
    jsonOf: (object) => object.bytes,
    whenEmptied,
    areReadThere,
    clock,
    readInThread: (object) =>
      new Promise((answer, reject) =>
        asked.push({ object, answer, end: (reason) => reject(new ThreadEndedError(reason)) }),
      ),
    logger: {
      ...silentLogger,
      warn: (fields) => void warned.push(fields),
      error: (fields) => void crashed.push(fields),
    },
  })
  const served = (): string[] => registry.list().map(({ resource }) => resource.plural)
  return { registry, asked, warned, crashed, clock, definitions, served }
}

void t.test('a definition that is pending is reported only if it stays so', async (t) => {
  const { definitions, served, warned, clock } = world()
  const pending = { ...definition('widgets', 1), status: { conditions: [{ type: 'Established', status: 'False' }] } }
  // On a slow machine the time slice may be over before the following ones.
  const present = async (object: StoredObject): Promise<void> => {
    definitions.onPresent(object)
    await until(() => definitions.isSettled, 'it is read')
  }
  await present(storedAs('widgets', pending))
  clock.advance(1_000)
  await present(stored('widgets', 1))
  clock.advance(60_000)
  t.same(warned, [], 'it was established in time')
  t.same(served(), ['widgets'])
  await present(storedAs('widgets', pending))
  t.same(served(), [])
  clock.advance(9_000)
  t.same(warned, [])
  clock.advance(2_000)
  t.match(warned, [{ definition: `widgets.${GROUP}`, reason: 'it is not established' }])
})

void t.test('a small definition is a resource at once', async (t) => {
  const { definitions, served } = world()
  definitions.onPresent(stored('widgets', 3))
  t.same(served(), ['widgets'])
  // On a slow machine the time slice may be over before the following ones.
  await until(() => definitions.isSettled, 'it is read')
  definitions.onAbsent(`widgets.${GROUP}`)
  t.same(served(), [])
})

void t.test('a deleted definition is served until the last events of its objects are there', async (t) => {
  const waiting: (() => void)[] = []
  const whenEmptied = (): Promise<void> => new Promise((resolve) => waiting.push(resolve))
  const { definitions, served } = world({ whenEmptied })
  const first = stored('widgets', 3)
  definitions.onPresent(first)
  await until(() => served().length === 1, 'it is read')
  definitions.onAbsent(first.name)
  t.same(served(), ['widgets'])
  definitions.onPresent(stored('widgets', 4))
  await until(() => definitions.isSettled, 'it is back')
  waiting[0]!()
  await until(() => Promise.resolve(true), 'a turn of the event loop')
  t.same(served(), ['widgets'], 'one that has come back stays')
  definitions.onAbsent(first.name)
  waiting[1]!()
  await until(() => served().length === 0, 'it is gone')
})

void t.test('definitions after a large one wait for it', async (t) => {
  const { definitions, served, asked, warned } = world()
  t.ok(stored('gadgets', LARGE).bytes.length > MAX_DEFINITION_BYTES)
  definitions.onPresent(stored('gadgets', LARGE))
  definitions.onPresent(stored('widgets', 3))
  t.notOk(definitions.isSettled)
  await until(() => asked.length === 1, 'the large one is being read')
  t.same(served(), [])
  asked[0]!.answer({ kind: 'not-served', reason: 'no' })
  await until(() => definitions.isSettled, 'both are read')
  t.same(served(), ['widgets'])
  t.match(warned, [{ definition: `gadgets.${GROUP}`, reason: 'no' }])
})

void t.test('the result of reading a definition counts only while it is the latest state', async (t) => {
  const { definitions, served, asked, warned } = world()
  const first = stored('gadgets', LARGE)
  definitions.onPresent(first)
  await until(() => asked.length === 1, 'it is being read')
  const second = stored('gadgets', LARGE)
  const third = stored('gadgets', LARGE)
  definitions.onPresent(second)
  definitions.onPresent(third)
  asked[0]!.answer({ kind: 'not-served', reason: 'first' })
  await until(() => asked.length === 2, 'the last state is being read')
  t.equal(asked[1]!.object, third, 'those between are not')
  definitions.onAbsent(first.name)
  asked[1]!.answer({ kind: 'not-served', reason: 'third' })
  await until(() => definitions.isSettled, 'all is read')
  t.same(served(), [])
  t.same(warned, [])
})

void t.test('a definition that takes too long or too much memory is not served, and delays no other', async (t) => {
  const { definitions, served, asked, warned } = world()
  definitions.onPresent(stored('gadgets', LARGE))
  definitions.onPresent(stored('widgets', 3))
  await until(() => asked.length === 1, 'it is being read')
  asked[0]!.end('memory')
  await until(() => definitions.isSettled, 'all is read')
  t.same(served(), ['widgets'])
  t.match(warned, [{ reason: 'reading it takes too much time or memory' }])
})

void t.test(
  'a crash while a definition is read is not its fault: what it serves remains, and it is read again',
  async (t) => {
    const { definitions, registry, served, asked, warned, crashed, clock } = world()
    definitions.onPresent(stored('gadgets', 3))
    await until(() => definitions.isSettled, 'its first state is served')
    const changed = stored('gadgets', LARGE)
    definitions.onPresent(changed)
    for (const attempt of [1, 2]) {
      await until(() => asked.length === attempt, `attempt ${attempt}`)
      asked.at(-1)!.end('crash')
    }
    await until(() => definitions.isSettled, 'it holds up no other and not readiness')
    t.same(served(), ['gadgets'])
    t.match(crashed, [{ definition: changed.name }])
    clock.advance(60_000)
    await until(() => asked.length === 3, 'it is read again')
    t.equal(asked[2]!.object, changed)
    asked[2]!.end('crash')
    await until(() => asked.length === 4, 'it is tried again')
    asked[3]!.answer({ kind: 'defined', resources: registry.list().map(toShared), structurals: {} })
    await until(() => definitions.isSettled, 'it is read')
    t.same(served(), ['gadgets'])
    t.same(warned, [])
  },
)

void t.test('a definition that changed or is gone after a crash is not read again', async (t) => {
  const { definitions, served, asked, clock } = world()
  const crash = async (object: StoredObject): Promise<void> => {
    const before = asked.length
    definitions.onPresent(object)
    for (const attempt of [1, 2]) {
      await until(() => asked.length === before + attempt, `attempt ${attempt}`)
      asked.at(-1)!.end('crash')
    }
    await until(() => definitions.isSettled, 'it crashed twice')
  }
  const first = stored('gadgets', LARGE)
  await crash(first)
  definitions.onPresent(stored('gadgets', 3))
  await until(() => definitions.isSettled, 'it has changed')
  clock.advance(60_000)
  t.ok(definitions.isSettled)
  t.same(served(), ['gadgets'])
  await crash(stored('gadgets', LARGE))
  definitions.onAbsent(first.name)
  clock.advance(60_000)
  t.ok(definitions.isSettled)
  t.equal(asked.length, 4)
})

void t.test('a server that stops while a definition is being read does not report it', async (t) => {
  const { definitions, served, asked, warned, crashed } = world()
  definitions.onPresent(stored('gadgets', 3))
  definitions.onPresent(stored('gadgets', LARGE))
  await until(() => asked.length === 1, 'it is being read')
  asked[0]!.end('closed')
  await until(() => definitions.isSettled, 'that has ended')
  t.same(served(), ['gadgets'])
  t.same([...warned, ...crashed], [])
})

type Version = readonly [name: string, properties: object]

/** A definition whose first version is the stored one. */
function versioned(conversion: string, ...versions: Version[]): StoredObject {
  const object = definition('widgets', 0) as { spec: object }
  const spec = {
    ...object.spec,
    conversion: { strategy: conversion },
    versions: versions.map(([name, properties], i) => {
      const openAPIV3Schema = { type: 'object', properties: { spec: { type: 'object', properties } } }
      return { name, served: true, storage: i === 0, schema: { openAPIV3Schema } }
    }),
  }
  return storedAs('widgets', { ...object, spec })
}

void t.test(
  'a server that reads from another server converts only between versions whose schemas keep the same fields',
  async (t) => {
    const text = { type: 'string' }
    const schema = { a: text, b: { type: 'object', additionalProperties: text }, c: { type: 'array', items: text } }
    const cases: [name: string, other: object, isUncached: boolean][] = [
      ['the same', schema, false],
      [
        'described in other words, with another default',
        { ...schema, a: { ...text, description: 'A', pattern: 'a' } },
        false,
      ],
      ['a field less', { a: text, b: schema.b }, true],
      ['a field more', { ...schema, d: text }, true],
      ['another name', { ...schema, a: undefined, e: text }, true],
      ['other members', { ...schema, b: { type: 'object', properties: { x: text } } }, true],
      ['all members', { ...schema, b: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } }, true],
      ['null allowed', { ...schema, a: { ...text, nullable: true } }, true],
      ['null replaced', { ...schema, a: { ...text, default: 'x' } }, true],
    ]
    for (const [name, other, isUncached] of cases) {
      for (const conversion of ['None', 'Webhook']) {
        const { definitions, registry } = world({ areReadThere: true })
        definitions.onPresent(versioned(conversion, ['v1', schema], ['v1beta1', other]))
        // A busy turn of the event loop leaves it to the next one.
        await until(() => registry.list().length > 0, 'it is read')
        const found = registry.list().map((one) => [one.resource.version, one.isUncached ?? false])
        t.same(
          found,
          [
            ['v1', false],
            ['v1beta1', isUncached || conversion === 'Webhook'],
          ],
          `${name}, ${conversion}`,
        )
        t.ok(
          registry.list().every((one) => viewTargetOf(one).rules === null),
          'nothing is pruned or defaulted here',
        )
      }
    }
  },
)

void t.test('a changed definition begins new feeds, after the API server has had time to follow it', async (t) => {
  const { definitions, registry, clock } = world({ areReadThere: true })
  const changes: string[] = []
  registry.onChange(({ added, removed }) => changes.push(`+${added.length} -${removed.length}`))
  const [first, second] = [versioned('None', ['v1', {}]), versioned('None', ['v1', { a: { type: 'string' } }])]
  // A busy turn of the event loop leaves a definition to the next one.
  const areRead = (): Promise<void> => until(() => definitions.isSettled, 'they are read')
  definitions.onPresent(first)
  definitions.onPresent(first)
  await areRead()
  t.same(changes.splice(0)[0], '+1 -0')
  definitions.onPresent(second)
  definitions.onPresent(second)
  await areRead()
  t.same(
    changes.filter((text) => text !== '+1 -1'),
    [],
    'not yet',
  )
  changes.length = 0
  clock.advance(1_500)
  t.same(changes.splice(0), ['+0 -1', '+1 -0'], 'the old ends before the new begins')
  definitions.onPresent(first)
  await areRead()
  definitions.onAbsent(`widgets.${GROUP}`)
  clock.advance(1_500)
  t.same(changes, ['+0 -1'], 'a deleted one does not come back')
})

void t.test('a definition that returns changed while its last events are awaited begins new feeds too', async (t) => {
  const waiting: (() => void)[] = []
  const whenEmptied = (): Promise<void> => new Promise((resolve) => waiting.push(resolve))
  const { definitions, registry, clock } = world({ areReadThere: true, whenEmptied })
  definitions.onPresent(versioned('None', ['v1', {}]))
  await until(() => registry.list().length > 0, 'it is read')
  const changes: string[] = []
  registry.onChange(({ added, removed }) => changes.push(`+${added.length} -${removed.length}`))
  definitions.onAbsent(`widgets.${GROUP}`)
  definitions.onPresent(versioned('None', ['v1', { a: { type: 'string' } }]))
  await until(() => definitions.isSettled, 'it is back')
  clock.advance(1_500)
  t.same(changes, ['+0 -1', '+1 -0'], 'the old ends before the new begins')
})

void t.test('a server with a large definition: read in a thread, and served like a small one', async (t) => {
  const h = await startApp(t, {
    flags: ['--enable-writes=true'],
    objects: {
      [keyOf('gadgets')]: definition('gadgets', LARGE),
      'edge.example.com/gadgets/a/g': {
        apiVersion: `${GROUP}/v1`,
        kind: 'Gadget',
        metadata: { name: 'g', namespace: 'a' },
        spec: { p1: 'one', gone: 1 },
      },
    },
  })
  // Ready means that it has been read: no client gets 404 for its resource.
  const path = `${h.url}/apis/${GROUP}/v1/namespaces/a/gadgets/g`
  const answer = await fetch(path)
  t.equal(answer.status, 200)
  const { spec } = (await answer.json()) as { spec: Record<string, unknown> }
  t.match(spec, { p0: 'given', p1: 'one', [`p${LARGE - 1}`]: 'given' }, 'filled in')
  t.notOk('gone' in spec, 'and pruned')
  const patched = await fetch(path, {
    method: 'PATCH',
    headers: { 'content-type': 'application/merge-patch+json' },
    body: '{"spec":{"p1":1}}',
  })
  t.equal(patched.status, 422, 'writes are checked against its schema')
  const document = (await (await fetch(`${h.url}/openapi/v3/apis/${GROUP}/v1`)).json()) as {
    components: { schemas: Record<string, { properties: { spec: { properties: object } } }> }
  }
  const { properties } = document.components.schemas['com.example.edge.v1.Gadget']!.properties.spec
  t.equal(Object.keys(properties).length, LARGE)
  h.delete(keyOf('gadgets'))
  await until(async () => (await fetch(path)).status === 404, 'it is gone with its definition')
})

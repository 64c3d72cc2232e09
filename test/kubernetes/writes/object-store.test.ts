/** Tests that a stored object can be read back. */
import t from 'tap'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { ResourceRegistry } from '../../../src/kubernetes/dialect/resource-registry.js'
import { resolveResources } from '../../../src/kubernetes/dialect/declared-resource.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { systemClock } from '../../../src/support/clock.js'
import { systemRandom } from '../../../src/support/random.js'
import { type Change, type Held, ObjectStore } from '../../../src/kubernetes/writes/object-store.js'
import { writerOver } from './writer-over.js'
import { MAX_JSON_DEPTH } from '../../../src/kubernetes/model/limits.js'

/** Few kinds allow deep objects; the data of a ControllerRevision is any JSON. */
function revisionOf(levels: number): string {
  const data = `${'{"m":'.repeat(levels)}1${'}'.repeat(levels)}`
  return `{"metadata":{"name":"d${levels}"},"revision":1,"data":${data}}`
}

void t.test('an object nested up to the limit is stored whole or rejected, and never loses its metadata', async (t) => {
  const writer = writerOver(createEmbeddedUpstream())
  const codes = new Set<number>()
  for (let levels = MAX_JSON_DEPTH - 16; levels < MAX_JSON_DEPTH; levels++) {
    const plural = 'controllerrevisions'
    const { code, body } = await writer.ask({ verb: 'create', plural, body: revisionOf(levels) })
    codes.add(code)
    if (code === 201)
      t.match(body, { kind: 'ControllerRevision', metadata: { name: `d${levels}` } }, `${levels} levels`)
    else t.match(body, { code: 400, message: /nested more than 512 deep/ }, `${levels} levels`)
  }
  t.same(codes, new Set([201, 400]), 'both were seen')
})

void t.test('an object that grows beyond what can be read back is rejected before it is written', async (t) => {
  const upstream = createEmbeddedUpstream()
  const writer = writerOver(upstream)
  const containers = [{ name: 'c', image: 'x' }]
  await writer.ask({ verb: 'create', plural: 'pods', body: { metadata: { name: 'p' }, spec: { containers } } })
  const before = await upstream.currentRevision()
  const many = Array.from({ length: 50_000 }, (_, i) => ({ name: `c${i}`, image: 'x' }))
  const apply = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: { containers: many } }
  const asked = { verb: 'patch', plural: 'pods', name: 'p', contentType: 'application/apply-patch+yaml' } as const
  const body = JSON.stringify(apply)
  t.ok(body.length < 3 * 1024 * 1024, 'it comes as a body that is accepted')
  t.match(await writer.ask({ ...asked, query: 'fieldManager=me&force=true', body }), {
    code: 413,
    body: { reason: 'RequestEntityTooLarge', message: /would take \d+ bytes, and the limit is 8388608/ },
  })
  t.equal(await upstream.currentRevision(), before)
})

void t.test('a list of stored objects is complete, and others get turns in between', async (t) => {
  const upstream = createEmbeddedUpstream()
  const value = Buffer.from('{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}')
  const names = Array.from({ length: 12 }, (_, i) => `m${String(i).padStart(2, '0')}`)
  for (const name of names) {
    await upstream.write([], [{ type: 'put', key: keyFromText(`/registry/configmaps/default/${name}`), value }])
  }
  const registry = new ResourceRegistry()
  registry.set('configured', resolveResources({}).resources)
  const served = registry.find('', 'v1', 'configmaps')!
  let inTurn = 0
  let mostInTurn = 0
  const store = new ObjectStore({
    upstream,
    clock: systemClock,
    random: systemRandom,
    // Takes longer than a slice.
    jsonOf: (_, object) => {
      for (const endMs = performance.now() + 6; performance.now() < endMs;);
      mostInTurn = Math.max(mostInTurn, ++inTurn)
      return object.bytes
    },
    fillDefaults: () => {},
    maxValueBytes: 1_000_000,
    onRetry: () => {},
  })
  let isDone = false
  const turn = (): void => {
    inTurn = 0
    if (!isDone) setImmediate(turn)
  }
  turn()
  const listed: string[] = []
  for await (const { stored } of store.list(served, served.resource.etcdPrefix)) listed.push(stored.name)
  isDone = true
  t.same(listed, names)
  t.equal(mostInTurn, 1)
})

void t.test('an object that cannot be read is removed with regard to what its metadata says', async (t) => {
  const upstream = createEmbeddedUpstream()
  const registry = new ResourceRegistry()
  registry.set('configured', resolveResources({}).resources)
  const served = registry.find('', 'v1', 'configmaps')!
  const store = new ObjectStore({
    upstream,
    clock: systemClock,
    random: systemRandom,
    // As for a custom resource that is too large with its defaults.
    jsonOf: () => null,
    fillDefaults: () => {},
    maxValueBytes: 1_000_000,
    onRetry: () => {},
  })
  const heldOf = async (name: string, value: string): Promise<Held | null> => {
    await upstream.write(
      [],
      [{ type: 'put', key: keyFromText(`/registry/configmaps/a/${name}`), value: Buffer.from(value) }],
    )
    let found: Held | null = null
    const decide = (held: Held | null): Change => ((found = held), { kind: 'none' })
    await store.change({ served, namespace: 'a', name }, decide, { removes: true })
    return found
  }
  const metadata = { uid: '1', finalizers: ['example.com/x'] }
  const whole = { kind: 'ConfigMap', apiVersion: 'v1', metadata }
  t.match(await heldOf('m', JSON.stringify(whole)), { isBare: false, object: { metadata } })
  const listed: string[] = []
  for await (const { name } of store.listStored(served, served.resource.etcdPrefix)) listed.push(name)
  t.same(listed, ['m'], 'and its namespace is not empty')
  for (const value of ['no JSON', '[]', '{"metadata":1}', '{}'])
    t.match(await heldOf('n', value), { isBare: true }, value)
})

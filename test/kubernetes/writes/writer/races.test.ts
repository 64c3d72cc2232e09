/**
 * Concurrent writers increment one object, and no increment is lost. Each writer has its own key slots, as each worker
 * process has, so that only etcd's comparison protects them from each other. `DISTRIBUTARY_FULL=1` runs the full number
 * over a real etcd too.
 */
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { silentLogger } from '../../../../src/support/log.js'
import { createEmbeddedUpstream } from '../../../support/faulty-store.js'
import { connectEtcd } from '../../../../src/engine/upstream/etcd/etcd-upstream.js'
import { type Upstream, UpstreamError } from '../../../../src/engine/upstream/upstream.js'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { startApp } from '../../../support/app.js'
import { definitionObject } from '../../../support/definition.js'
import { startEtcd } from '../../../support/etcd-process.js'
import { until } from '../../../support/until.js'
import { clientOf, configMap } from '../client.js'
import { type WriterOver, writerOver } from '../writer-over.js'

const WRITERS = 8
const MERGE = 'application/merge-patch+json'

async function race(t: Test, upstream: Upstream, increments: number): Promise<void> {
  const writers = Array.from({ length: WRITERS }, () => writerOver(upstream))
  t.equal((await writers[0]!.ask({ verb: 'create', body: { metadata: { name: 'n' }, data: { n: '0' } } })).code, 201)
  let conflicts = 0
  const increment = async (writer: WriterOver): Promise<void> => {
    for (;;) {
      const { body } = await writer.ask({ verb: 'patch', name: 'n', contentType: MERGE, body: {} })
      const { data, metadata } = body as { data: { n: string }; metadata: { resourceVersion: string } }
      const next = { metadata, data: { n: String(Number(data.n) + 1) } }
      const { code } = await writer.ask({ verb: 'update', name: 'n', body: next })
      if (code === 200) return
      if (code !== 409) t.fail(`update: ${code}`)
      conflicts++
      // Waits as client-go's RetryOnConflict does: a writer that retries at once only loses again.
      await delay(Math.random() * WRITERS * 2)
    }
  }
  await Promise.all(
    writers.map(async (writer) => {
      for (let i = 0; i < increments / WRITERS; i++) await increment(writer)
    }),
  )
  const { body } = await writers[0]!.ask({ verb: 'patch', name: 'n', contentType: MERGE, body: {} })
  t.match(body, { data: { n: String(increments) } })
  t.ok(conflicts > 0, `${conflicts} conflicts`)
}

/** Without a resourceVersion a lost race is retried: each writer has its own member, and all are kept. */
async function patchTogether(t: Test, upstream: Upstream, times: number): Promise<void> {
  const writers = Array.from({ length: WRITERS }, () => writerOver(upstream))
  await writers[0]!.ask({ verb: 'create', body: { metadata: { name: 'shared' }, data: {} } })
  await Promise.all(
    writers.map(async (writer, w) => {
      for (let i = 1; i <= times; i++) {
        const body = { data: { [`w${w}`]: String(i) } }
        const { code } = await writer.ask({ verb: 'patch', name: 'shared', contentType: MERGE, body })
        if (code !== 200) t.fail(`patch: ${code}`)
      }
    }),
  )
  const { body } = await writers[0]!.ask({ verb: 'patch', name: 'shared', contentType: MERGE, body: {} })
  t.same(body['data'], Object.fromEntries(writers.map((_, w) => [`w${w}`, String(times)])))
  const retries = writers.reduce((sum, writer) => sum + writer.retries, 0)
  t.ok(retries > 0, `${retries} lost races`)
}

void t.test('8 writers make 10,000 increments and lose none', async (t) => {
  const upstream = createEmbeddedUpstream()
  t.teardown(() => upstream.close())
  await race(t, upstream, 10_000)
  await patchTogether(t, upstream, 100)
})

void t.test('8 writers lose no increment over a real etcd', async (t) => {
  const etcd = await startEtcd(t)
  const upstream = connectEtcd({ endpoints: [etcd.url], logger: silentLogger })
  t.teardown(() => upstream.close())
  await race(t, upstream, process.env['DISTRIBUTARY_FULL'] === undefined ? 160 : 10_000)
  await patchTogether(t, upstream, 10)
})

void t.test('an object is not written into a namespace or a definition that is deleted in the meantime', async (t) => {
  const etcd = await startEtcd(t)
  const upstream = connectEtcd({ endpoints: [etcd.url], logger: silentLogger })
  const h = await startApp(t, { upstream, flags: ['--enable-writes'] })
  const send = clientOf(h.url)
  const definition = definitionObject({
    group: 'race.example.com',
    plural: 'gadgets',
    kind: 'Gadget',
    scope: 'Cluster',
    versions: [{ name: 'v1', storage: true }],
  })
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
  const gadgets = '/apis/race.example.com/v1/gadgets'
  const gadget = (name: string): object => ({ apiVersion: 'race.example.com/v1', kind: 'Gadget', metadata: { name } })
  await send('POST', definitions, definition)
  await until(async () => (await send('POST', gadgets, gadget('first'))).code === 201, 'it is served')
  await send('POST', '/api/v1/namespaces', { metadata: { name: 'race' } })
  const write = upstream.write.bind(upstream)
  const cases = [
    ['/registry/configmaps/race/', '/api/v1/namespaces/race/configmaps', configMap('late'), '/api/v1/namespaces/race'],
    ['/registry/race.example.com/gadgets/', gadgets, gadget('late'), `${definitions}/gadgets.race.example.com`],
  ] as const
  for (const [prefix, path, object, container] of cases) {
    upstream.write = async (compares, operations) => {
      if (operations.some(({ type, key }) => type === 'put' && key.startsWith(prefix))) {
        upstream.write = write
        t.equal((await send('DELETE', container)).code, 200, 'just before it is written')
      }
      return await write(compares, operations)
    }
    t.match(String((await send('POST', path, object)).code), /^40[34]$/)
    const page = await upstream.read({ prefix: keyFromText(prefix) })
    t.same(page.keyValues, [], `nothing is left of ${prefix}`)
  }
})

void t.test('a generated name that is taken is generated again, up to eight times', async (t) => {
  const etcd = await startEtcd(t)
  const upstream = connectEtcd({ endpoints: [etcd.url], logger: silentLogger })
  const h = await startApp(t, { upstream, flags: ['--enable-writes'] })
  const send = clientOf(h.url)
  const write = upstream.write.bind(upstream)
  let taken = 0
  // Another writer takes each name just before.
  upstream.write = async (compares, operations) => {
    const [put] = operations
    if (taken > 0 && put?.type === 'put' && put.key.includes('made-')) {
      taken--
      await write([], operations)
    }
    return await write(compares, operations)
  }
  const create = async (names: number) => {
    taken = names
    return await send('POST', '/api/v1/namespaces/default/configmaps', { metadata: { generateName: 'made-' } })
  }
  t.match(await create(7), { code: 201, body: { metadata: { generateName: 'made-', name: /^made-\w{5}$/ } } })
  t.match(await create(8), { code: 409, body: { reason: 'AlreadyExists' } })
})

void t.test('applies and PUTs that create one object at once are all kept', async (t) => {
  const upstream = createEmbeddedUpstream()
  t.teardown(() => upstream.close())
  // Writers of two processes and of one race differently.
  const writers = [writerOver(upstream), writerOver(upstream)]
  const apply = async (name: string, i: number) =>
    await writers[i % 2]!.ask({
      verb: 'patch',
      name,
      query: `fieldManager=m${i}`,
      contentType: 'application/apply-patch+yaml',
      body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { [`m${i}`]: 'x' } },
    })
  for (const name of ['a', 'b', 'c']) {
    const said = await Promise.all(Array.from({ length: 6 }, (_, i) => apply(name, i)))
    t.same(said.map(({ code }) => `${code}`).toSorted(), ['200', '200', '200', '200', '200', '201'])
    const { body } = await apply(name, 0)
    t.same(Object.keys(body['data'] as object).toSorted(), ['m0', 'm1', 'm2', 'm3', 'm4', 'm5'])
  }
  const put = async (i: number) =>
    await writers[i % 2]!.ask({
      verb: 'update',
      plural: 'endpoints',
      name: 'e',
      body: { apiVersion: 'v1', kind: 'Endpoints', metadata: { name: 'e', labels: { i: `${i}` } } },
    })
  const said = await Promise.all([0, 1, 2, 3].map(put))
  t.same(said.map(({ code }) => `${code}`).toSorted(), ['200', '200', '200', '201'])
})

void t.test('a write that was made is a success, even if what follows it fails', async (t) => {
  const upstream = createEmbeddedUpstream()
  t.teardown(() => upstream.close())
  const writer = writerOver(upstream)
  for (const name of ['a', 'b']) t.match(await writer.ask({ verb: 'create', body: configMap(name) }), { code: 201 })
  const [readKey, read] = [upstream.readKey.bind(upstream), upstream.read.bind(upstream)]
  /** Does one write, and answers no read after it. */
  const silently = async (write: () => Promise<unknown>): Promise<unknown> => {
    const whole = upstream.write.bind(upstream)
    upstream.write = async (...given) => {
      const written = await whole(...given)
      const silent = () => Promise.reject(new UpstreamError('unavailable', 'no leader'))
      Object.assign(upstream, { readKey: silent, read: silent, write: whole })
      return written
    }
    const said = await write()
    Object.assign(upstream, { readKey, read, write: whole })
    return said
  }
  t.match(await silently(() => writer.ask({ verb: 'delete', name: 'a' })), { code: 200, body: { status: 'Success' } })
  t.match(await writer.ask({ verb: 'delete', name: 'a' }), { code: 404 })
  const remove = { verb: 'delete', plural: 'namespaces', name: 'other' } as const
  t.match(await writer.ask({ verb: 'create', plural: 'namespaces', body: { metadata: { name: 'other' } } }), {
    code: 201,
  })
  t.match(await silently(() => writer.ask(remove)), {
    code: 503,
    body: { message: /"other" is being deleted.*repeat/ },
  })
  t.match(await writer.ask(remove), { code: 200 })
  t.match(await writer.ask(remove), { code: 404 })
})

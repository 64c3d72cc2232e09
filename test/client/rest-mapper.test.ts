import http from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { fetchTransport, RestMapper, resourceNameOf, resourcePath, type Transport } from '../../src/client/index.js'
import { startApp } from '../support/app.js'
import { VirtualClock } from '../support/virtual-clock.js'
import { definitionObject } from '../support/definition.js'

const WIDGETS = definitionObject(
  {
    group: 'example.com',
    plural: 'widgets',
    kind: 'Widget',
    shortNames: ['wd'],
    scope: 'Cluster',
    versions: [{ name: 'v1', storage: true }],
  },
  { uid: 'w' },
)

function counting(server: string): { readonly transport: Transport; asked: number } {
  const inner = fetchTransport({ server })
  const counter = {
    asked: 0,
    transport: {
      send: (request: Parameters<Transport['send']>[0]) => {
        if (request.path === '/apis') counter.asked++
        return inner.send(request)
      },
    },
  }
  return counter
}

void t.test('names and kinds become resources and paths', async (t) => {
  const app = await startApp(t)
  const mapper = new RestMapper({ transport: fetchTransport({ server: app.url }) })
  for (const [name, expected] of [
    ['po', '/api/v1/pods'],
    ['Pod', '/api/v1/pods'],
    ['deploy', '/apis/apps/v1/deployments'],
    ['deployments.v1.apps', '/apis/apps/v1/deployments'],
    ['events', '/api/v1/events'],
    ['events.events.k8s.io', '/apis/events.k8s.io/v1/events'],
  ] as const) {
    const found = await mapper.find(name)
    t.equal(found === null ? null : resourcePath(resourceNameOf(found)), expected, name)
  }
  t.equal(await mapper.find('deployments.v7.apps'), null)
  t.match(await mapper.ofKind({ kind: 'Node' }), { plural: 'nodes', namespaced: false, version: 'v1' })
  t.match(await mapper.ofKind({ group: 'apps', kind: 'ReplicaSet' }), { plural: 'replicasets', namespaced: true })
  t.equal(await mapper.ofKind({ kind: 'ReplicaSet' }), null, 'not in the core group')
  const metadata = { name: 'cart', namespace: 'shop' }
  t.equal(
    await mapper.pathOf({ apiVersion: 'apps/v1', kind: 'Deployment', metadata }),
    '/apis/apps/v1/namespaces/shop/deployments/cart',
  )
  t.equal(await mapper.pathOf({ apiVersion: 'v1', kind: 'Node', metadata }), '/api/v1/nodes/cart')
  await t.rejects(
    mapper.pathOf({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'x' } }),
    /Pod x has no metadata.namespace/,
  )
  await t.rejects(mapper.pathOf({ apiVersion: 'v1', kind: 'Pod' }), /this Pod has no metadata.name/)
  await t.rejects(mapper.pathOf({ apiVersion: 'v9', kind: 'Pod', metadata }), /no kind "Pod" in "v9"/)
})

void t.test('an unknown name makes the mapper refetch, but not on every call', async (t) => {
  const app = await startApp(t)
  const clock = new VirtualClock()
  const counter = counting(app.url)
  const mapper = new RestMapper({ transport: counter.transport, clock })
  t.equal(await mapper.find('widgets'), null)
  t.equal((await mapper.find('pods')) === null, false)
  t.equal(counter.asked, 1)
  app.put('apiextensions.k8s.io/customresourcedefinitions/widgets.example.com', WIDGETS)
  for (const end = performance.now() + 20_000; performance.now() < end;) {
    clock.advance(10_000)
    if ((await mapper.find('wd')) !== null) break
  }
  t.match(await mapper.find('wd'), { kind: 'Widget', namespaced: false })
  const before = counter.asked
  clock.advance(10_000)
  t.same(await Promise.all([1, 2, 3].map(() => mapper.find('gadgets'))), [null, null, null])
  for (let i = 0; i < 50; i++) t.equal(await mapper.find('gadgets'), null)
  t.equal(counter.asked, before + 1, 'once for all of them')
})

void t.test(
  'a mapper sends one request for all waiting callers, and keeps its data while the server is unreachable',
  async (t) => {
    const app = await startApp(t)
    const counter = counting(app.url)
    let isAway = false
    const transport: Transport = {
      send: (request) => (isAway ? Promise.reject(new Error('away')) : counter.transport.send(request)),
    }
    const clock = new VirtualClock()
    const mapper = new RestMapper({ transport, clock })
    isAway = true
    await Promise.all([1, 2].map(() => t.rejects(mapper.refresh(), /away/)))
    await t.rejects(mapper.find('pods'), /away/)
    isAway = false
    t.match(await mapper.find('pods'), { kind: 'Pod' }, 'two simultaneous failures are not remembered')
    t.equal(counter.asked, 1)
    await Promise.all([1, 2, 3].map(() => mapper.refresh()))
    t.equal(counter.asked, 2, 'one request for three callers')
    isAway = true
    clock.advance(10_000)
    await Promise.all([t.rejects(mapper.refresh(), /away/), t.rejects(mapper.find('gadgets'), /away/)])
    t.match(await mapper.find('pods'), { kind: 'Pod' }, 'while the server is unreachable')
  },
)

void t.test('a document that never comes does not keep the callers', async (t) => {
  const app = await startApp(t)
  const clock = new VirtualClock()
  let hangs = true
  const { transport } = counting(app.url)
  const hanging: Transport = {
    send: (request) => (hangs ? new Promise<never>(() => {}) : transport.send(request)),
  }
  const mapper = new RestMapper({ transport: hanging, clock })
  const waiting = [1, 2].map(() => t.rejects(mapper.find('pods'), /no answer to \/apis? within 30000 ms/))
  clock.advance(30_000)
  await Promise.all(waiting)
  hangs = false
  t.match(await mapper.find('pods'), { kind: 'Pod' })
})

void t.test(
  'an older server is queried group by group, and an unreachable group does not hide the others',
  async (t) => {
    const answers: Record<string, unknown> = {
      '/api': { kind: 'APIVersions', versions: ['v1'] },
      '/api/v1': {
        kind: 'APIResourceList',
        resources: [
          { name: 'pods', namespaced: true, kind: 'Pod', shortNames: ['po'] },
          { name: 'pods/log', kind: 'Pod' },
        ],
      },
      '/apis': {
        kind: 'APIGroupList',
        groups: [
          { name: 'apps', preferredVersion: { version: 'v1' }, versions: [{ version: 'v1beta1' }, { version: 'v1' }] },
          { name: 'away.example.com', preferredVersion: { version: 'v1' }, versions: [{ version: 'v1' }] },
        ],
      },
      '/apis/apps/v1': {
        resources: [{ name: 'deployments', singularName: 'deployment', namespaced: true, kind: 'Deployment' }],
      },
      '/apis/apps/v1beta1': { resources: [{ name: 'deployments', namespaced: true, kind: 'Deployment' }] },
    }
    const transport = fetchTransport({ server: await serve(t, answers) })
    const mapper = new RestMapper({ transport })
    t.same(
      (await mapper.resources()).map(({ group, version, plural }) => `${group}/${version}/${plural}`),
      ['/v1/pods', 'apps/v1/deployments', 'apps/v1beta1/deployments'],
    )
    t.match(await mapper.find('deployments'), { version: 'v1' }, 'the preferred version')
    t.match(await mapper.ofKind({ group: 'apps', kind: 'Deployment', version: 'v1beta1' }), { version: 'v1beta1' })
    for (const path of Object.keys(answers)) delete answers[path]
    await t.resolves(mapper.refresh(), 'a server without anything')
  },
)

async function serve(t: Test, answers: Readonly<Record<string, unknown>>): Promise<string> {
  const server = http.createServer(({ url = '' }, response) => {
    const answer = answers[url]
    response
      .writeHead(answer === undefined ? (url.includes('away') ? 503 : 404) : 200)
      .end(JSON.stringify(answer ?? {}))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

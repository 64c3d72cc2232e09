/** A server fed by another: what it serves, how fresh that is, and what it requests from the other. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { nodeTransport } from '../../../src/client/node/node-transport.js'
import { load } from '../../../src/server/config/load.js'
import type { Transport, TransportRequest } from '../../../src/client/reflector/transport.js'
import { systemClock } from '../../../src/support/clock.js'
import { RemoteApiServer } from '../../../src/kubernetes/upstream/remote-api-server.js'
import type { ServedResource } from '../../../src/kubernetes/dialect/resource-registry.js'
import { type AppHarness, type AppHarnessOptions, startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { pause, until } from '../../support/until.js'
import { wholeObject } from '../../support/whole-object.js'
import { column, definitionObject } from '../../support/definition.js'

interface EventWire {
  readonly metadata: { readonly name: string; readonly resourceVersion: string }
  readonly items: readonly EventWire[]
}

const get = async (h: AppHarness, path: string): Promise<EventWire> => {
  const response = await fetch(`${h.url}${path}`)
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  return (await response.json()) as EventWire
}

const behind = (t: Test, front: AppHarness, options: AppHarnessOptions = {}): Promise<AppHarness> =>
  startApp(t, { ...options, flags: ['--upstream', front.url, ...(options.flags ?? [])] })

/** `http-resource/earlier-history.test.ts` counts the requests for the history before the start. */
const WITHOUT_HISTORY = ['--backfill-revisions', '0']

/** A few resources are enough, and faster. */
const frontOf = (t: Test, options: AppHarnessOptions): Promise<AppHarness> => {
  const loaded = load([...(options.flags ?? [])], {}, (path) => readFileSync(path, 'utf8'))
  const plurals = ['pods', 'configmaps', 'namespaces', 'customresourcedefinitions', 'secrets', 'flags']
  const resources =
    loaded.kind === 'run' ? loaded.config.resources.filter(({ resource }) => plurals.includes(resource.plural)) : []
  return startApp(t, { ...options, config: { resources } })
}

const namespace = (name: string): object => ({
  kind: 'Namespace',
  apiVersion: 'v1',
  metadata: { name, uid: `uid-${name}` },
})
const configMap = (name: string): object => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace: 'a' },
  data: { big: '9007199254740993' },
})

void t.test('in a chain of three servers a consistent read of the last sees a write at the first', async (t) => {
  const first = await frontOf(t, {
    objects: { 'namespaces/kube-system': namespace('kube-system'), 'pods/a/x': pod('x', { namespace: 'a' }) },
  })
  const second = await behind(t, first)
  const third = await behind(t, second)
  t.same((await get(third, '/api/v1/pods')).items, (await get(first, '/api/v1/pods')).items, 'to the last member')
  for (let i = 0; i < 5; i++) {
    // This write is to another resource: the pods are quiet, and must be known to be.
    const written = first.put(`configmaps/a/c${i}`, configMap(`c${i}`))
    const list = await get(third, '/api/v1/pods')
    t.ok(Number(list.metadata.resourceVersion) >= written, `${list.metadata.resourceVersion} >= ${written}`)
    t.equal((await get(third, `/api/v1/namespaces/a/configmaps/c${i}`)).metadata.resourceVersion, String(written))
  }
  const before = Number((await get(third, '/api/v1/configmaps')).metadata.resourceVersion)
  const whole = first.commit({ 'pods/a/x': null, 'pods/a/y': pod('y', { namespace: 'a' }), 'pods/a/z': pod('z') })
  const watch = await fetch(`${third.url}/api/v1/pods?watch=1&resourceVersion=${before}&timeoutSeconds=1`)
  const events = (await watch.text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; object: EventWire })
  t.same(
    events.map(({ type, object }) => `${type} ${object.metadata.name} ${object.metadata.resourceVersion}`),
    [`DELETED x ${whole}`, `ADDED y ${whole}`, `ADDED z ${whole}`],
    'a revision of several keys comes whole and in order',
  )
})

void t.test('the other server’s resources are served, custom ones soon, Secrets only by name', async (t) => {
  const secret = { kind: 'Secret', apiVersion: 'v1', metadata: { name: 's', namespace: 'a' }, data: {} }
  const front = await frontOf(t, {
    flags: ['--resource', 'secrets', '--resource', 'flags=/config/flags/'],
    objects: { 'secrets/a/s': secret },
  })
  const back = await behind(t, front)
  const named = await behind(t, front, { flags: ['--resource', 'secrets'] })
  t.equal((await fetch(`${back.url}/api/v1/secrets`)).status, 404)
  t.equal((await get(named, '/api/v1/secrets')).items.length, 1)
  t.same((await get(back, '/apis/distributary.io/v1/flags')).items, [], 'a prefix that is declared there')
  const definition = definitionObject({
    group: 'example.com',
    plural: 'gadgets',
    kind: 'Gadget',
    shortNames: ['gd'],
    scope: 'Namespaced',
    versions: [{ name: 'v1', storage: true, additionalPrinterColumns: [column('Size', 'integer', '.spec.size')] }],
  })
  front.put('apiextensions.k8s.io/customresourcedefinitions/gadgets.example.com', definition)
  const gadget = {
    apiVersion: 'example.com/v1',
    kind: 'Gadget',
    metadata: { name: 'g', namespace: 'a' },
    spec: { size: 3 },
  }
  front.put('example.com/gadgets/a/g', gadget)
  await until(() => back.app.registry.find('example.com', 'v1', 'gadgets') !== undefined, 'it is served')
  let status = 0
  for (; status !== 200;) status = (await fetch(`${back.url}/apis/example.com/v1/gadgets`)).status
  const table = await fetch(`${back.url}/apis/example.com/v1/gadgets`, {
    headers: { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' },
  })
  t.match(await table.json(), { columnDefinitions: [{ name: 'Name' }, { name: 'Size' }], rows: [{ cells: ['g', 3] }] })
  front.delete('apiextensions.k8s.io/customresourcedefinitions/gadgets.example.com')
  await until(() => back.app.registry.find('example.com', 'v1', 'gadgets') === undefined, 'it is gone')
})

/** The other server as an API server without SSE, observed from outside. */
class Recorded {
  readonly requests: TransportRequest[] = []
  readonly server: RemoteApiServer

  constructor(url: string, options: { readonly knowsAggregation: boolean } = { knowsAggregation: true }) {
    const transport = nodeTransport({ server: url })
    const recording: Transport = {
      send: (request) => {
        this.requests.push(request)
        const isOld = !options.knowsAggregation && /^\/apis?$/.test(request.path)
        return transport.send(isOld ? { ...request, accept: 'application/json' } : request)
      },
    }
    this.server = new RemoteApiServer({ transport: recording, url, clock: systemClock, speaksSse: false })
  }

  of(path: string): readonly TransportRequest[] {
    return this.requests.filter((request) => request.path === path)
  }
}

void t.test('the state of an API server of any version is requested as a stream', async (t) => {
  const front = await frontOf(t, {
    objects: { 'pods/a/x': wholeObject(pod('x', { namespace: 'a' })), 'configmaps/a/c': configMap('c') },
  })
  for (const knowsAggregation of [true, false]) {
    const recorded = new Recorded(front.url, { knowsAggregation })
    const back = await behind(t, front, { server: recorded.server, flags: WITHOUT_HISTORY })
    t.same((await get(back, '/api/v1/pods')).items, (await get(front, '/api/v1/pods')).items)
    t.same((await get(back, '/api/v1/configmaps')).items, (await get(front, '/api/v1/configmaps')).items)
    const written = front.put('pods/a/y', wholeObject(pod('y', { namespace: 'a' })))
    await until(() => [...back.app.sources].some(({ cache }) => cache.revision >= written), 'the watch brings it')
    t.ok(
      recorded.of('/api/v1/pods').some(({ query }) => query['sendInitialEvents'] === 'true'),
      'WatchList',
    )
    t.notOk(
      recorded.of('/api/v1/pods').some(({ query }) => {
        const { resourceVersionMatch, fieldSelector, limit } = query
        return resourceVersionMatch === 'Exact' && fieldSelector === undefined && limit !== '1'
      }),
      'and no state of the past',
    )
    t.ok(recorded.requests.every(({ accept }) => !accept.includes('event-stream')))
    await back.app.stop()
  }
})

void t.test(
  'our identity there comes from a kubeconfig; without one, forbidden lists are reported and delay no other',
  async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'distributary-upstream-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const tokens = join(directory, 'tokens.csv')
    const kubeconfig = join(directory, 'kubeconfig')
    writeFileSync(tokens, 'sesame,edge,1\n')
    const config = {
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
      clusters: [{ name: 'k', cluster: { server: 'https://somewhere.else' } }],
      users: [{ name: 'u', user: { token: 'sesame' } }],
    }
    writeFileSync(kubeconfig, JSON.stringify(config))
    const front = await frontOf(t, {
      flags: ['--token-auth-file', tokens, '--anonymous-auth=false', '--authorization-mode=AlwaysAllow'],
      objects: { 'pods/a/x': pod('x', { namespace: 'a' }) },
    })
    const back = await behind(t, front, { flags: ['--kubeconfig', kubeconfig] })
    t.equal((await get(back, '/api/v1/pods')).items.length, 1)
    const stranger = await behind(t, front, { ready: false })
    const readiness = async (): Promise<string> => await (await fetch(`${stranger.url}/readyz?verbose`)).text()
    await until(async () => /upstream-discovery failed.*Unauthorized/.test(await readiness()), 'it says why')
  },
)

/** An API server's ConfigMap, Event and HorizontalPodAutoscaler. */
const builtIn = {
  'configmaps/a/c': configMap('c'),
  'events/a/e': wholeObject({
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: 'e', namespace: 'a' },
    involvedObject: { kind: 'Pod', namespace: 'a', name: 'x' },
    reason: 'Started',
    message: 'started',
    source: { component: 'kubelet' },
    firstTimestamp: '2026-01-01T00:00:00Z',
    lastTimestamp: '2026-01-01T00:00:00Z',
    count: 1,
    type: 'Normal',
  }),
  'horizontalpodautoscalers/a/h': wholeObject({
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: 'h', namespace: 'a' },
    spec: {
      scaleTargetRef: { kind: 'Deployment', name: 'web', apiVersion: 'apps/v1' },
      maxReplicas: 3,
      metrics: [
        { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } },
      ],
    },
  }),
}

const served = (group: string, ...plurals: readonly string[]): ServedResource[] => {
  const loaded = load([], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('no resources')
  return loaded.config.resources.filter(({ resource }) => resource.group === group && plurals.includes(resource.plural))
}

const PLURALS = ['configmaps', 'events', 'pods', 'services', 'nodes', 'deployments', 'daemonsets', 'jobs', 'cronjobs']

const isOpened = ({ query }: TransportRequest): boolean => query['watch'] === '1'

void t.test('one request to an API server brings a resource and its watch, in protobuf', async (t) => {
  const front = await startApp(t, { objects: builtIn, config: { resources: served('', 'configmaps', 'events') } })
  const { requests, server } = new Recorded(front.url)
  const back = await behind(t, front, { server, flags: WITHOUT_HISTORY })
  const written = front.put('configmaps/a/d', configMap('d'))
  await until(() => [...back.app.sources].some(({ cache }) => cache.revision >= written), 'the watch brings it')
  const asked = requests.filter(({ path }) => path === '/api/v1/configmaps')
  t.match(asked, [{ query: { watch: '1', sendInitialEvents: 'true' }, accept: /^application.vnd.kubernetes.protobuf/ }])
  t.equal(asked.length, 1)
  const path = '/api/v1/namespaces/a/configmaps/d'
  t.same(await get(back, path), await get(front, path))
  const protobuf = async ({ url }: AppHarness): Promise<Buffer> => {
    const answer = await fetch(`${url}${path}`, { headers: { accept: 'application/vnd.kubernetes.protobuf' } })
    return Buffer.from(await answer.arrayBuffer())
  }
  t.ok((await protobuf(back)).equals(await protobuf(front)), 'to the byte')
})

void t.test('a restart asks an API server once for each resource, and lists none, but for its history', async (t) => {
  const resources = ['', 'apps', 'batch'].flatMap((group) => served(group, ...PLURALS))
  t.ok(resources.length > 8)
  const front = await startApp(t, { objects: builtIn, config: { resources } })
  for (const start of ['the first start', 'a restart']) {
    const { requests, server } = new Recorded(front.url)
    const back = await behind(t, front, { server, flags: WITHOUT_HISTORY })
    const asked = requests.filter(({ path }) => PLURALS.includes(path.slice(path.lastIndexOf('/') + 1)))
    t.ok(
      asked.every(({ query }) => query['sendInitialEvents'] === 'true'),
      start,
    )
    t.equal(asked.length, resources.length, start)
    await back.app.stop()
  }
})

void t.test('every version is served with one watch, as the other server serves it', async (t) => {
  const resources = [
    ...served('', 'configmaps', 'events'),
    ...served('events.k8s.io', 'events'),
    ...served('autoscaling', 'horizontalpodautoscalers'),
  ]
  const front = await startApp(t, { objects: builtIn, config: { resources } })
  const { requests, server } = new Recorded(front.url)
  const back = await behind(t, front, { server })
  for (const path of [
    '/api/v1/events',
    '/apis/events.k8s.io/v1/events',
    '/apis/autoscaling/v1/horizontalpodautoscalers',
    '/apis/autoscaling/v2/horizontalpodautoscalers',
  ])
    t.same(await get(back, path), await get(front, path), path)
  const watched = new Set(requests.filter(isOpened).map(({ path }) => path))
  t.ok(watched.has('/api/v1/events') && watched.has('/apis/autoscaling/v2/horizontalpodautoscalers'))
  t.notOk(watched.has('/apis/events.k8s.io/v1/events') || watched.has('/apis/autoscaling/v1/horizontalpodautoscalers'))
})

const versioned = (stored: string, conversion: 'None' | 'Webhook'): object => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'gadgets.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'gadgets', kind: 'Gadget' },
    conversion: { strategy: conversion },
    versions: ['v1', 'v2'].map((name) => ({ name, served: true, storage: name === stored })),
  },
})

void t.test(
  'custom resources are read in their stored version, and what a webhook converts only on request',
  async (t) => {
    const definition = 'apiextensions.k8s.io/customresourcedefinitions/gadgets.example.com'
    const front = await startApp(t, {
      objects: { [definition]: versioned('v2', 'None') },
      config: { resources: served('apiextensions.k8s.io', 'customresourcedefinitions') },
    })
    const { requests, server } = new Recorded(front.url)
    const back = await behind(t, front, { server, flags: WITHOUT_HISTORY })
    const opened = (): string[] =>
      requests.filter((one) => isOpened(one) && one.path.includes('gadgets')).map(({ path }) => path)
    const versions = (): unknown =>
      ['v1', 'v2'].map((version) => back.app.registry.find('example.com', version, 'gadgets')?.isUncached ?? false)
    await until(() => opened().length > 0, 'it is read')
    t.same(opened(), ['/apis/example.com/v2/gadgets'])
    t.same(versions(), [false, false])

    front.put(definition, versioned('v1', 'None'))
    await until(() => opened().at(-1) === '/apis/example.com/v1/gadgets', 'it is read in the other version')

    front.put(definition, versioned('v1', 'Webhook'))
    await until(() => JSON.stringify(versions()) === '[false,true]', 'the other version is not cached')
    const before = requests.length
    t.same((await get(back, '/apis/example.com/v2/gadgets')).items, [])
    t.ok(
      requests.slice(before).some(({ path }) => path === '/apis/example.com/v2/gadgets'),
      'the server is asked for it',
    )
  },
)

void t.test('a server behind one that an API server feeds is ready without a bookmark', async (t) => {
  const objects = { 'namespaces/kube-system': namespace('kube-system'), 'pods/a/x': pod('x', { namespace: 'a' }) }
  const front = await frontOf(t, { objects })
  const middle = await behind(t, front, { server: new Recorded(front.url).server })
  // The pods in the middle stay at the revision before, and nothing tells them of this one for a minute.
  front.put('configmaps/a/c', configMap('c'))
  const asked = fetch(`${middle.url}/api/v1/pods?limit=1`, { headers: { 'x-distributary-ask': 'progress' } })
  t.equal((await asked).headers.get('x-distributary-trusts-progress'), 'false')
  const back = await behind(t, middle, { ready: false })
  await until(() => back.app.isReady, 'it is ready', 20_000)
  t.same((await get(back, '/api/v1/pods')).items, (await get(middle, '/api/v1/pods')).items)
  const written = front.put('pods/a/y', pod('y', { namespace: 'a' }))
  await until(
    () => [...back.app.sources].some(({ cache }) => cache.revision >= written),
    'the watches bring what follows',
  )
})

void t.test('a watch that ended does not go on at another cluster behind the same address', async (t) => {
  const fleetOf = (uid: string, name: string): Promise<AppHarness> => {
    const system = { ...namespace('kube-system'), metadata: { name: 'kube-system', uid } }
    return frontOf(t, {
      objects: { 'namespaces/kube-system': system, [`pods/a/${name}`]: pod(name, { namespace: 'a' }) },
    })
  }
  const [blue, green] = await Promise.all([fleetOf('1', 'x'), fleetOf('2', 'y')])
  for (let i = 0; i < 5; i++) green.put(`configmaps/a/c${i}`, configMap(`c${i}`))
  const moved = new AbortController()
  const toBlue = nodeTransport({ server: blue.url })
  const toGreen = nodeTransport({ server: green.url })
  const moving: Transport = {
    async send(request) {
      if (moved.signal.aborted) return await toGreen.send(request)
      const response = await toBlue.send(request)
      const isWatch = request.query['watch'] !== undefined
      return isWatch ? { ...response, body: endedBy(moved.signal, response.body) } : response
    },
  }
  const server = new RemoteApiServer({ transport: moving, url: blue.url, clock: systemClock })
  const back = await behind(t, blue, { server })
  const pods = async (): Promise<string> =>
    (await get(back, '/api/v1/pods?resourceVersion=0')).items.map(({ metadata }) => metadata.name).join()
  t.equal(await pods(), 'x')
  // A watch that ends sooner counts as failed.
  await pause(1_500)
  moved.abort()
  const waitMs = 10_000
  for (let ms = 0; (await pods()) === 'x' && ms < waitMs; ms += 100) await pause(100)
  t.equal(await pods(), 'y')
})

void t.test('a watch that ended goes on if nobody can say which cluster answers', async (t) => {
  const objects = { 'namespaces/kube-system': namespace('kube-system'), 'pods/a/x': pod('x', { namespace: 'a' }) }
  const front = await frontOf(t, { objects })
  const transport = nodeTransport({ server: front.url })
  const ended = new AbortController()
  const reads: string[] = []
  const ending: Transport = {
    async send(request) {
      const isWatch = request.query['watch'] !== undefined
      if (ended.signal.aborted && !isWatch) reads.push(request.path)
      if (ended.signal.aborted && request.path.endsWith('/kube-system')) throw new Error('etcd is away')
      const response = await transport.send(request)
      const isFirst = isWatch && !ended.signal.aborted
      return isFirst ? { ...response, body: endedBy(ended.signal, response.body) } : response
    },
  }
  const server = new RemoteApiServer({ transport: ending, url: front.url, clock: systemClock })
  const back = await behind(t, front, { server })
  // A watch that ends sooner counts as failed.
  await pause(1_500)
  ended.abort()
  await until(() => reads.some((path) => path.endsWith('/kube-system')), 'it is asked')
  const written = front.put('pods/a/y', pod('y', { namespace: 'a' }))
  await until(() => [...back.app.sources].some(({ cache }) => cache.revision >= written), 'the next watch brings it')
  t.notOk(reads.includes('/api/v1/pods'), 'and nothing is compared')
})

void t.test('an answer that breaks off inside the initial state is not taken for it', async (t) => {
  const objects = Object.fromEntries(
    Array.from({ length: 60 }, (_, i) => [`pods/a/p${i}`, pod(`p${i}`, { namespace: 'a' })]),
  )
  const front = await startApp(t, { objects, config: { resources: served('', 'pods') } })
  const transport = nodeTransport({ server: front.url })
  let cuts = 0
  const cutting: Transport = {
    async send(request) {
      const response = await transport.send(request)
      if (!request.path.endsWith('/pods') || cuts >= 3) return response
      cuts++
      return { ...response, body: firstBytes(response.body, 500 * cuts) }
    },
  }
  const server = new RemoteApiServer({ transport: cutting, url: front.url, clock: systemClock, speaksSse: false })
  const back = await behind(t, front, { server })
  t.equal(cuts, 3)
  t.equal((await get(back, '/api/v1/pods?resourceVersion=0')).items.length, 60)
})

async function* endedBy(signal: AbortSignal, body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const chunks = body[Symbol.asyncIterator]()
  const over = new Promise<{ readonly done: true }>((resolve) => {
    signal.addEventListener('abort', () => resolve({ done: true }))
  })
  for (;;) {
    const next = await Promise.race([chunks.next(), over])
    if (next.done === true) return
    yield next.value
  }
}

async function* firstBytes(body: AsyncIterable<Uint8Array>, count: number): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    yield chunk.subarray(0, count)
    throw new Error('the connection is reset')
  }
}

/** An API server whose answers arrive byte by byte. Counts the requests for a path. */
function dripping(url: string, path: string): { readonly server: RemoteApiServer; readonly asked: () => number } {
  const transport = nodeTransport({ server: url })
  let asked = 0
  const slow: Transport = {
    async send(request) {
      if (request.path === path) asked++
      const response = await transport.send(request)
      return request.path === path ? { ...response, body: bytesOf(response.body) } : response
    },
  }
  const server = new RemoteApiServer({ transport: slow, url, clock: systemClock, speaksSse: false })
  return { server, asked: () => asked }
}

async function* bytesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) for (let i = 0; i < chunk.length; i++) yield chunk.subarray(i, i + 1)
}

const namesAt = async (h: AppHarness, path: string): Promise<readonly string[]> =>
  (await get(h, `${path}?resourceVersion=0`)).items.map(({ metadata }) => metadata.name)

void t.test('several objects of one revision that an API server sends one by one leave no hole', async (t) => {
  const objects = { 'pods/a/x': pod('x', { namespace: 'a' }) }
  const front = await startApp(t, { objects, config: { resources: served('', 'pods') } })
  const { server, asked } = dripping(front.url, '/api/v1/pods')
  const back = await behind(t, front, { server, flags: WITHOUT_HISTORY })
  t.equal(asked(), 1)
  for (const turn of ['1', '2']) {
    front.put('pods/a/x', pod('x', { namespace: 'a', labels: { turn } }))
    front.commit({
      [`pods/a/y${turn}`]: pod(`y${turn}`, { namespace: 'a' }),
      [`pods/a/z${turn}`]: pod(`z${turn}`, { namespace: 'a' }),
    })
    const wanted = await namesAt(front, '/api/v1/pods')
    await until(async () => (await namesAt(back, '/api/v1/pods')).join() === wanted.join(), `it has ${wanted.join()}`)
  }
})

void t.test('Events that expire together, and arrive one by one, cost no list', async (t) => {
  const event = (name: string): object => ({
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace: 'a', uid: `uid-${name}` },
    involvedObject: {},
  })
  const names = Array.from({ length: 20 }, (_, i) => `e${i}`)
  const keys = (value: (name: string) => object | null): Record<string, object | null> =>
    Object.fromEntries(names.map((name) => [`events/a/${name}`, value(name)]))
  const front = await startApp(t, { objects: keys(event) as never, config: { resources: served('', 'events') } })
  const { server, asked } = dripping(front.url, '/api/v1/events')
  const back = await behind(t, front, { server })
  t.equal((await namesAt(back, '/api/v1/events')).length, names.length)
  const before = (await get(back, '/api/v1/events?resourceVersion=0')).metadata.resourceVersion
  const revision = front.commit(keys(() => null) as never)
  await until(async () => (await namesAt(back, '/api/v1/events')).length === 0, 'all are gone')
  const watch = await fetch(`${back.url}/api/v1/events?watch=1&resourceVersion=${before}&timeoutSeconds=1`)
  const told = (await watch.text()).trim().split('\n')
  t.equal(told.length, names.length)
  t.ok(told.every((line) => line.includes('"DELETED"') && line.includes(`"resourceVersion":"${revision}"`)))
  t.equal(asked(), 1, 'one request brought the state and the deletions')
})

void t.test('a denial from a starting server counts as unavailable, not as permission denied', async (t) => {
  let readyz = 200
  const transport: Transport = {
    async send({ path }) {
      const body = (async function* () {})()
      return { status: path === '/readyz' ? readyz : 403, header: () => null, body }
    },
  }
  const remote = new RemoteApiServer({ url: 'http://127.0.0.1', transport, clock: systemClock })
  const code = async (): Promise<unknown> =>
    await remote.get({ path: '/api/v1/pods' }).catch((error: { code: string }) => error.code)
  for (const [status, expected] of [
    [500, 'unavailable'],
    [403, 'unavailable'],
    [200, 'permission-denied'],
    [404, 'permission-denied'],
  ] as const) {
    readyz = status
    t.equal(await code(), expected, `readyz ${status}`)
  }
})

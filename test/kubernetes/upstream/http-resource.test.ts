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
import { type AppHarness, type AppHarnessOptions, startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { until } from '../../support/until.js'

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
  const definition = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'gadgets.example.com' },
    spec: {
      group: 'example.com',
      scope: 'Namespaced',
      names: { plural: 'gadgets', kind: 'Gadget', shortNames: ['gd'] },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          additionalPrinterColumns: [{ name: 'Size', type: 'integer', jsonPath: '.spec.size' }],
        },
      ],
    },
  }
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

  constructor(url: string, options: { readonly knowsAggregation: boolean }) {
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

void t.test('an API server of any version is asked for its state as a stream', async (t) => {
  const front = await frontOf(t, {
    objects: { 'pods/a/x': pod('x', { namespace: 'a' }), 'configmaps/a/c': configMap('c') },
  })
  for (const knowsAggregation of [true, false]) {
    const recorded = new Recorded(front.url, { knowsAggregation })
    const back = await behind(t, front, { server: recorded.server })
    t.same((await get(back, '/api/v1/pods')).items, (await get(front, '/api/v1/pods')).items)
    t.same((await get(back, '/api/v1/configmaps')).items, (await get(front, '/api/v1/configmaps')).items)
    const written = front.put('pods/a/y', pod('y', { namespace: 'a' }))
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
    let text = ''
    while (!text.includes('Unauthorized')) text = await (await fetch(`${stranger.url}/readyz?verbose`)).text()
    t.match(text, /upstream-discovery failed.*Unauthorized/)
  },
)

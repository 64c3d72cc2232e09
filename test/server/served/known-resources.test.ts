/** Until all resources are known, no resource is reported as missing. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startApp } from '../../support/app.js'
import { until } from '../../support/until.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { type Logger, silentLogger } from '../../../src/support/log.js'
import { startApiServer } from '../../support/api-server-stand-in.js'
import { createEmbeddedUpstream, type EmbeddedControls } from '../../support/faulty-store.js'
import { type Upstream, UpstreamError } from '../../../src/engine/upstream/upstream.js'

const AGGREGATED = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
const WIDGETS = '/apis/edge.example.com/v1/namespaces/a/widgets'
/** Resources of a definition that has not been read yet. */
const UNKNOWN = [
  WIDGETS,
  `${WIDGETS}/w`,
  `${WIDGETS}?watch=true`,
  '/apis/edge.example.com',
  '/apis/edge.example.com/v1',
  '/openapi/v3/apis/edge.example.com/v1',
]
const ALL_GROUPS = ['/apis', '/openapi/v3', '/openapi/v2']

const definition = {
  kind: 'CustomResourceDefinition',
  apiVersion: 'apiextensions.k8s.io/v1',
  metadata: { name: 'widgets.edge.example.com' },
  spec: {
    group: 'edge.example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', kind: 'Widget' },
    versions: [{ name: 'v1', served: true, storage: true }],
  },
}

const DEFINITIONS = keyFromText('/registry/apiextensions.k8s.io/customresourcedefinitions/')

function cluster(): EmbeddedControls & Upstream {
  const upstream = createEmbeddedUpstream()
  const objects = {
    'apiextensions.k8s.io/customresourcedefinitions/widgets.edge.example.com': definition,
    'edge.example.com/widgets/a/w': {
      apiVersion: 'edge.example.com/v1',
      kind: 'Widget',
      metadata: { name: 'w', namespace: 'a' },
    },
  }
  upstream.commit(
    Object.entries(objects).map(([key, object]) => ({
      type: 'put',
      key: keyFromText(`/registry/${key}`),
      value: Buffer.from(JSON.stringify(object)),
    })),
  )
  return upstream
}

async function statusOf(url: string, accept = 'application/json'): Promise<number> {
  return (await fetch(url, { headers: { accept } })).status
}

/** Waits for a state that follows the next read attempt. */
async function untilStatus(url: string, code: number): Promise<void> {
  let last = 0
  const asked = async (): Promise<boolean> => (last = await statusOf(url)) === code
  await until(asked, () => `${url} answers ${last}, not ${code}`, 20_000)
}

void t.test('until definitions are read, requests for resources they may define get a retry', async (t) => {
  const upstream = cluster()
  upstream.failReads(new UpstreamError('unavailable', 'busy'), DEFINITIONS)
  const h = await startApp(t, { upstream, ready: false })
  await untilStatus(`${h.url}/api/v1/namespaces/a/pods?resourceVersion=0`, 200)
  for (const path of [...UNKNOWN, ...ALL_GROUPS]) {
    const answer = await fetch(h.url + path)
    t.same([answer.status, answer.headers.get('retry-after')], [503, '1'], path)
    t.match(await answer.json(), { kind: 'Status', reason: 'ServiceUnavailable', code: 503 }, path)
  }
  t.equal(await statusOf(`${h.url}/apis`, AGGREGATED), 503, 'aggregated')
  t.equal(await statusOf(`${h.url}/api`, AGGREGATED), 200, 'the core group is complete')
  for (const path of ['/api', '/api/v1', '/apis/apps', '/apis/apps/v1', '/openapi/v3/apis/apps/v1', '/version']) {
    t.equal(await statusOf(h.url + path), 200, path)
  }
  await untilStatus(`${h.url}/apis/apps/v1/deployments?resourceVersion=0`, 200)
  for (const path of ['/apis/apps/v9', '/apis/apps/v1/nothings', '/api/v1/nothings']) {
    t.equal(await statusOf(h.url + path), 404, path)
  }
  upstream.failReads(null, DEFINITIONS)
  await untilStatus(h.url + WIDGETS, 200)
  for (const path of [...UNKNOWN.filter((one) => !one.includes('?')), ...ALL_GROUPS]) {
    t.equal(await statusOf(h.url + path), 200, path)
  }
  t.equal(await statusOf(`${h.url}/apis/other.example.com/v1/things`), 404, 'now it is known')
  // Known resources stay known when the connection is lost later.
  upstream.failReads(new UpstreamError('unavailable', 'busy'), DEFINITIONS)
  upstream.cutWatches()
  t.equal(await statusOf(`${h.url}/apis/other.example.com/v1/things`), 404)
})

void t.test('until then watches of them wait, instead of staying at the API server for minutes', async (t) => {
  const upstream = cluster()
  upstream.failReads(new UpstreamError('unavailable', 'busy'), DEFINITIONS)
  const behind = await startApiServer(t)
  const h = await startApp(t, { upstream, ready: false, flags: ['--passthrough', behind.url] })
  const watch = await fetch(`${h.url}${WIDGETS}?watch=true`)
  t.same([watch.status, watch.headers.get('retry-after')], [503, '1'])
  t.same(behind.seen, [])
  for (const path of [WIDGETS, '/api/v1/secrets?watch=true']) {
    t.equal(await statusOf(h.url + path), 200)
    t.equal(behind.last().url, path, 'forwarded')
  }
  upstream.failReads(null, DEFINITIONS)
  const count = behind.seen.length
  await untilStatus(`${h.url}${WIDGETS}?watch=true&timeoutSeconds=1`, 200)
  t.equal(await statusOf(`${h.url}/apis/metrics.k8s.io/v1/pods?watch=true`), 200)
  t.equal(behind.seen.length, count + 1, 'what is not served here, and nothing else')
})

void t.test('a request that is being authorized while definitions are read gets a retry, never a 404', async (t) => {
  for (const verb of ['watch=true', 'limit=1']) {
    const upstream = cluster()
    upstream.failReads(new UpstreamError('unavailable', 'busy'), DEFINITIONS)
    const judge = await startApiServer(t)
    const kubeconfig = join(t.testdir(), 'kubeconfig')
    const config = {
      clusters: [{ name: 'judge', cluster: { server: judge.url } }],
      users: [{ name: 'us', user: {} }],
      contexts: [{ name: 'only', context: { cluster: 'judge', user: 'us' } }],
      'current-context': 'only',
    }
    writeFileSync(kubeconfig, JSON.stringify(config))
    const flags = ['--authorization-mode=Webhook', `--authorization-kubeconfig=${kubeconfig}`, '--anonymous-auth']
    const h = await startApp(t, { upstream, ready: false, flags })
    judge.answer = (_request, response, body) => {
      upstream.failReads(null, DEFINITIONS)
      void untilStatus(`${h.url}/readyz`, 200).then(() => {
        const review = { ...(JSON.parse(body) as object), status: { allowed: true } }
        response.setHeader('content-type', 'application/json').end(JSON.stringify(review))
      })
    }
    const answer = await fetch(`${h.url}${WIDGETS}?${verb}`)
    t.same([answer.status, answer.headers.get('retry-after')], [503, '1'], verb)
    t.equal(await statusOf(`${h.url}${WIDGETS}?limit=1`), 200, 'the next finds it')
  }
})

void t.test('definitions that must not be read are not waited for, which is logged once', async (t) => {
  const upstream = cluster()
  upstream.failReads(new UpstreamError('permission-denied', 'permission denied'), DEFINITIONS)
  const lines: string[] = []
  const warn = (_: unknown, message: string): void => void lines.push(message)
  const h = await startApp(t, { upstream, logger: { ...silentLogger, warn } as Logger })
  for (let i = 0; i < 3; i++) for (const path of UNKNOWN) t.equal(await statusOf(h.url + path), 404, path)
  t.equal(await statusOf(`${h.url}/apis`), 200)
  t.same(
    lines.filter((line) => line.includes('custom resources')),
    ['the objects that define custom resources cannot be read'],
  )
})

void t.test('without the resource of definitions the start does not wait', async (t) => {
  const { config } = await startApp(t)
  const resources = config.resources.filter(({ resource }) => resource.plural === 'pods')
  const h = await startApp(t, { config: { resources } })
  t.equal(await statusOf(h.url + WIDGETS), 404)
  t.equal(await statusOf(`${h.url}/apis`), 200)
})

void t.test('over another server no resource is known until its discovery has been read', async (t) => {
  const upstream = cluster()
  upstream.failReads(new UpstreamError('unavailable', 'busy'), DEFINITIONS)
  const behind = await startApp(t, { upstream, ready: false })
  await untilStatus(`${behind.url}/api/v1/pods?resourceVersion=0`, 200)
  const h = await startApp(t, { flags: ['--upstream', behind.url], ready: false })
  for (const path of [...UNKNOWN, ...ALL_GROUPS, '/api', '/api/v1', '/api/v1/pods', '/apis/apps/v1/deployments']) {
    t.equal(await statusOf(h.url + path), 503, path)
  }
  upstream.failReads(null, DEFINITIONS)
  await until(() => h.app.isReady, 'the server is ready', 30_000)
  await untilStatus(h.url + WIDGETS, 200)
  t.equal(await statusOf(`${h.url}/api/v1/pods`), 200)
  t.equal(await statusOf(`${h.url}/apis/other.example.com/v1/things`), 404)
})

void t.test('a definition of the past is not served while history is read back, so watches resume', async (t) => {
  const upstream = cluster()
  const { revision } = upstream
  const versions = [...definition.spec.versions, { name: 'v2', served: true, storage: false }]
  const changed = { ...definition, spec: { ...definition.spec, versions } }
  const key = keyFromText('/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.edge.example.com')
  upstream.commit([{ type: 'put', key, value: Buffer.from(JSON.stringify(changed)) }])
  upstream.holdDelivery(DEFINITIONS)
  const h = await startApp(t, { upstream, flags: ['--backfill-revisions=1'], ready: false })
  await untilStatus(`${h.url}/api/v1/namespaces/a/pods?resourceVersion=0`, 200)
  t.equal(await statusOf(`${h.url}${WIDGETS}?resourceVersion=0`), 503)
  upstream.releaseDelivery(DEFINITIONS)
  await untilStatus(h.url + WIDGETS, 200)
  t.equal(await statusOf(h.url + WIDGETS.replace('v1', 'v2')), 200)
  const watch = await fetch(`${h.url}${WIDGETS}?watch=true&timeoutSeconds=1&resourceVersion=${revision}`)
  t.same([watch.status, await watch.text()], [200, ''])
})

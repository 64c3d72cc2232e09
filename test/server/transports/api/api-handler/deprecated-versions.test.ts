/** Answers in a deprecated version carry a warning, whatever the verb. The texts are those of an API server 0.37. */
import { connect, constants } from 'node:http2'
import t from 'tap'
import { type AppHarness, startApp } from '../../../../support/app.js'
import { until } from '../../../../support/until.js'

const GROUP = 'edge.example.com'

function definition(plural: string, kind: string, versions: readonly object[]): object {
  return {
    kind: 'CustomResourceDefinition',
    apiVersion: 'apiextensions.k8s.io/v1',
    metadata: { name: `${plural}.${GROUP}` },
    spec: { group: GROUP, scope: 'Cluster', names: { plural, kind }, versions },
  }
}

const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } }

const DEFINITIONS = {
  widgets: definition('widgets', 'Widget', [
    { name: 'v1alpha1', served: true, deprecated: true, schema },
    { name: 'v1beta1', served: true, deprecated: true, deprecationWarning: 'say "v1" \\ früher', schema },
    { name: 'v1beta2', served: true, schema },
    { name: 'v1', served: true, storage: true, schema },
    { name: 'v2', served: false, schema },
  ]),
  lasts: definition('lasts', 'Last', [
    { name: 'v1', served: true, storage: true, deprecated: true, schema },
    { name: 'v1beta1', served: true, schema },
  ]),
}

const ALPHA = '299 - "edge.example.com/v1alpha1 Widget is deprecated; use edge.example.com/v1 Widget"'

async function start(flags: readonly string[] = []): Promise<AppHarness> {
  const objects = Object.entries(DEFINITIONS).map(([plural, object]) => [
    `apiextensions.k8s.io/customresourcedefinitions/${plural}.${GROUP}`,
    object,
  ])
  const h = await startApp(t, { flags, objects: Object.fromEntries(objects) as Record<string, object> })
  await until(async () => (await fetch(`${h.url}/apis/${GROUP}/v1/lasts`)).status === 200, 'the definitions are served')
  return h
}

const warningOf = async (url: string, init?: RequestInit): Promise<string | null> => {
  const response = await fetch(url, init)
  const warning = response.headers.get('warning')
  await response.body?.cancel()
  // The header is UTF-8; fetch makes a character of each byte.
  return warning === null ? null : Buffer.from(warning, 'latin1').toString()
}

void t.test('a deprecated version of a custom resource is answered with its warning', async (t) => {
  const { url } = await start(['--enable-writes'])
  const widgets = (version: string): string => `${url}/apis/${GROUP}/${version}/widgets`
  const json = { 'content-type': 'application/json' }
  const body = JSON.stringify({ apiVersion: `${GROUP}/v1alpha1`, kind: 'Widget', metadata: { name: 'a' } })
  t.equal(await warningOf(widgets('v1alpha1'), { method: 'POST', headers: json, body }), ALPHA, 'create')
  t.equal(await warningOf(widgets('v1alpha1')), ALPHA, 'list')
  t.equal(await warningOf(`${widgets('v1alpha1')}/a`), ALPHA, 'get')
  t.equal(await warningOf(`${widgets('v1alpha1')}/nobody`), ALPHA, 'get of what is not there')
  t.equal(await warningOf(`${widgets('v1alpha1')}/nobody/status`), ALPHA, 'a subresource that it does not have')
  t.equal(await warningOf(`${widgets('v1alpha1')}?labelSelector=(`), ALPHA, 'a request that is refused')
  t.equal(await warningOf(`${widgets('v1alpha1')}?watch=1&timeoutSeconds=1`), ALPHA, 'watch')
  t.equal(await warningOf(widgets('v1alpha1'), { method: 'HEAD' }), ALPHA, 'head')
  t.equal(await warningOf(`${widgets('v1alpha1')}/a`, { method: 'DELETE' }), ALPHA, 'delete')
  const inItsWords = '299 - "say \\"v1\\" \\\\ früher"'
  t.equal(await warningOf(widgets('v1beta1')), inItsWords, 'in the words of the definition')
  for (const accept of ['application/json', 'text/event-stream']) {
    const watch = `${widgets('v1beta1')}?watch=1&timeoutSeconds=1`
    t.equal(await warningOf(watch, { headers: { accept } }), inItsWords, `in a watch as ${accept}`)
  }
  t.equal(await warningOf(widgets('v1')), null)
  t.equal(
    await warningOf(`${url}/apis/${GROUP}/v1/lasts`),
    '299 - "edge.example.com/v1 Last is deprecated"',
    'an older version is not recommended',
  )
  t.equal(await warningOf(`${url}/apis/${GROUP}/v1alpha1`), null, 'discovery warns of nothing')

  const session = connect(url)
  const headers = await new Promise<{ readonly warning?: unknown }>((resolve, reject) => {
    const stream = session.request({ [constants.HTTP2_HEADER_PATH]: `/apis/${GROUP}/v1beta1/widgets` })
    stream.on('response', resolve).on('error', reject).resume()
  })
  session.close()
  t.equal(Buffer.from(String(headers.warning), 'latin1').toString(), inItsWords, 'over HTTP/2')
})

void t.test('a deprecated built-in version is answered with its warning, beside other warnings', async (t) => {
  const h = await startApp(t, {
    objects: { 'services/endpoints/default/a': { apiVersion: 'v1', kind: 'Endpoints', metadata: { name: 'a' } } },
  })
  const endpoints = '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
  t.equal(await warningOf(`${h.url}/api/v1/endpoints`), endpoints)
  t.equal(await warningOf(`${h.url}/api/v1/namespaces/default/endpoints/nobody`), endpoints, 'what is not there')
  t.equal(await warningOf(`${h.url}/api/v1/namespaces/default/endpoints/a/status`), null, 'it has no such part')
  t.equal(await warningOf(`${h.url}/api/v1/pods`), null)
  h.put('services/endpoints/default/b/c', {})
  await until(async () => ((await warningOf(`${h.url}/api/v1/endpoints`)) ?? '') !== endpoints, 'one cannot be served')
  t.match(
    await warningOf(`${h.url}/api/v1/endpoints`),
    /^299 - "v1 Endpoints .*", 299 - "1 stored objects of endpoints/,
  )
})

void t.test('objects stored in one version are served in every enabled version', async (t) => {
  const candidate = {
    apiVersion: 'coordination.k8s.io/v1beta1',
    kind: 'LeaseCandidate',
    metadata: { name: 'a', namespace: 'default' },
    spec: { leaseName: 'scheduler' },
  }
  const h = await startApp(t, {
    flags: ['--resource', 'coordination.k8s.io/v1alpha2'],
    objects: { 'leasecandidates/default/a': candidate },
  })
  const path = `${h.url}/apis/coordination.k8s.io/v1alpha2/namespaces/default/leasecandidates`
  t.match(await (await fetch(`${path}/a`)).json(), { apiVersion: 'coordination.k8s.io/v1alpha2', spec: candidate.spec })
  t.equal(
    await warningOf(path),
    '299 - "coordination.k8s.io/v1alpha2 LeaseCandidate is deprecated in v1.35+, unavailable in v1.38+"',
  )
  t.equal((await fetch(path.replace('v1alpha2', 'v1beta1'))).status, 404, 'not in the version that is not enabled')
  t.equal((await fetch(`${h.url}/apis/certificates.k8s.io/v1/clustertrustbundles`)).status, 200, 'stable ones always')
})

void t.test('a removed built-in version that the configuration names has its warning too', async (t) => {
  const { url } = await startApp(t, {
    flags: ['--resource', 'cronjobs.v1beta1.batch'],
    objects: {
      'cronjobs/default/a': {
        apiVersion: 'batch/v1beta1',
        kind: 'CronJob',
        metadata: { name: 'a', namespace: 'default' },
        spec: {},
        status: {},
      },
    },
  })
  const path = `${url}/apis/batch/v1beta1/namespaces/default/cronjobs/a`
  const warning = '299 - "batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob"'
  t.equal(await warningOf(path), warning)
  t.equal((await fetch(`${path}/status`)).status, 200, 'it has the subresources of its kind')
})

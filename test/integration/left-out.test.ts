/**
 * A resource that is excluded (`--resource=-events`), because its objects are in another etcd: this server would see an
 * empty list, and that would be wrong. It is unknown here, or the API server behind `--passthrough` answers for it.
 */
import t from 'tap'
import { startApiServer } from '../support/api-server-stand-in.js'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { definitionObject } from '../support/definition.js'

const FLAGS = ['--resource=-events,-gadgets.example.com']
const LEFT_OUT = [
  '/api/v1/events',
  '/api/v1/namespaces/a/events',
  '/api/v1/namespaces/a/events/e',
  '/api/v1/events?watch=1',
  '/apis/events.k8s.io/v1/events',
  '/apis/example.com/v1/gadgets',
]
const SERVED = ['/api/v1/pods', '/apis/apps/v1/deployments', '/apis/example.com/v1/widgets']

const definition = (plural: string, kind: string): object =>
  definitionObject({ group: 'example.com', plural, kind, scope: 'Cluster', versions: [{ name: 'v1', storage: true }] })

const OBJECTS = {
  'pods/a/x': pod('x', { namespace: 'a' }),
  'events/a/e': { apiVersion: 'v1', kind: 'Event', metadata: { name: 'e', namespace: 'a' } },
  'apiextensions.k8s.io/customresourcedefinitions/widgets.example.com': definition('widgets', 'Widget'),
  'apiextensions.k8s.io/customresourcedefinitions/gadgets.example.com': definition('gadgets', 'Gadget'),
}

const status = async (url: string): Promise<number> => {
  const answer = await fetch(url)
  await answer.arrayBuffer()
  return answer.status
}

const text = async (url: string): Promise<string> => await (await fetch(url)).text()

async function served({ url }: Pick<AppHarness, 'url'>): Promise<void> {
  for (const path of SERVED) await until(async () => (await status(url + path)) === 200, `${path} is served`)
}

void t.test('an omitted resource is unknown: no path, no discovery, no document, no watch on etcd', async (t) => {
  const h = await startApp(t, { flags: FLAGS, objects: OBJECTS })
  await served(h)
  for (const path of LEFT_OUT) t.equal(await status(h.url + path), 404, path)
  for (const path of ['/api/v1', '/apis/example.com/v1', '/openapi/v3/api/v1', '/openapi/v2', '/readyz?verbose']) {
    const body = await text(h.url + path)
    t.notMatch(body, /"events"|gadgets|events\.k8s\.io|namespaces\/\{namespace\}\/events|cache-events/i, path)
    t.match(body, /pods|widgets/, path)
  }
  t.notMatch(await text(`${h.url}/apis`), 'events.k8s.io')
  t.equal(await status(`${h.url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com`), 200)
  t.same(
    [...h.app.sources].filter(({ resource }) => /events|gadgets/.test(resource.plural)),
    [],
  )
})

void t.test('with --passthrough the API server answers for it: reads, watches and writes', async (t) => {
  const behind = await startApiServer(t)
  const h = await startApp(t, { flags: [...FLAGS, '--passthrough', behind.url], objects: OBJECTS })
  await served(h)
  t.same(
    behind.seen.filter(({ url }) => !url.includes('widgets')),
    [],
  )
  for (const path of LEFT_OUT) {
    t.equal(await text(h.url + path), '{"kind":"Stand"}', path)
    t.equal(behind.last().url, path)
  }
  const written = await fetch(`${h.url}/api/v1/namespaces/a/events`, { method: 'POST', body: '{}' })
  t.equal(await written.text(), '{"kind":"Stand"}')
  t.match(behind.last(), { method: 'POST', url: '/api/v1/namespaces/a/events' })
})

void t.test('over another server it is omitted too, and not requested from the server there', async (t) => {
  const front = await startApp(t, { objects: OBJECTS })
  const h = await startApp(t, { flags: [...FLAGS, '--upstream', front.url] })
  await served(h)
  for (const path of LEFT_OUT) t.equal(await status(h.url + path), 404, path)
  t.same(
    [...h.app.sources].filter(({ resource }) => /events|gadgets/.test(resource.plural)),
    [],
  )
})

void t.test('workers omit it, and the start-up log says so', async (t) => {
  const server = await startServer(t, { flags: [...FLAGS, '--workers', '2'] })
  t.equal(await status(`${server.url}/api/v1/pods`), 200)
  t.equal(await status(`${server.url}/api/v1/events`), 404)
  const omitted = ', without events, events.events.k8s.io, gadgets.example.com\n'
  await until(() => server.printed().includes(omitted), 'the banner says so')
  t.match(server.printed(), 'reads the in-process store')
})

/**
 * What a server behind `--upstream` does with a role that lacks something: right answers, a line in readiness and the
 * log, and no restart when the role is corrected.
 */
import t from 'tap'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'
import { LIST, openScene, reads, setScene } from './permission-scene.js'

void t.test('an object is read with the permission to list, and readiness names the missing one', async (t) => {
  const { requests, lines, permit, answer, later, front } = await setScene(t, reads(LIST, '*'))
  const path = '/api/v1/namespaces/a/pods/x'
  const gets = (): number => requests.filter((request) => request.path === path).length
  for (let i = 0; i < 3; i++) t.match(await answer(path), { status: 200, text: /"name":"x"/ })
  t.equal((await answer('/api/v1/namespaces/a/pods/y')).status, 404, 'an object that does not exist')
  t.equal(gets(), 1, 'a refused get is not repeated at once')
  t.match((await answer('/readyz?verbose')).text, /^\[\*\]upstream-permissions reads are refused: .*"edge" cannot get/m)
  t.equal(lines.filter((line) => line.includes('"permission":"get pods"')).length, 1, 'one line')
  permit(reads(['get', ...LIST], '*'))
  await until(async () => {
    await later()
    await answer(path)
    return gets() > 1 && /^\[\+\]upstream-permissions ok/m.test((await answer('/readyz?verbose')).text)
  }, 'a permission that comes later is noticed')
  const written = front.put('pods/a/z', pod('z', { namespace: 'a' }))
  await until(async () => (await answer('/api/v1/pods')).text.includes(`"${written}"`), 'and the watch goes on')
})

void t.test('a permission that goes is no timeout, and its reason is only for the operator', async (t) => {
  const { permit, answer, later } = await setScene(t, reads(['get', ...LIST], '*'))
  permit()
  for (const path of ['/api/v1/pods', '/api/v1/namespaces/a/pods/x']) {
    await until(async () => (await answer(path)).status !== 200, `${path} is refused`)
    const { status, text } = await answer(path)
    t.equal(status, 503, path)
    t.match(text, /the storage refuses this server's own reads/)
    t.notMatch(text, /edge|127\.0\.0\.1|forbidden/i)
  }
  t.equal((await answer('/api/v1/pods?resourceVersion=0')).status, 200, 'the cache can be read')
  t.match(
    (await answer('/readyz?verbose')).text,
    /^\[\*\]upstream-permissions reads are refused: .*cannot (get|list|watch)/m,
  )
  permit(reads(['get', ...LIST], '*'))
  await until(async () => {
    await later()
    return (await answer('/api/v1/pods')).status === 200
  }, 'it is back')
})

void t.test('with --passthrough the API server answers what this server may not read', async (t) => {
  // From the start, with a request that waits for the first list.
  await openScene(t, [], true)
  const { permit, answer, front } = await openScene(t, [reads(['get', ...LIST], '*')], true)
  const readiness = async (): Promise<string> => (await answer('/readyz?verbose')).text
  await until(async () => (await readiness()).includes('[+]cache-pods ok'), 'pods are cached')
  permit()
  await until(async () => {
    t.equal((await answer('/api/v1/pods')).status, 200)
    return (await readiness()).includes('is forbidden')
  }, 'the permission is gone')
  const written = front.put('pods/a/z', pod('z', { namespace: 'a' }))
  const { status, text } = await answer('/api/v1/pods')
  t.equal(status, 200)
  t.ok(text.includes(`"${written}"`), 'the API server answers, as the caller')
})

void t.test('definitions that could not be read at the start are used as soon as they can be', async (t) => {
  const { back, permit, answer, later, lines } = await setScene(t, reads(['get', ...LIST], 'pods', 'gadgets'))
  const list = '/apis/example.com/v1/gadgets'
  const table = 'application/json;as=Table;v=v1;g=meta.k8s.io'
  const columns = async (): Promise<readonly string[]> => {
    const { status, text } = await answer(list, table)
    if (status !== 200) return []
    const { columnDefinitions } = JSON.parse(text) as { columnDefinitions: readonly { readonly name: string }[] }
    return columnDefinitions.map(({ name }) => name)
  }
  await until(async () => (await columns()).length > 0, 'discovery alone serves them')
  t.notOk((await columns()).includes('Size'))
  t.match(
    (await answer('/readyz?verbose')).text,
    /^\[\*\]cache-customresourcedefinitions\S+ not served: permission-denied/m,
  )
  permit(reads(['get', ...LIST], '*'))
  await until(async () => {
    await later()
    return (await columns()).includes('Size')
  }, 'the definition is followed')
  t.not(back.app.registry.find('example.com', 'v1', 'gadgets')?.definition, null)
  t.same(
    lines.filter((line) => /custom resource is/.test(line)),
    [],
    'nothing is said to be in the way',
  )
})

void t.test('an aggregated API is named as soon as the APIServices can be read', async (t) => {
  const { front, permit, answer, later } = await setScene(t, reads(['get', ...LIST], 'pods'))
  const name = 'v1beta1.metrics.example.com'
  front.put(`apiregistration.k8s.io/apiservices/${name}`, {
    apiVersion: 'apiregistration.k8s.io/v1',
    kind: 'APIService',
    metadata: { name, uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: {
      group: 'metrics.example.com',
      version: 'v1beta1',
      service: { namespace: 'a', name: 's' },
      groupPriorityMinimum: 100,
      versionPriority: 100,
    },
  })
  const path = '/apis/metrics.example.com/v1beta1/things'
  // While the server starts, groups that may still appear answer 503.
  await until(async () => (await answer(path)).status === 404, 'nothing names it')
  t.match((await answer('/readyz?verbose')).text, /^\[\*\]cache-apiservices\S+ not served: permission-denied/m)
  permit(reads(['get', ...LIST], '*'))
  await until(async () => {
    await later()
    return (await answer(path)).status === 503
  }, 'the APIServices are followed')
  t.match((await answer(path)).text, /is served by the service a\/s .*--apiservice/)
})

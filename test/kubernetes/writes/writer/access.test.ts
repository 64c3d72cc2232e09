/** Tests the access checks of every write, on HTTP/1.1 and HTTP/2. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startApp } from '../../../support/app.js'
import { APPLY, clientOf, CONFIG_MAPS, configMap, MERGE } from '../client.js'

const POLICY = `rules:
  - name: editors change what is there
    groups: [editors]
    verbs: [get, list, update, patch]
    apiGroups: ["", coordination.k8s.io, apps]
    resources: [configmaps, leases, deployments, deployments/scale]
  - name: editors evict
    groups: [editors]
    verbs: [create]
    apiGroups: [""]
    resources: [pods/eviction]
  - name: owners do everything
    groups: [owners]
    verbs: ["*"]
    apiGroups: ["*"]
    resources: ["*"]
`
const TOKENS = 'owner-token,owner,1,"owners"\neditor-token,editor,2,"editors"\nstranger-token,stranger,3\n'
const LEASE = '/apis/coordination.k8s.io/v1/namespaces/default/leases/l'
const SCALE = '/apis/apps/v1/namespaces/default/deployments/d'

const POD = '/api/v1/namespaces/default/pods/p'

type Row = readonly [method: string, path: string, body: unknown, headers: Record<string, string>, editor: number]

const ROWS: readonly Row[] = [
  ['POST', CONFIG_MAPS, configMap('new'), {}, 403],
  ['PUT', `${CONFIG_MAPS}/there`, configMap('there', { a: '1' }), {}, 200],
  ['PATCH', `${CONFIG_MAPS}/there`, { data: { b: '1' } }, MERGE, 200],
  ['PATCH', `${CONFIG_MAPS}/other?fieldManager=m`, configMap('other'), APPLY, 403],
  ['PUT', LEASE, { metadata: { name: 'l' } }, {}, 403],
  ['DELETE', `${CONFIG_MAPS}/there`, undefined, {}, 403],
  ['DELETE', CONFIG_MAPS, undefined, {}, 403],
  ['PATCH', `${SCALE}/scale`, { spec: { replicas: 2 } }, MERGE, 200],
  // With a time to live, etcd would delete the object.
  ['PATCH', `${CONFIG_MAPS}/there?ttl=1s`, { data: { b: '2' } }, MERGE, 403],
  ['PUT', `${CONFIG_MAPS}/there?ttl=1s`, configMap('there'), {}, 403],
  ['PATCH', `${CONFIG_MAPS}/there`, { metadata: { annotations: { 'distributary.io/ttl': '1s' } } }, MERGE, 403],
  ['PATCH', `${SCALE}/scale?ttl=1s`, { spec: { replicas: 3 } }, MERGE, 403],
  ['PATCH', `${CONFIG_MAPS}/brief?ttl=1h`, { data: { b: '2' } }, MERGE, 200],
  ['PATCH', `${SCALE}/status`, { status: { replicas: 2 } }, MERGE, 403],
  // Evicting a pod needs no permission to delete it; no pod has that name.
  ['POST', `${POD}/eviction`, { metadata: { name: 'p' } }, {}, 404],
  ['DELETE', POD, undefined, {}, 403],
]

void t.test('each write needs its permission', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'writes-access-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const file = (name: string, text: string): string => {
    const path = join(directory, name)
    writeFileSync(path, text)
    return path
  }
  const h = await startApp(t, {
    flags: [
      '--enable-writes',
      `--token-auth-file=${file('tokens', TOKENS)}`,
      '--authorization-mode=Policy',
      `--authorization-policy-file=${file('policy.yaml', POLICY)}`,
    ],
  })
  const http1 = clientOf(h.url)
  const session = connect(h.url)
  t.teardown(() => session.destroy())
  const http2 = (method: string, path: string, body: unknown, headers: Record<string, string>): Promise<number> =>
    new Promise((resolve, reject) => {
      const stream = session.request({
        ':path': path,
        ':method': method,
        'content-type': 'application/json',
        ...headers,
      })
      stream.on('response', (answer) => resolve(answer[':status'] ?? 0)).on('error', reject)
      stream.resume()
      stream.end(body === undefined ? undefined : JSON.stringify(body))
    })
  const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` })
  const owner = bearer('owner-token')
  await http1('POST', CONFIG_MAPS, configMap('there'), owner)
  await http1('POST', `${CONFIG_MAPS}?ttl=1h`, configMap('brief'), owner)
  await http1('POST', '/apis/apps/v1/namespaces/default/deployments', { metadata: { name: 'd' } }, owner)
  for (const [method, path, body, headers, editor] of ROWS) {
    const what = `${method} ${path}`
    t.equal(
      (await http1(method, path, body, { ...headers, ...bearer('editor-token') })).code,
      editor,
      `editor: ${what}`,
    )
    t.equal(await http2(method, path, body, { ...headers, ...bearer('editor-token') }), editor, `over HTTP/2: ${what}`)
    t.equal(
      (await http1(method, path, body, { ...headers, ...bearer('stranger-token') })).code,
      403,
      `stranger: ${what}`,
    )
    t.equal((await http1(method, path, body, headers)).code, 401, `nobody: ${what}`)
    t.equal(await http2(method, path, body, headers), 401, `nobody over HTTP/2: ${what}`)
  }
  t.equal((await http1('GET', LEASE, undefined, owner)).code, 404, 'nothing was made by who may not make it')
  t.equal(await http2('PUT', LEASE, { metadata: { name: 'l' } }, owner), 201)
  t.equal((await http1('DELETE', CONFIG_MAPS, undefined, owner)).code, 200)
})

void t.test('the error of a server without writes says how to enable them', async (t) => {
  const h = await startApp(t)
  const answer = await clientOf(h.url)('POST', CONFIG_MAPS, configMap('a'))
  t.match(answer.body, { code: 405, reason: 'MethodNotAllowed', message: /--enable-writes/ })
  const { text } = await clientOf(h.url)('GET', '/api/v1')
  t.notMatch(text, /"create"/)
})

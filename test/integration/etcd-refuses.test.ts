/**
 * An etcd that answers and refuses: a wrong password, a user without permissions, a member that has not been promoted.
 * A server that can read nothing must not be ready, or a rollout would replace every replica that works; and a client
 * must not get a 404 for a resource that exists.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { definitionObject } from '../support/definition.js'
import { type EtcdProcess, startEtcd, startLearner } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { LightWatcher } from '../support/light-watcher.js'
import { pod } from '../support/pod.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const base64 = (text: string): string => Buffer.from(text).toString('base64')

const OBJECTS = {
  '/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com': definitionObject({
    group: 'example.com',
    plural: 'widgets',
    kind: 'Widget',
    scope: 'Cluster',
    versions: [{ name: 'v1', storage: true }],
  }),
  '/registry/pods/a/x': pod('x', { namespace: 'a' }),
}
const PATHS = ['/api/v1/pods', '/apis/example.com/v1/widgets']

/** @param reads whether the user may read Kubernetes' prefix. */
async function enableAuth(etcd: EtcdProcess, reads: boolean): Promise<void> {
  const root = { name: 'root', password: 'root' }
  await etcd.call('auth/user/add', root)
  await etcd.call('auth/role/add', { name: 'root' })
  await etcd.call('auth/user/grant', { user: 'root', role: 'root' })
  await etcd.call('auth/user/add', { name: 'reader', password: 'right' })
  await etcd.call('auth/role/add', { name: 'reader' })
  const prefix = reads ? 'registry' : 'other'
  const perm = { permType: 'READ', key: base64(`/${prefix}/`), range_end: base64(`/${prefix}0`) }
  await etcd.call('auth/role/grant', { name: 'reader', perm })
  await etcd.call('auth/user/grant', { user: 'reader', role: 'reader' })
  await etcd.call('auth/enable', {})
}

async function answer(url: string): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(url)
  return { status: response.status, text: await response.text() }
}

void t.test('with a wrong password a server is not ready, and it becomes ready with the right one', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-refused-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const file = join(directory, 'password')
  writeFileSync(file, 'wrong')
  const etcd = await startEtcd(t)
  await new EtcdWriter([etcd]).commit(OBJECTS)
  await enableAuth(etcd, true)
  const flags = [`--etcd-servers=${etcd.url}`, '--etcd-username=reader', `--etcd-password-file=${file}`]
  const servers = [
    await startServer(t, { flags, ready: false }),
    await startServer(t, { flags: [...flags, '--workers=2'], ready: false }),
  ]
  for (const { url } of servers) {
    await until(
      async () => (await answer(`${url}/readyz?verbose`)).text.includes('definitions'),
      'it has looked for what there is',
    )
    for (let i = 0; i < 10; i++) {
      for (const path of PATHS) t.match((await answer(url + path)).status, /^(429|503)$/, path)
      t.equal((await answer(`${url}/readyz`)).status, 500)
    }
  }
  await until(() => servers[0]!.log().includes('authentication failed'), 'the log says why')
  writeFileSync(file, 'right')
  for (const { url } of servers) {
    await until(async () => (await answer(`${url}/readyz`)).status === 200, 'it is ready')
    for (const path of PATHS) t.equal((await answer(url + path)).status, 200, path)
  }
})

void t.test('a server without read permission is not ready', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-refused-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const file = join(directory, 'password')
  writeFileSync(file, 'right')
  const etcd = await startEtcd(t)
  await new EtcdWriter([etcd]).commit(OBJECTS)
  await enableAuth(etcd, false)
  const flags = [`--etcd-servers=${etcd.url}`, '--etcd-username=reader', `--etcd-password-file=${file}`]
  const server = await startServer(t, { flags, ready: false })
  const { url } = server
  await until(() => server.log().includes('resource cannot be listed'), 'etcd has refused a list')
  await until(async () => {
    const { text } = await answer(`${url}/readyz?verbose`)
    return text.includes('[-]cache-pods failed: permission-denied') && !text.includes('not listed yet')
  }, 'all are refused')
  t.equal((await answer(`${url}/readyz`)).status, 500)
})

void t.test(
  'a permission that is revoked while a server runs is reported once, and affects only its prefix',
  async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'distributary-refused-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const file = join(directory, 'password')
    writeFileSync(file, 'right')
    const etcd = await startEtcd(t)
    await new EtcdWriter([etcd]).commit({ ...OBJECTS, '/config/flags/a': '1' })
    const config = { permType: 'READ', key: base64('/config/'), range_end: base64('/config0') }
    const registry = { permType: 'READ', key: base64('/registry/'), range_end: base64('/registry0') }
    await enableAuth(etcd, true)
    const { token } = await etcd.call('auth/authenticate', { name: 'root', password: 'root' })
    const asRoot = (path: string, body: object) => etcd.call(path, body, token as string)
    await asRoot('auth/role/grant', { name: 'reader', perm: config })
    const options = [
      `--etcd-servers=${etcd.url}`,
      '--etcd-username=reader',
      `--etcd-password-file=${file}`,
      '--resource=flags=/config/flags/',
      '--kubernetes-resources=always',
    ]
    const server = await startServer(t, { flags: options })
    const apiServer = createServer((_request, response) => response.writeHead(404).end('{}')).listen(0, '127.0.0.1')
    t.teardown(() => apiServer.close())
    await once(apiServer, 'listening')
    const { port } = apiServer.address() as AddressInfo
    const policy = join(directory, 'policy.yaml')
    const rule = '{groups: ["system:unauthenticated"], verbs: ["*"], apiGroups: ["*"], resources: ["*"]}'
    writeFileSync(policy, `rules: [${rule}]`)
    const forwarding = await startServer(t, {
      flags: [
        ...options,
        `--passthrough=http://127.0.0.1:${port}`,
        '--anonymous-auth',
        '--authorization-mode=Policy',
        `--authorization-policy-file=${policy}`,
      ],
    })
    const path = '/apis/distributary.io/v1/flags'
    const flags = `${server.url}${path}`
    const pods = `${server.url}/api/v1/pods`
    const watcher = new LightWatcher(`${flags}?watch=1`)
    await watcher.until(({ revisions }) => revisions.length === 1)
    const lines = (text: string): number => server.log().split(text).length - 1

    const revoke = async ({ key, range_end }: typeof config): Promise<unknown> =>
      await asRoot('auth/role/revoke', { role: 'reader', key, range_end })
    const readiness = async (): Promise<string> => (await answer(`${server.url}/readyz?verbose`)).text
    t.match(await readiness(), '[+]etcd-permissions ok')
    await revoke(registry)
    await until(() => lines('etcd refuses reads that it allowed before') === 1, 'the log says so without a request')
    for (let i = 0; i < 5; i++) {
      t.equal((await answer(flags)).status, 200, 'the other prefix can be read')
      t.equal((await answer(`${flags}?resourceVersion=0`)).status, 200)
    }
    t.match(
      await readiness(),
      /^\[\*]etcd-permissions reads are refused: \/registry\/.*: etcdserver: permission denied$/m,
    )
    t.equal((await answer(`${server.url}/readyz`)).status, 200, 'the caches can be read')
    await revoke(config)
    await until(async () => (await answer(flags)).status === 503, 'no consistent list')
    for (const url of ['', '/a'].map((name) => `${forwarding.url}${path}${name}`)) {
      t.equal((await answer(url)).status, 503, 'an API server behind it knows nothing of flags')
    }
    t.equal((await answer(`${forwarding.url}/api/v1/pods`)).status, 404, 'but it does of pods')
    for (const path of [flags, pods]) t.match((await answer(path)).text, /the storage refuses this server's own reads/)
    await asRoot('kv/put', { key: base64('/config/flags/b'), value: base64('2') })
    await watcher.until(({ revisions }) => revisions.length === 2)
    t.equal(lines('etcd refuses reads that it allowed before'), 1)

    for (const perm of [registry, config]) await asRoot('auth/role/grant', { name: 'reader', perm })
    await until(() => lines('etcd allows reads again') === 1, 'the log says that it is over')
    await until(async () => (await answer(flags)).status === 200, 'lists are consistent again')
    t.match(await readiness(), '[+]etcd-permissions ok')
    t.equal((await answer(pods)).status, 200)
    watcher.destroy()
  },
)

for (const workers of [1, 2]) {
  void t.test(
    `a role that lost a prefix ends its watches when etcd is reconnected, --workers=${workers}`,
    async (t) => {
      const directory = mkdtempSync(join(tmpdir(), 'distributary-refused-'))
      t.teardown(() => rmSync(directory, { recursive: true, force: true }))
      const file = join(directory, 'password')
      writeFileSync(file, 'right')
      const etcd = await startEtcd(t)
      await new EtcdWriter([etcd]).commit({ '/config/flags/a': '1' })
      const perm = { permType: 'READ', key: base64('/config/'), range_end: base64('/config0') }
      await enableAuth(etcd, true)
      const asRoot = async (path: string, body: object): Promise<Readonly<Record<string, unknown>>> => {
        const { token } = await etcd.call('auth/authenticate', { name: 'root', password: 'root' })
        return await etcd.call(path, body, token as string)
      }
      await asRoot('auth/role/grant', { name: 'reader', perm })
      const user = ['--etcd-username=reader', `--etcd-password-file=${file}`]
      const server = await startServer(t, {
        flags: [`--etcd-servers=${etcd.url}`, ...user, '--resource=flags=/config/flags/', `--workers=${workers}`],
        isSurrounded: false,
      })
      const flags = `${server.url}/apis/distributary.io/v1/flags`
      const watchAfter = (revision: number): string => `${flags}?watch=1&resourceVersion=${revision}`
      const statusOf = async (url: string): Promise<number> => {
        const response = await fetch(url)
        await response.body?.cancel()
        return response.status
      }
      const watchers = Array.from({ length: 8 }, () => new LightWatcher(`${flags}?watch=1&allowWatchBookmarks=1`))
      await Promise.all(watchers.map((watcher) => watcher.until(({ revisions }) => revisions.length > 0)))
      await asRoot('auth/role/revoke', { role: 'reader', key: perm.key, range_end: perm.range_end })
      await etcd.restart()
      await until(() => watchers.every(({ end }) => end !== 'open'), 'every process ends its watches')
      for (const { end, error } of watchers) t.same([end, error], ['eof', ''])
      const last = watchers[0]!.revisions.at(-1)!
      for (let i = 0; i < 8; i++) t.equal(await statusOf(watchAfter(last)), 429)
      t.match(
        (await answer(`${server.url}/readyz?verbose`)).text,
        /^\[\*]cache-flags\S+ not watched: permission-denied/m,
      )
      const put = await asRoot('kv/put', { key: base64('/config/flags/b'), value: base64('2') })
      const written = Number((put['header'] as { readonly revision: string }).revision)
      await asRoot('auth/role/grant', { name: 'reader', perm })
      await until(async () => (await statusOf(watchAfter(last))) === 200, 'it may watch again', 90_000)
      const resumed = new LightWatcher(watchAfter(last))
      await resumed.until(({ revisions }) => revisions.length > 0)
      t.same(resumed.revisions, [written])
      resumed.destroy()
      const relists = [...(await server.metrics())].filter(([name]) =>
        /^distributary_feed_relists_total.*"flags"/.test(name),
      )
      t.notOk(
        relists.some(([, count]) => count > 0),
        'nothing was listed again',
      )
    },
  )
}

void t.test('a server beside a member that is not a voter yet waits for its promotion', async (t) => {
  const etcd = await startEtcd(t)
  await new EtcdWriter([etcd]).commit(OBJECTS)
  const { member, id } = await startLearner(t, etcd)
  const { url } = await startServer(t, { flags: [`--etcd-servers=${member.url}`], ready: false })
  for (let i = 0; i < 10; i++) {
    for (const path of PATHS) t.match((await answer(url + path)).status, /^(429|503)$/, path)
    t.equal((await answer(`${url}/readyz`)).status, 500)
  }
  await until(() => etcd.call('cluster/member/promote', { ID: id }).then(() => true), 'the member votes')
  await until(async () => (await answer(`${url}/readyz`)).status === 200, 'it is ready', 25_000)
  for (const path of PATHS) t.equal((await answer(url + path)).status, 200, path)
})

void t.test(
  'a full etcd refuses writes in its own words, as behind the API server, and can still be read',
  async (t) => {
    const etcd = await startEtcd(t, { flags: ['--quota-backend-bytes=2000000'] })
    const namespace = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'a', uid: 'a' } }
    await new EtcdWriter([etcd]).commit({ ...OBJECTS, '/registry/namespaces/a': namespace })
    const { url } = await startServer(t, { flags: [`--etcd-servers=${etcd.url}`, '--enable-writes'] })
    const path = `${url}/api/v1/namespaces/a/configmaps`
    const watcher = new LightWatcher(`${path}?watch=1`)
    t.teardown(() => watcher.destroy())
    const headers = { 'content-type': 'application/json' }
    const create = async (name: string): Promise<Response> => {
      const object = { metadata: { name }, data: { value: 'x'.repeat(500_000) } }
      return await fetch(path, { method: 'POST', headers, body: JSON.stringify(object) })
    }
    let refused = await create('m0')
    let count = 0
    for (; refused.status === 201; count++) refused = await create(`m${count + 1}`)
    t.equal(refused.status, 500)
    t.equal(refused.headers.get('retry-after'), null)
    t.same(await refused.json(), {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: 'etcdserver: mvcc: database space exceeded',
      code: 500,
    })
    const { items } = (await (await fetch(path)).json()) as { items: object[] }
    // etcd checks its quota before it proposes a write, and again when it applies it: there it writes and refuses.
    t.ok([count, count + 1].includes(items.length), `${items.length} objects after ${count} writes`)
    await watcher.until(({ revisions }) => revisions.length === items.length)
  },
)

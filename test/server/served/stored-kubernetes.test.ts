/** A server with declared prefixes serves Kubernetes resources only where Kubernetes stores something. */
import { execFile } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { load } from '../../../src/server/config/load.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { UpstreamError, type UpstreamReader } from '../../../src/engine/upstream/upstream.js'
import { StoredKubernetes } from '../../../src/server/served/stored-kubernetes.js'
import { silentLogger } from '../../../src/support/log.js'
import { startEtcd } from '../../support/etcd-process.js'
import { kubectlBinary } from '../../support/kubectl.js'
import { pod } from '../../support/pod.js'
import { runServer, startServer } from '../../support/server-process.js'
import { until } from '../../support/until.js'
import { nextTurn, VirtualClock } from '../../support/virtual-clock.js'

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const POD = base64('/registry/pods/default/a')
const PREFIXES = ['--resource=flags=/config/flags/', '--resource=routes=/config/routes/']

void t.test('only the declared prefixes are served until Kubernetes stores an object', async (t) => {
  const etcd = await startEtcd(t)
  for (const workers of ['1', '2']) {
    const server = await startServer(t, { flags: [`--etcd-servers=${etcd.url}`, `--workers=${workers}`, ...PREFIXES] })
    const only =
      'flags.distributary.io, routes.distributary.io and nothing else until something is stored under /registry/'
    await until(() => server.printed().includes(`and reads ${etcd.url}, to serve ${only}`), 'the banner says so')
    await until(() => server.printed().includes(`kubectl -s ${server.url} get flags.distributary.io\n`), 'the example')
    const get = async (path: string): Promise<{ status: number; text: string }> => {
      const response = await fetch(server.url + path)
      return { status: response.status, text: await response.text() }
    }
    t.equal((await get('/api/v1/pods')).status, 404)
    t.equal((await get('/apis/distributary.io/v1/flags')).status, 200)
    t.notMatch((await get('/')).text, /apps|rbac/)
    t.match(await get('/apis'), { text: /distributary\.io/ })
    const series = await server.metrics()
    t.ok(series.size < 400, `${series.size} idle series`)
    t.notOk([...series.keys()].some((name) => name.includes('resource="pods"')))
    t.notOk(
      [...series.keys()].some((name) => name.startsWith('distributary_fleet_')),
      'no fleet has no series',
    )
    const home = mkdtempSync(join(tmpdir(), 'kubectl-'))
    const options = { env: { ...process.env, HOME: home, KUBECONFIG: '' } }
    const { stdout } = await promisify(execFile)(
      kubectlBinary,
      ['-s', server.url, 'api-resources', '-o', 'name'],
      options,
    )
    // Every server is asked for permissions.
    t.same(
      stdout
        .trim()
        .split('\n')
        .filter((name) => !/reviews\./.test(name)),
      ['flags.distributary.io', 'routes.distributary.io'],
    )

    await etcd.call('kv/put', { key: POD, value: base64(JSON.stringify(pod('a'))) })
    await until(async () => (await get('/api/v1/pods')).text.includes('"a"'), 'it is served')
    t.match((await get('/')).text, /apps/)
    t.equal((await get('/apis/distributary.io/v1/flags')).status, 200)
    await server.kill()
    await etcd.call('kv/deleterange', { key: POD })
  }
})

void t.test('an option decides whether they are served, whatever is stored', async (t) => {
  const etcd = await startEtcd(t)
  const always = await startServer(t, {
    flags: [`--etcd-servers=${etcd.url}`, '--kubernetes-resources=always', ...PREFIXES],
  })
  t.equal((await fetch(`${always.url}/api/v1/pods`)).status, 200)
  await etcd.call('kv/put', { key: POD, value: base64(JSON.stringify(pod('a'))) })
  const never = await startServer(t, {
    flags: [`--etcd-servers=${etcd.url}`, '--kubernetes-resources=never', ...PREFIXES],
  })
  t.equal((await fetch(`${never.url}/api/v1/pods`)).status, 404)
  const only = 'to serve flags.distributary.io, routes.distributary.io and nothing else'
  await until(() => never.printed().includes(only), 'the banner says so')
  const refused = await runServer(t, [`--etcd-servers=${etcd.url}`, '--kubernetes-resources=never'])
  t.match(refused, { code: 2, stderr: /nothing else is left to serve/ })
})

void t.test('a reload that names a Kubernetes resource serves it, as at the start', async (t) => {
  const etcd = await startEtcd(t)
  const file = join(t.testdir(), 'config.yaml')
  const declared = 'resources:\n- name: flags\n  prefix: /config/flags/\n'
  writeFileSync(file, declared)
  const server = await startServer(t, { flags: ['--config', file, `--etcd-servers=${etcd.url}`] })
  const status = async (path: string): Promise<number> => (await fetch(server.url + path)).status
  t.equal(await status('/api/v1/configmaps'), 404)
  writeFileSync(file, `${declared}- name: configmaps\n`)
  process.kill(server.pid, 'SIGHUP')
  await until(async () => (await status('/api/v1/configmaps')) === 200, 'it is served')
  writeFileSync(file, declared)
  process.kill(server.pid, 'SIGHUP')
  await until(async () => (await status('/api/v1/configmaps')) === 404, 'and no longer when it is not named')
})

void t.test('only a server of declared prefixes over etcd, without further requirements, waits for Kubernetes', (t) => {
  const waits = (...flags: readonly string[]): boolean => {
    const loaded = load(['--etcd-servers=http://a:1', ...flags], {}, () => 'content')
    return loaded.kind === 'run' && loaded.config.awaitsKubernetes
  }
  t.ok(waits(...PREFIXES))
  t.ok(waits(...PREFIXES, '--resource=-events'))
  t.notOk(waits(...PREFIXES, '--enable-writes'), 'the first object may be written here')
  t.notOk(waits())
  t.notOk(waits(...PREFIXES, '--etcd-prefix=/registry'))
  t.notOk(waits(...PREFIXES, '--resource=secrets'))
  t.notOk(waits(...PREFIXES, '--kubernetes-resources=always'))
  t.notOk(waits(...PREFIXES, '--authorization-mode=RBAC'))
  t.notOk(waits(...PREFIXES, '--nats-servers=nats://a:1'))
  t.notOk(waits(...PREFIXES, '--passthrough=https://a:1', '--authorization-mode=AlwaysAllow'))
  const inProcess = load(PREFIXES, {}, () => 'content')
  t.notOk(inProcess.kind === 'run' && inProcess.config.awaitsKubernetes, 'the in-process store has a cluster in it')
  t.end()
})

void t.test('while etcd does not answer, no client gets a 404', async (t) => {
  const clock = new VirtualClock()
  let answer: () => Promise<{ keyValues: readonly object[] }> = () =>
    Promise.reject(new UpstreamError('unavailable', 'etcd is away'))
  let found = 0
  const kubernetes = new StoredKubernetes({
    upstream: { read: () => answer() as ReturnType<UpstreamReader['read']> },
    prefix: keyFromText('/registry/'),
    clock,
    logger: silentLogger,
    onFound: () => found++,
  })
  t.teardown(() => kubernetes.stop())
  const pass = async (): Promise<void> => {
    clock.advance(1_000)
    for (let i = 0; i < 5; i++) await nextTurn()
  }
  kubernetes.start()
  await pass()
  t.equal(kubernetes.problem, 'etcd is away')
  t.notOk(kubernetes.isRuledOut, 'something may be stored')
  answer = () => Promise.reject(new UpstreamError('permission-denied', 'no'))
  await pass()
  t.equal(kubernetes.problem, null, 'what may not be read cannot be served')
  answer = () => Promise.resolve({ keyValues: [] })
  await pass()
  t.notOk(kubernetes.isFound)
  t.ok(kubernetes.isRuledOut)
  answer = () => Promise.resolve({ keyValues: [{ modRevision: toRevision(2) }] })
  await pass()
  await pass()
  t.ok(kubernetes.isFound)
  t.notOk(kubernetes.isRuledOut)
  t.equal(found, 1)
})

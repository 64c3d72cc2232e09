/** The project's main purpose, end to end: a real etcd, the server in its own process, kubectl and many watchers. */
import { execFile, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { assertGuarantees } from '../guarantees/validate.js'
import { pod } from '../support/pod.js'
import { recordEtcdHistory } from '../support/etcd-history.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter, type Written } from '../support/etcd-writer.js'
import { kubectlBinary } from '../support/kubectl.js'
import { LightWatcher } from '../support/light-watcher.js'
import { runServer, type ServerProcess, startServer, total } from '../support/server-process.js'
import { until } from '../support/until.js'
import { type Target, WatchRecorder } from '../support/watch-recorder.js'

const pods: Target = { groupVersionPath: '/api/v1', plural: 'pods', prefix: keyFromText('/registry/pods/') }
const WATCHERS = 1_000
const BURST = 1_000

/** 2,000 pods in 20 namespaces on 50 nodes. */
function cluster(): Map<string, Written> {
  const objects = new Map<string, Written>()
  for (let n = 0; n < 50; n++) {
    objects.set(`/registry/minions/n${n}`, {
      kind: 'Node',
      apiVersion: 'v1',
      metadata: { name: `n${n}`, uid: `node-${n}` },
      status: { conditions: [{ type: 'Ready', status: 'True' }] },
    })
  }
  for (let i = 0; i < 2_000; i++) {
    const namespace = `team-${i % 20}`
    const name = `web-${i}`
    const labels = { app: i % 3 === 0 ? 'web' : 'db' }
    objects.set(
      `/registry/pods/${namespace}/${name}`,
      pod(name, { namespace, labels, spec: { nodeName: `n${i % 50}` } }),
    )
  }
  return objects
}

interface Scene {
  readonly etcd: EtcdProcess
  readonly writer: EtcdWriter
  readonly server: ServerProcess
}

async function startScene(t: Test, flags: readonly string[] = []): Promise<Scene> {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  await writer.fill(cluster())
  const server = await startServer(t, { flags: ['--etcd-servers', etcd.url, ...flags] })
  return { etcd, writer, server }
}

void t.test('kubectl reads and watches 2,000 pods that another program wrote', async (t) => {
  const { etcd, server } = await startScene(t)
  const home = await mkdtemp(join(tmpdir(), 'distributary-kubectl-'))
  t.teardown(() => rm(home, { recursive: true, force: true }))
  const environment = { ...process.env, HOME: home, KUBECONFIG: '' }
  const kubectl = (...args: string[]): Promise<{ out: string; err: string; code: number }> =>
    new Promise((resolve) => {
      const options = { env: environment, maxBuffer: 64 * 1024 * 1024, timeout: 30_000 }
      execFile(kubectlBinary, ['-s', server.url, ...args], options, (error, out, err) => {
        resolve({ out, err, code: error === null ? 0 : Number(error.code ?? -1) })
      })
    })
  const rows = ({ out }: { out: string }): string[] => out.trim().split('\n')

  const all = await kubectl('get', 'pods', '-A')
  t.equal(rows(all).length, 2_001, 'a heading and every pod')
  t.match(rows(all)[0], /^NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE/)
  const chosen = await kubectl('get', 'pods', '-n', 'team-3', '-l', 'app=web')
  const expected = Array.from({ length: 2_000 }, (_, i) => i).filter((i) => i % 20 === 3 && i % 3 === 0)
  t.equal(rows(chosen).length - 1, expected.length)
  const onNode = await kubectl('get', 'pods', '-A', '--field-selector', 'spec.nodeName=n7', '-o', 'name')
  t.equal(rows(onNode).length, 40)
  const yaml = await kubectl('get', 'pod', '-n', 'team-7', 'web-7', '-o', 'yaml')
  t.match(yaml.out, /kind: Pod\n/)
  t.match(yaml.out, /resourceVersion: "\d+"/)
  t.equal(rows(await kubectl('get', 'nodes')).length, 51)
  t.match((await kubectl('get', 'pods', '-n', 'nowhere')).err, 'No resources found')
  t.match((await kubectl('api-resources')).out, /^pods +po +v1 +true +Pod$/m)
  t.match((await kubectl('explain', 'pods')).out, 'KIND:')
  const unknown = await kubectl('get', 'gadgets')
  t.equal(unknown.code, 1)
  t.match(unknown.err, `the server doesn't have a resource type "gadgets"`)
  for (const { err } of [all, chosen, onNode, yaml, unknown]) t.notMatch(err, /goroutine|panic/)

  const child = spawn(kubectlBinary, ['-s', server.url, 'get', 'pods', '-n', 'team-1', '-w', '--watch-only'], {
    env: environment,
  })
  t.teardown(() => void child.kill('SIGKILL'))
  let seen = ''
  let onSeen = (): void => {}
  child.stdout.on('data', (chunk: Buffer) => {
    seen += chunk.toString()
    onSeen()
  })
  // The watch is open when the server counts it; kubectl prints nothing before the first event.
  while (total(await server.metrics(), 'distributary_broadcast_watchers') === 0) await tick()
  const delays: number[] = []
  for (let i = 0; i < 5; i++) {
    const name = `fresh-${i}`
    const arrived = new Promise<number>((resolve) => {
      onSeen = () => {
        if (seen.includes(name)) resolve(performance.now())
      }
    })
    const value = JSON.stringify(pod(name, { namespace: 'team-1' }))
    await run('etcdctl', ['--endpoints', etcd.url, 'put', `/registry/pods/team-1/${name}`, value])
    const writtenAt = performance.now()
    delays.push((await arrived) - writtenAt)
  }
  t.equal(delays.length, 5)
  t.comment(`what etcdctl wrote is in kubectl get -w after ${delays.map(Math.round).join(', ')} ms`)
})

void t.test(`${WATCHERS} watchers share one watch on etcd, and all receive a burst of ${BURST} events`, async (t) => {
  const { etcd, writer, server } = await startScene(t)
  const control = await recordEtcdHistory(t, etcd)
  const watchersOf = async (): Promise<number> =>
    (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? Number.NaN
  const before = await watchersOf()
  const start = await writer.put('/registry/pods/team-0/first', pod('first', { namespace: 'team-0' }))
  const url = `${server.url}/api/v1/pods?watch=1&resourceVersion=${start}`
  const recorder = new WatchRecorder({ url: server.url })
  t.teardown(() => recorder.close())
  const watchers = Array.from({ length: WATCHERS }, () => new LightWatcher(url))
  t.teardown(() => watchers.forEach((watcher) => watcher.destroy()))
  await Promise.all(watchers.map((watcher) => watcher.until(({ status }) => status === 200)))
  for (let i = 0; i < 5; i++) recorder.watch({ target: pods, resourceVersion: String(start) })
  recorder.watch({ target: pods, sendInitialEvents: true })
  recorder.watch({ target: pods, namespace: 'team-1', resourceVersion: String(start) })
  await until(async () => (await watchersOf()) === before, "etcd's own count of watchers is as before")

  const expected: number[] = []
  const lane = async (first: number): Promise<void> => {
    for (let i = first; i < BURST; i += 8) {
      const namespace = `team-${i % 20}`
      const value = pod(`burst-${i}`, { namespace, spec: { filler: 'x'.repeat(300) } })
      expected.push(await writer.put(`/registry/pods/${namespace}/burst-${i}`, value))
    }
  }
  await Promise.all(Array.from({ length: 8 }, (_, first) => lane(first)))
  expected.sort((a, b) => a - b)
  const last = expected.at(-1)!
  await Promise.all(watchers.map((watcher) => watcher.until(({ revisions }) => revisions.at(-1) === last)))
  const wrong = watchers.filter(({ revisions }) => revisions.join() !== expected.join())
  t.equal(wrong.length, 0, 'each has every event, in order, none twice, none missing')
  await until(async () => (await watchersOf()) === before, "etcd's own count of watchers is as before")
  await Promise.all(
    recorder.watches
      .filter(({ request }) => request.namespace === undefined)
      .map((w) => w.untilRevision(last as never)),
  )
  await recorder.list({ target: pods })
  const reference = await control.finish()
  assertGuarantees(t, recorder.history(writer.writes), reference, { settledRevision: last as never })
})

void t.test('bad input gets one clear error, and other requests are still served', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  await writer.commit({
    '/registry/pods/default/good': pod('good'),
    '/registry/configmaps/default/odd': 'this is not JSON',
    '/registry/pods/default/two/parts': 'not the name of an object',
    '/registry/secrets/default/sealed': 'k8s:enc:aescbc:v1:key1:0123456789',
    '/flags/colour': 'blue',
  })
  const server = await startServer(t, {
    flags: ['--etcd-servers', etcd.url, '--resource', 'flags=/flags/', '--resource', 'secrets'],
  })
  const refused: readonly [path: string, code: number, reason: string, message: RegExp][] = [
    ['/api/v1/gadgets', 404, 'NotFound', /could not find the requested resource/],
    ['/api/v1/pods?labelSelector=a%20b', 400, 'BadRequest', /'b'.*character 3/],
    ['/api/v1/pods?watch=1&labelSelector=%3D%3D', 400, 'BadRequest', /./],
    ['/api/v1/pods?fieldSelector=nonsense', 400, 'BadRequest', /nonsense/],
    ['/api/v1/pods?resourceVersion=abc', 400, 'BadRequest', /invalid resource version.*abc/],
    ['/api/v1/pods?watch=1&resourceVersion=-3', 400, 'BadRequest', /invalid resource version/],
    ['/api/v1/pods?watch=1&timeoutSeconds=soon', 400, 'BadRequest', /timeoutSeconds/],
    ['/api/v1/pods?continue=nonsense', 400, 'BadRequest', /continue/],
    ['/api/v1/pods?limit=many', 400, 'BadRequest', /limit/],
    ['/api/v1/namespaces/default/pods/nobody', 404, 'NotFound', /pods "nobody" not found/],
    ['/api/v1/namespaces/default/secrets/sealed', 501, 'NotImplemented', /encrypted at rest/],
    ['/api/v1/configmaps', 501, 'NotImplemented', /neither a JSON object with metadata nor protobuf/],
  ]
  for (const [path, code, reason, message] of refused) {
    const response = await fetch(`${server.url}${path}`)
    const body = (await response.json()) as { message: string }
    t.equal(response.status, code, path)
    t.match(body, { kind: 'Status', status: 'Failure', reason, code, message }, path)
  }
  const list = await fetch(`${server.url}/api/v1/pods`)
  const { items } = (await list.json()) as { items: { metadata: { name: string } }[] }
  t.same(
    items.map(({ metadata }) => metadata.name),
    ['good'],
    'what can be read is served',
  )
  t.match(
    list.headers.get('warning'),
    /^299 - "1 stored objects of pods cannot be served"/,
    'what cannot be served does not vanish in silence',
  )
  t.match(server.log(), 'value cannot be served', 'it is logged')
  const flags = await fetch(`${server.url}/apis/distributary.io/v1/flags/colour`)
  t.match(await flags.json(), { kind: 'Flag', metadata: { name: 'colour' } })
  t.match(await (await fetch(`${server.url}/readyz`)).text(), 'ok')
})

void t.test('errors that no retry can fix exit with 2; a taken port or a missing file with 1', async (t) => {
  for (const [flags, said] of [
    [['--wacth-cache-size', '5'], /--wacth-cache-size/],
    [['--port', 'ninety'], /--port/],
    [['--etcd-servers', 'localhost'], /--etcd-servers/],
    [['--resource', 'nonsense'], /nonsense/],
    [['--bind-address', '0.0.0.0'], /./],
  ] as const) {
    const { code, stderr } = await runServer(t, flags)
    t.equal(code, 2, flags.join(' '))
    t.match(stderr, said, flags.join(' '))
    t.notMatch(stderr, /\n {4}at /, 'no stack trace')
  }
  const folder = t.testdir({ 'policy.yaml': 'rules: 5\n' })
  const missing = join(folder, 'missing')
  const policy = ['--authorization-mode=Policy', '--token-auth-file', join(folder, 'tokens.csv')]
  for (const [flags, expected] of [
    [['--config', missing, '--require-upstream'], 1],
    [['--token-auth-file', missing], 1],
    [['--token-auth-file', missing, '--port', 'ninety'], 2],
    [[...policy, '--authorization-policy-file', join(folder, 'policy.yaml')], 1],
  ] as const) {
    const { code, stderr } = await runServer(t, flags)
    t.equal(code, expected, `${flags.join(' ')}: ${stderr}`)
  }
  writeFileSync(join(folder, 'tokens.csv'), 'token,ann,1\n')
  for (const workers of ['1', '2']) {
    const flags = [...policy, '--authorization-policy-file', join(folder, 'policy.yaml'), `--workers=${workers}`]
    const { code, stderr } = await runServer(t, flags)
    t.equal(code, 2, `an invalid policy with ${workers} workers: ${stderr}`)
  }
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void taken.close())
  const { port } = taken.address() as { port: number }
  // Bun has no workers.
  for (const workers of process.env['TEST_SERVER_RUNTIME'] === undefined ? ['1', '2'] : ['1']) {
    const { code, stderr } = await runServer(t, ['--port', String(port), `--workers=${workers}`])
    t.equal(code, 1, `a taken port with ${workers} workers`)
    t.match(stderr, /EADDRINUSE|in use/)
  }
})

void t.test(
  'without a reachable etcd the server logs that, is not ready, and serves once etcd is reachable',
  async (t) => {
    const etcd = await startEtcd(t)
    await etcd.kill()
    const server = await startServer(t, { flags: ['--etcd-servers', etcd.url], ready: false })
    const ready = await fetch(`${server.url}/readyz`)
    t.equal(ready.status, 500)
    t.match(await ready.text(), 'not listed yet')
    const early = await fetch(`${server.url}/api/v1/pods`)
    t.equal(early.status, 429)
    t.ok(Number(early.headers.get('retry-after')) >= 1)
    await etcd.restart()
    await new EtcdWriter([etcd]).put('/registry/pods/default/a', pod('a'))
    let status = 0
    for (const end = Date.now() + 30_000; status !== 200 && Date.now() < end; await tick(50)) {
      status = (await fetch(`${server.url}/readyz`)).status
    }
    t.equal(status, 200, 'ready by itself')
    const late = (await (await fetch(`${server.url}/api/v1/pods`)).json()) as { items: unknown[] }
    t.equal(late.items.length, 1)
    t.match(server.log(), /"level":40/)
  },
)

void t.test('SIGTERM ends watches with a last bookmark, spread over a second, and exits with 0', async (t) => {
  const { etcd, writer, server } = await startScene(t, [
    '--shutdown-watch-termination-grace-period=4s',
    '--audit-log-path=-',
  ])
  const control = await recordEtcdHistory(t, etcd)
  const recorder = new WatchRecorder({ url: server.url })
  t.teardown(() => recorder.close())
  const start = await writer.put('/registry/pods/team-0/first', pod('first', { namespace: 'team-0' }))
  for (let i = 0; i < 240; i++) recorder.watch({ target: pods, resourceVersion: String(start) })
  const second = await writer.put('/registry/pods/team-0/second', pod('second', { namespace: 'team-0' }))
  await Promise.all(recorder.watches.map((watch) => watch.untilRevision(second)))
  const exiting = server.kill('SIGTERM')
  await until(async () => {
    const [watch, readiness] = await Promise.all([
      fetch(`${server.url}/api/v1/nodes?watch=1`),
      fetch(`${server.url}/readyz`),
    ])
    await Promise.all([watch.body?.cancel(), readiness.body?.cancel()])
    return watch.status === 503 && Number(watch.headers.get('retry-after')) >= 1 && readiness.status === 500
  }, 'it refuses new watches and is not ready')
  t.equal(await exiting, 0)
  await Promise.all(recorder.watches.map((watch) => watch.ended))
  t.same([...new Set(recorder.watches.map(({ end }) => end))], ['eof'])
  t.ok(
    recorder.watches.every(({ items }) => items.at(-1)?.type === 'BOOKMARK'),
    'each watch ends with a bookmark',
  )
  // The server's own times: a busy client may see all ends at one time.
  const ends = server
    .printed()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as { verb: string; resource: string; time: string })
    .filter(({ verb, resource }) => verb === 'watch' && resource === 'pods')
    .map(({ time }) => Date.parse(time))
  t.equal(ends.length, 240)
  t.ok(Math.max(...ends) - Math.min(...ends) > 500, 'they did not all end at one time')
  assertGuarantees(t, recorder.history(writer.writes), await control.finish())
})

async function tick(ms = 5): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
}

async function run(command: string, args: readonly string[]): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const environment = { ...process.env, ETCDCTL_API: '3' }
    execFile(command, args, { env: environment }, (error) => (error === null ? resolve() : reject(error)))
  })
}

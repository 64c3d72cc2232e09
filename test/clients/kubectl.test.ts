/** kubectl, unchanged, in front of a real etcd with data written by a real kube-apiserver. */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { keyFromText } from '../../src/engine/model/event.js'
import { silentLogger } from '../../src/support/log.js'
import { connectEtcd } from '../../src/engine/upstream/etcd/etcd-upstream.js'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { startEtcd } from '../support/etcd-process.js'
import { apiServer120 } from '../support/protobuf-data.js'
import { kubectlBinary } from '../support/kubectl.js'

interface Run {
  readonly code: number
  readonly out: string
  readonly err: string
}

interface Kubectl {
  readonly h: AppHarness
  run(...args: readonly string[]): Promise<Run>
  /** Runs kubectl until the end of the test, and gives its output so far. */
  follow(...args: readonly string[]): { text(): string }
  put(key: string, object: object): Promise<void>
}

const webPod = apiServer120().answers.get('/registry/pods/team-a/web-0')!.object

/** kubectl describe finds events by the uid of the involved object. */
const EVENT = {
  kind: 'Event',
  apiVersion: 'v1',
  metadata: { name: 'web-0.1', namespace: 'team-a', uid: 'e1', creationTimestamp: '2026-11-21T00:45:00Z' },
  involvedObject: {
    kind: 'Pod',
    namespace: 'team-a',
    name: 'web-0',
    uid: String(webPod.metadata['uid']),
    apiVersion: 'v1',
  },
  reason: 'Pulled',
  message: 'Container image already present',
  type: 'Normal',
  source: { component: 'kubelet' },
  firstTimestamp: '2026-11-21T00:45:00Z',
  lastTimestamp: '2026-11-21T00:45:00Z',
  count: 1,
}

async function start(t: Test): Promise<Kubectl> {
  const etcd = await startEtcd(t)
  const upstream = connectEtcd({ endpoints: [etcd.url], logger: silentLogger })
  const write = async (key: string, value: Buffer): Promise<void> => {
    await upstream.write([], [{ type: 'put', key: keyFromText(key), value }])
  }
  const put = (key: string, object: object): Promise<void> =>
    write(`/registry/${key}`, Buffer.from(JSON.stringify(object)))
  for (const { key, value } of apiServer120().stored) await write(key, value)
  await put('events/team-a/web-0.1', EVENT)
  const h = await startApp(t, { upstream })
  const home = await mkdtemp(join(tmpdir(), 'kubectl-'))
  t.teardown(() => rm(home, { recursive: true, force: true }))
  const env = { ...process.env, HOME: home, KUBECONFIG: join(home, 'none'), KUBECACHEDIR: join(home, 'cache') }
  const words = (args: readonly string[]): string[] => ['-s', h.url, ...args]
  return {
    h,
    put,
    run: (...args) =>
      new Promise((resolve) => {
        execFile(kubectlBinary, words(args), { env, timeout: 60_000 }, (error, out, err) => {
          resolve({ code: error === null ? 0 : Number(error.code ?? 1), out, err })
        })
      }),
    follow: (...args) => {
      const child = spawn(kubectlBinary, words(args), { env, stdio: ['ignore', 'pipe', 'pipe'] })
      t.teardown(() => child.kill('SIGKILL'))
      let text = ''
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (piece: Buffer) => (text += piece.toString()))
      return { text: () => text }
    },
  }
}

const N = ['-n', 'team-a']

/** A command, and what its output contains. */
const COMMANDS: readonly (readonly [promise: string, args: readonly string[], ...out: readonly (string | RegExp)[]])[] =
  [
    ['get', ['get', 'pods', ...N], /^NAME +READY +STATUS +RESTARTS +AGE$/m, /^web-0 +\d\/\d +\w+ +\d+ +\w+$/m],
    ['get -o wide', ['get', 'pods', ...N, '-o', 'wide'], /IP +NODE +NOMINATED NODE +READINESS GATES$/m, /^web-0 /m],
    [
      'get -o name',
      ['get', 'deploy,sts,svc', ...N, '-o', 'name'],
      'deployment.apps/web',
      'statefulset.apps/db',
      'service/web',
    ],
    ['get -o json', ['get', 'cm', 'settings', ...N, '-o', 'json'], '"kind": "ConfigMap"'],
    ['get -o jsonpath', ['get', 'deploy', 'web', ...N, '-o', 'jsonpath={.kind}/{.metadata.name}'], /^Deployment\/web$/],
    [
      'get -o custom-columns',
      ['get', 'pods', '-A', '-o', 'custom-columns=NS:.metadata.namespace,N:.metadata.name'],
      /^NS +N$/m,
      /^team-a +web-0$/m,
    ],
    ['get -o go-template', ['get', 'ns', 'team-a', '-o', 'go-template={{.metadata.name}}'], /^team-a$/],
    [
      'get all',
      ['get', 'all', ...N],
      'pod/web-0',
      'service/web',
      'deployment.apps/web',
      'statefulset.apps/db',
      'job.batch/once',
      'cache.edge.example.com/front',
    ],
    [
      'get with a selector',
      ['get', 'pods', '-A', '--field-selector', 'metadata.name=web-0', '--show-labels'],
      'LABELS',
      'web-0',
    ],
    [
      'get in pages',
      ['get', 'apiservices', '--chunk-size=7', '-o', 'name'],
      'apiservice.apiregistration.k8s.io/v1.apps',
      'apiservice.apiregistration.k8s.io/v2beta2.autoscaling',
    ],
    ['get of a custom resource by its short name', ['get', 'ca', ...N], /^NAME +SIZE +AGE$/m, /^front /m],
    ['get --raw', ['get', '--raw', '/readyz?verbose'], '[+]ping ok', 'readyz check passed'],
    ['get --sort-by', ['get', 'ns', '--sort-by=.metadata.name'], /default[^]*kube-system[^]*team-a/],
    [
      'describe of a pod',
      ['describe', 'pod', 'web-0', ...N],
      /^Name: +web-0$/m,
      'Containers:',
      'Container image already present',
    ],
    ['describe of a deployment', ['describe', 'deploy', 'web', ...N], /^Name: +web$/m, 'Replicas:'],
    ['describe of a service', ['describe', 'svc', 'web', ...N], /^Name: +web$/m],
    ['describe of a custom resource', ['describe', 'caches', 'front', ...N], /^Kind: +Cache$/m],
    ['events', ['events', ...N], 'Pulled', 'Pod/web-0'],
    ['get events', ['get', 'events', ...N], 'Pulled'],
    [
      'wait for what is',
      ['wait', '--for=jsonpath={.metadata.name}=web', 'deploy/web', ...N, '--timeout=10s'],
      'condition met',
    ],
    [
      'api-resources',
      ['api-resources'],
      /^deployments +deploy +apps\/v1 +true +Deployment$/m,
      /^caches +ca +edge\.example\.com\/v1 +true +Cache$/m,
    ],
    ['api-resources of one group', ['api-resources', '--api-group=apps', '-o', 'name'], 'statefulsets.apps'],
    ['api-versions', ['api-versions'], /^apps\/v1$/m, /^edge\.example\.com\/v1$/m, /^v1$/m],
    ['version', ['version'], /Server Version: v1\.37\./],
    ['explain', ['explain', 'pods'], /^KIND: +Pod$/m, /^ +spec\t<PodSpec>$/m],
    [
      'explain of what is inside',
      ['explain', 'pods.spec.containers'],
      /^FIELD: containers <\[\]Container>$/m,
      /^ +image\t<string>$/m,
    ],
    ['explain --recursive', ['explain', 'deployments.spec.template', '--recursive'], 'containers'],
    ['explain of a custom resource', ['explain', 'caches.spec'], /^ +size\t<string>$/m],
    ['auth of nothing', ['get', 'pods', 'web-0', ...N, '--output-watch-events=false', '-o', 'yaml'], 'kind: Pod'],
    ['get of two kinds at once', ['get', 'pods/web-0', 'cm/settings', ...N], 'pod/web-0', 'configmap/settings'],
  ]

/** Printed when kubectl is newer or older than the version that the server reports. */
const VERSION_WARNING = /^warning: version difference between client .*\n/im

void t.test('kubectl', async (t) => {
  const kubectl = await start(t)
  await until(
    () => kubectl.h.app.registry.find('edge.example.com', 'v1', 'caches') !== undefined,
    'the custom resource',
  )
  // The first one fills the discovery cache for the others.
  await kubectl.run('api-resources')
  for (const [promise, args, ...expected] of COMMANDS) {
    await t.test(`kubectl ${promise}`, async (t) => {
      const { code, out, err } = await kubectl.run(...args)
      t.equal(code, 0, err)
      t.equal(err.replace(VERSION_WARNING, ''), '')
      for (const one of expected) t.match(out, one)
    })
  }
  await t.test('-o yaml is what -o json is', async (t) => {
    const [json, yaml] = await Promise.all(
      ['json', 'yaml'].map((form) => kubectl.run('get', 'deploy', ...N, '-o', form)),
    )
    t.same(parse(yaml!.out), JSON.parse(json!.out))
  })
  await t.test('a missing object is NotFound, and a resource that is not served does not exist', async (t) => {
    const nobody = await kubectl.run('get', 'pods', 'nobody')
    t.match(nobody, { code: 1, err: 'Error from server (NotFound): pods "nobody" not found' })
    t.match((await kubectl.run('get', 'secrets')).err, 'the server doesn\'t have a resource type "secrets"')
    t.match((await kubectl.run('get', 'pods', '-l', 'a in')).err, /unable to parse/)
    t.match((await kubectl.run('get', 'pods', '--field-selector', 'x')).err, /invalid (field )?selector/)
  })
  await t.test('a write is refused with a reason', async (t) => {
    const { code, err } = await kubectl.run('delete', 'pod', 'web-0', ...N)
    t.equal(code, 1)
    t.match(err, /MethodNotAllowed|does not allow this method/)
  })
  await t.test('get -w and wait follow changes', async (t) => {
    const watched = kubectl.follow('get', 'pods', '-n', 'live', '-w')
    const events = kubectl.follow('get', 'pods', '-n', 'live', '-w', '--output-watch-events')
    const waiting = kubectl.run('wait', '--for=condition=Ready', 'pod/late', '-n', 'live', '--timeout=30s')
    const gone = (async () => {
      await waiting
      return await kubectl.run('wait', '--for=delete', 'pod/absent', '-n', 'live', '--timeout=30s')
    })()
    const late = (isReady: boolean): object =>
      pod('late', {
        namespace: 'live',
        spec: { containers: [{ name: 'c', image: 'i' }] },
        status: { phase: 'Running', conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False' }] },
      })
    await kubectl.put('pods/live/late', late(false))
    await until(() => /late +0\/1 +Running/.test(watched.text()), 'the pod in get -w', 30_000)
    await until(() => events.text().includes('ADDED'), 'the pod in the other', 30_000)
    await kubectl.put('pods/live/late', late(true))
    t.match(await waiting, { code: 0, out: 'pod/late condition met' })
    t.match(await gone, { code: 0 })
    await until(() => /ADDED[^]*MODIFIED/.test(events.text()), `events of both: ${events.text()}`, 30_000)
    t.notMatch(watched.text(), /[Ee]rror/)
  })
})

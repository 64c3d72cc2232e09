/**
 * Everything in deploy/kubernetes and in the chart, on Kubernetes' own API server: checked by a dry run, applied,
 * changed, and rolled back.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import t from 'tap'
import { modeValues, RELEASE, renderChart } from '../ops/support/chart.js'
import { FOREIGN_GROUPS, type KubernetesObject } from '../ops/support/kubernetes-objects.js'
import { root } from '../ops/support/server-process.js'
import { kustomize, listOf, startCluster, temporaryFolder } from './cluster.js'

const FOLDERS = [
  'base',
  'autoscaling',
  'edge',
  'static-pod',
  'kubeadm',
  'agents/server',
  'agents/upstream',
  'agents/node-local',
]

/** The kinds of operators that this API server has no definitions of. */
const isForeign = ({ apiVersion }: KubernetesObject): boolean =>
  FOREIGN_GROUPS.some((group) => apiVersion.startsWith(group))

void t.test('the API server accepts every manifest without a warning', async (t) => {
  const cluster = await startCluster(t)
  const apply = (objects: readonly KubernetesObject[], ...flags: string[]): string =>
    cluster.kubectl(['apply', '--server-side', '--force-conflicts', ...flags, '-f', '-'], listOf(objects))
  cluster.kubectl(['create', 'namespace', RELEASE.Namespace])
  // Objects that a controller would create.
  for (const namespace of ['default', 'kube-system', RELEASE.Namespace]) {
    cluster.kubectl(['create', 'serviceaccount', 'default', '-n', namespace])
  }

  for (const folder of FOLDERS) {
    await t.test(`deploy/kubernetes/${folder}`, async (t) => {
      const objects = kustomize(`deploy/kubernetes/${folder}`).filter((object) => !isForeign(object))
      const namespaces = objects.filter(({ kind }) => kind === 'Namespace')
      if (namespaces.length > 0) apply(namespaces)
      for (const flag of ['--dry-run=server', '--dry-run=none']) {
        t.equal(apply(objects, flag).trim().split('\n').length, objects.length)
      }
    })
  }

  for (const [mode, values] of modeValues()) {
    await t.test(`the chart with ci/${mode}.yaml`, async (t) => {
      const objects = renderChart(values)
        .objects.filter((object) => !isForeign(object))
        .map((object) => ({ ...object, metadata: { namespace: RELEASE.Namespace, ...object.metadata } }))
      t.equal(apply(objects, '--dry-run=server').trim().split('\n').length, objects.length)
    })
  }

  await t.test('the patch moves a workload, and back.patch.yaml leaves no trace', async (t) => {
    for (const kind of ['Deployment', 'DaemonSet', 'StatefulSet']) {
      apply([agent(kind)])
      const specOf = (): Spec =>
        (JSON.parse(cluster.kubectl(['get', kind, 'agent', '-o', 'json'])) as { spec: Spec }).spec
      const before = specOf()
      t.same(mountsOf(kind), { setup: TOKEN, agent: TOKEN, side: TOKEN })
      const patch = (file: string): void => {
        const text = readFileSync(join(root, 'deploy/kubernetes/agents', file), 'utf8').replaceAll('AGENT', 'agent')
        cluster.kubectl(['patch', kind, 'agent', '--patch', text])
      }
      patch('move.patch.yaml')
      t.same(movesOf(specOf()), MOVED, kind)
      t.same(mountsOf(kind), { setup: TOKEN, agent: VOLUME, side: TOKEN }, 'only the agent has another volume')
      patch('back.patch.yaml')
      t.same(specOf(), before, `${kind} is as it was`)
    }
  })

  /** The volume in which each container of a pod of this workload finds its token, as the API server admits the pod. */
  function mountsOf(kind: string): Readonly<Record<string, string | undefined>> {
    const workload = JSON.parse(cluster.kubectl(['get', kind, 'agent', '-o', 'json'])) as { spec: Spec }
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'agent' }, spec: workload.spec.template.spec }
    const args = ['create', '--dry-run=server', '-o', 'json', '-f', '-']
    const { spec } = JSON.parse(cluster.kubectl(args, JSON.stringify(pod))) as Spec['template']
    return Object.fromEntries(
      [...spec.initContainers, ...spec.containers].map(({ name, volumeMounts = [] }) => [
        name,
        volumeMounts.find(({ mountPath }) => mountPath === ACCOUNT)?.name.replace(/^(kube-api-access)-.*/, '$1'),
      ]),
    )
  }

  await t.test('the components move all workloads of a kustomization, and are gone with their line', async (t) => {
    for (const component of ['move', 'move-cluster-ca']) {
      const folder = temporaryFolder(t)
      const kinds = ['Deployment', 'DaemonSet', 'StatefulSet']
      writeFileSync(join(folder, 'agents.yaml'), listOf(kinds.map(agent)))
      const build = (components: readonly string[]): KubernetesObject[] => {
        const text = JSON.stringify({ resources: ['agents.yaml'], components })
        writeFileSync(join(folder, 'kustomization.yaml'), text)
        return kustomize(folder)
      }
      const specs = (): Spec[] =>
        kinds.map((kind) => (JSON.parse(cluster.kubectl(['get', kind, 'agent', '-o', 'json'])) as { spec: Spec }).spec)
      apply(build([]))
      const before = specs()
      const moved = build([relative(folder, join(root, 'deploy/kubernetes/agents', component))])
      t.equal(moved.length, kinds.length, 'nothing else is applied')
      apply(moved)
      for (const spec of specs()) {
        t.same(movesOf(spec), component === 'move' ? MOVED : [HOST], component)
      }
      const volume = component === 'move' ? VOLUME : TOKEN
      for (const kind of kinds) t.same(mountsOf(kind), { setup: TOKEN, agent: volume, side: volume }, component)
      apply(build([]))
      t.same(specs(), before, `all are as they were before ${component}`)
    }
  })
})

/** Returns the signs that a workload has been moved: its host variable and, with `move`, the volume. */
function movesOf(spec: Spec): string[] {
  const { containers, volumes = [] } = spec.template.spec
  const [{ env = [], volumeMounts = [] } = {}] = containers
  return [
    ...env.filter(({ name }) => name === 'KUBERNETES_SERVICE_HOST').map(({ value }) => value),
    ...volumeMounts.filter(({ mountPath }) => mountPath.includes('serviceaccount')).map(({ name }) => name),
    ...volumes.filter(({ projected }) => projected !== undefined).map(({ name }) => `volume ${name}`),
  ]
}

const HOST = 'distributary.distributary.svc'
const VOLUME = 'distributary-api-access'
const MOVED = [HOST, VOLUME, `volume ${VOLUME}`]
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'
/** Members that the API server adds by itself. */
const TOKEN = 'kube-api-access'

interface Spec {
  readonly template: {
    readonly spec: {
      readonly initContainers: readonly Container[]
      readonly containers: readonly Container[]
      readonly volumes?: readonly { readonly name: string; readonly projected?: object }[]
    }
  }
}

interface Container {
  readonly name: string
  readonly env?: readonly { readonly name: string; readonly value: string }[]
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[]
}

/** A workload with a variable and a volume of its own, and two more containers. */
function agent(kind: string): KubernetesObject {
  const labels = { app: 'agent' }
  return {
    apiVersion: 'apps/v1',
    kind,
    metadata: { name: 'agent', namespace: 'default' },
    spec: {
      selector: { matchLabels: labels },
      ...(kind === 'StatefulSet' ? { serviceName: 'agent' } : {}),
      template: {
        metadata: { labels },
        spec: {
          automountServiceAccountToken: true,
          initContainers: [{ name: 'setup', image: 'example.org/setup:1.0.0' }],
          containers: [
            {
              name: 'agent',
              image: 'example.org/agent:1.0.0',
              env: [{ name: 'A', value: 'b' }],
              volumeMounts: [{ name: 'scratch', mountPath: '/scratch' }],
            },
            { name: 'side', image: 'example.org/side:1.0.0' },
          ],
          volumes: [{ name: 'scratch', emptyDir: {} }],
        },
      },
    },
  }
}

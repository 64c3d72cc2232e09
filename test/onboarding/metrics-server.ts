/** metrics-server as a pod, with a kubelet to scrape. */
import { metricsServer as program } from '../clients/programs.js'
import { startProcess } from '../clients/support/start-process.js'
import { ask, serverAt } from '../reference/ask.js'
import { ADMIN } from '../reference/control-plane.js'
import { freePort } from '../support/free-port.js'
import { buildGoProgram } from '../support/go-program.js'
import { type Agent, LISTING, type Named, reading, turnOf, type World } from './agent.js'
import { temporaryFolder } from './cluster.js'
import { startKubelet, type Usage, usageOf } from './kubelet.js'

const MEASURED = 'measured'
/** metrics-server lists them in any order. */
const CONTAINERS = ['one', 'two', 'three']

const measured = (name: string, turn: string): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: MEASURED, labels: { turn } },
  spec: { nodeName: MEASURED, containers: CONTAINERS.map((container) => ({ name: container, image: 'i' })) },
})

interface Metrics extends Named {
  readonly usage?: Resources
  readonly containers?: readonly { readonly usage: Resources }[]
}

interface Resources {
  readonly cpu: string
  readonly memory: string
}

const lineOfUsage = (kind: string, object: Named, { millicores, mebibytes }: Usage): string => {
  const { namespace = '', name } = object.metadata
  return `${kind} ${namespace}/${name} ${turnOf(object)} ${millicores}m ${mebibytes}Mi`
}

/** Returns the sum. A quantity may be in nanocores and bytes. */
function usageIn(all: readonly { readonly usage: Resources }[]): Usage {
  const quantity = (text: string): number => {
    const [, digits = '', unit = ''] = /^(\d+)(\w*)$/.exec(text)!
    const factor: Readonly<Record<string, number>> = {
      n: 1e-9,
      u: 1e-6,
      m: 1e-3,
      Ki: 2 ** 10,
      Mi: 2 ** 20,
      Gi: 2 ** 30,
    }
    return Number(digits) * (unit === '' ? 1 : factor[unit]!)
  }
  const sum = (of: (usage: Resources) => string): number =>
    all.reduce((total, { usage }) => total + quantity(of(usage)), 0)
  return { millicores: Math.round(sum(({ cpu }) => cpu) * 1_000), mebibytes: sum(({ memory }) => memory) / 2 ** 20 }
}

/** It answers with what it scrapes from kubelets, for the nodes and running pods that it knows from its watches. */
export const metricsServer: Agent = {
  name: 'metrics-server',
  client: 'metrics-server',
  prepare: (t, { cluster }) => startKubelet(t, cluster, MEASURED),
  start: async (t, pod) => {
    const port = await freePort()
    const flags = [
      `--cert-dir=${temporaryFolder(t)}`,
      `--secure-port=${port}`,
      '--bind-address=127.0.0.1',
      // As in its manifests.
      '--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname',
      '--kubelet-use-node-status-port',
      // The shortest that it accepts: a pod is shown after two scrapes.
      '--metric-resolution=10s',
      '--kubelet-request-timeout=5s',
    ]
    const client = startProcess(t, pod.run(...LISTING, buildGoProgram(program), ...flags))
    const server = serverAt('theirs', `https://127.0.0.1:${port}`, ADMIN)
    const items = async (plural: string): Promise<readonly Metrics[]> => {
      const path = `/apis/metrics.k8s.io/v1beta1/${plural}`
      const { code, body } = await ask(server, { method: 'GET', path, headers: { accept: 'application/json' } })
      if (code !== 200) throw new Error(`${path}: ${code} ${body.toString()}`)
      return (JSON.parse(body.toString()) as { readonly items: readonly Metrics[] }).items
    }
    return {
      held: async () => [
        ...(await items('nodes')).map((node) => lineOfUsage('node', node, usageIn([{ usage: node.usage! }]))),
        ...(await items('pods')).map((one) => lineOfUsage('pod', one, usageIn(one.containers!))),
      ],
      printed: () => client.printed(),
      hasEnded: () => client.hasEnded(),
      port,
    }
  },
  expected: async (world) => [
    lineOfUsage('node', ...(await withUsage(world, `/api/v1/nodes/${MEASURED}`))),
    ...(await world.items<Named>(`/api/v1/namespaces/${MEASURED}/pods?fieldSelector=status.phase=Running`)).map((pod) =>
      lineOfUsage('pod', pod, times(usageOf(pod), CONTAINERS.length)),
    ),
  ],
  follows: ['pods', 'nodes', 'configmaps'],
  rules: [
    reading('', 'nodes', 'configmaps'),
    { apiGroups: [''], resources: ['nodes/metrics'], verbs: ['get'] },
    { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
    { apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'], verbs: ['create'] },
  ],
  objects: [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: MEASURED } },
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace: MEASURED } },
  ],
  turn: (turn) => [
    { apiVersion: 'v1', kind: 'Node', metadata: { name: MEASURED, labels: { turn } } },
    measured('measured', turn),
    measured(`measured-${turn}`, turn),
  ],
}

const times = ({ millicores, mebibytes }: Usage, factor: number): Usage => ({
  millicores: millicores * factor,
  mebibytes: mebibytes * factor,
})

async function withUsage(world: World, path: string): Promise<readonly [Named, Usage]> {
  const object = await world.get<Named>(path)
  return [object, usageOf(object)]
}

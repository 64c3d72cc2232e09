/**
 * The writes of a cluster at work: the real controllers and the real scheduler handle rollouts, jobs and namespaces
 * that come and go, with a kubelet that only writes statuses.
 */
import { ask, type Server, watch } from './ask.js'
import { isObject, type LosslessJson } from './lossless.js'
import { eventually, get, send, type World } from './world.js'

const NODES = ['node-a', 'node-b'] as const

/** Picks up every pod that is bound to its nodes, and reports it as running, finished or deleted. */
export class Kubelet {
  readonly #world: World
  #isOver = false
  #stream: { close(): void } | null = null
  #timer: NodeJS.Timeout | null = null

  constructor(world: World) {
    this.#world = world
  }

  async start(): Promise<void> {
    for (const name of NODES) {
      const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels: { 'kubernetes.io/hostname': name } } }
      await send(this.#world, 'POST', '/api/v1/nodes', JSON.stringify(node))
    }
    await this.#beat()
    // The controllers consider a node lost after 50 s without a report.
    this.#timer = setInterval(() => void this.#beat().catch(() => {}), 10_000)
    const stream = await watch(this.#world.theirs, '/api/v1/pods?watch=1', 'application/json', (event) => {
      if (!this.#isOver) void this.#see(event).catch(() => {})
    })
    this.#stream = stream
  }

  stop(): void {
    this.#isOver = true
    this.#stream?.close()
    if (this.#timer !== null) clearInterval(this.#timer)
  }

  async #beat(): Promise<void> {
    for (const name of NODES) {
      const now = new Date().toISOString()
      const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: now }
      const resources = { cpu: '64', memory: '256Gi', pods: '250' }
      const status = { conditions: [ready], capacity: resources, allocatable: resources }
      await send(this.#world, 'PATCH', `/api/v1/nodes/${name}/status`, JSON.stringify({ status }))
    }
  }

  async #see(event: LosslessJson): Promise<void> {
    const pod = isObject(event) ? (event['object'] as unknown as Pod) : null
    if (pod === null || !NODES.some((name) => name === pod.spec?.nodeName)) return
    const path = `/api/v1/namespaces/${pod.metadata.namespace}/pods/${pod.metadata.name}`
    if (pod.metadata.deletionTimestamp !== undefined) {
      if (isObject(event) && event['type'] !== 'DELETED')
        await send(this.#world, 'DELETE', path, '{"gracePeriodSeconds":0}')
      return
    }
    const isOfJob = pod.metadata.ownerReferences?.some(({ kind }) => kind === 'Job') ?? false
    if (pod.status.phase === 'Pending') await this.#say(path, statusOf(pod, 'Running'))
    else if (pod.status.phase === 'Running' && isOfJob) await this.#say(path, statusOf(pod, 'Succeeded'))
  }

  async #say(path: string, status: object): Promise<void> {
    await send(this.#world, 'PATCH', `${path}/status`, JSON.stringify({ status }))
  }
}

interface Pod {
  readonly metadata: {
    readonly name: string
    readonly namespace: string
    readonly deletionTimestamp?: string
    readonly ownerReferences?: readonly { readonly kind: string }[]
  }
  readonly spec?: {
    readonly nodeName?: string
    readonly containers: readonly { readonly name: string; readonly image: string }[]
  }
  readonly status: { readonly phase?: string }
}

function statusOf({ metadata, spec }: Pod, phase: 'Running' | 'Succeeded'): object {
  const now = new Date().toISOString()
  const isReady = phase === 'Running'
  const state = isReady
    ? { running: { startedAt: now } }
    : { running: null, terminated: { exitCode: 0, reason: 'Completed', startedAt: now, finishedAt: now } }
  const podIP = `10.1.${metadata.name.length}.${(metadata.name.codePointAt(metadata.name.length - 1) ?? 0) % 250}`
  return {
    phase,
    podIP,
    podIPs: [{ ip: podIP }],
    startTime: now,
    conditions: ['Ready', 'ContainersReady', 'Initialized'].map((type) => ({
      type,
      status: isReady || type === 'Initialized' ? 'True' : 'False',
      lastTransitionTime: now,
    })),
    containerStatuses: spec!.containers.map(({ name, image }) => ({
      name,
      image,
      imageID: `${image}@sha256:0`,
      ready: isReady,
      restartCount: 0,
      state,
    })),
  }
}

/** The quota rejects a pod without resource requests. */
const CONTAINER = { name: 'main', image: 'registry.example.com/web:1', resources: { requests: { cpu: '100m' } } }
const TEMPLATE = { metadata: { labels: { app: 'web', tier: 'churn' } }, spec: { containers: [CONTAINER] } }

function workload(kind: string, name: string, spec: object): object {
  const selector = { matchLabels: { app: 'web' } }
  const template = { ...TEMPLATE, metadata: { labels: { ...TEMPLATE.metadata.labels, of: name } } }
  const own =
    kind === 'Job' ? { template } : { selector: { matchLabels: { ...selector.matchLabels, of: name } }, template }
  return {
    apiVersion: kind === 'Job' ? 'batch/v1' : 'apps/v1',
    kind,
    metadata: { name, labels: { app: 'web' } },
    spec: { ...own, ...spec },
  }
}

/**
 * Runs one namespace from its creation to its end.
 *
 * @param inTheMiddle runs during a rollout.
 * @throws Error with the state of the namespace, and the controllers' last output.
 */
export async function churn(world: World, name: string, inTheMiddle: () => Promise<void>): Promise<void> {
  try {
    await churnThrough(world, name, inTheMiddle)
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${await stateOf(world, name)}`, { cause: error })
  }
}

async function churnThrough(world: World, name: string, inTheMiddle: () => Promise<void>): Promise<void> {
  const post = async (path: string, object: object): Promise<void> => void (await send(world, 'POST', path, JSON.stringify(object)))
  const patch = async (path: string, object: object): Promise<void> => void (await send(world, 'PATCH', path, JSON.stringify(object)))
  const core = `/api/v1/namespaces/${name}`
  const apps = `/apis/apps/v1/namespaces/${name}`
  const batch = `/apis/batch/v1/namespaces/${name}`
  await post('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: { app: 'web' } } })
  const ports = [{ port: 80, targetPort: 8080 }]
  await post(`${core}/services`, { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web' }, spec: { selector: { app: 'web' }, ports } })
  await post(`${core}/resourcequotas`, { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'all' }, spec: { hard: { pods: '100', 'requests.cpu': '50' } } })
  await post(`${core}/configmaps`, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'web' }, data: { a: '1' } })
  await post(`${core}/persistentvolumeclaims`, { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'web' }, spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } } })
  await post(`/apis/policy/v1/namespaces/${name}/poddisruptionbudgets`, { apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', metadata: { name: 'web' }, spec: { minAvailable: 1, selector: { matchLabels: { app: 'web' } } } })
  await post(`/apis/autoscaling/v2/namespaces/${name}/horizontalpodautoscalers`, { apiVersion: 'autoscaling/v2', kind: 'HorizontalPodAutoscaler', metadata: { name: 'web' }, spec: { maxReplicas: 5, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' } } })
  await post(`${apps}/deployments`, workload('Deployment', 'web', { replicas: 3 }))
  await post(`${apps}/statefulsets`, workload('StatefulSet', 'db', { replicas: 2, serviceName: 'web' }))
  await post(`${apps}/daemonsets`, workload('DaemonSet', 'agent', {}))
  await post(`${batch}/jobs`, workload('Job', 'once', { completions: 2, parallelism: 2, ttlSecondsAfterFinished: 1, template: { ...TEMPLATE, spec: { ...TEMPLATE.spec, restartPolicy: 'Never' } } }))
  await untilStatus(world.theirs, `${apps}/deployments/web`, ({ availableReplicas }) => availableReplicas === 3)
  await patch(`${apps}/deployments/web`, { spec: { template: { spec: { containers: [{ ...CONTAINER, image: 'registry.example.com/web:2' }] } } } })
  await inTheMiddle()
  await patch(`${core}/configmaps/web`, { data: { a: '2' }, metadata: { labels: { app: 'web' } } })
  await untilStatus(world.theirs, `${apps}/deployments/web`, ({ updatedReplicas, availableReplicas, replicas }) => updatedReplicas === 3 && availableReplicas === 3 && replicas === 3)
  await patch(`${apps}/deployments/web`, { spec: { replicas: 1 } })
  await patch(`${apps}/statefulsets/db`, { spec: { replicas: 1 } })
  await untilStatus(world.theirs, `${apps}/deployments/web`, ({ replicas }) => replicas === 1)
  await untilStatus(world.theirs, `${apps}/statefulsets/db`, ({ replicas }) => replicas === 1)
  await eventually(async () => (await get(world.theirs, `${batch}/jobs/once`)).code === 404, 'the job is done and gone')
  await send(world, 'DELETE', `/api/v1/namespaces/${name}`, '{}')
  await eventually(async () => (await get(world.theirs, `/api/v1/namespaces/${name}`)).code === 404, `${name} is gone`, 120_000)
} // prettier-ignore

async function untilStatus(
  server: Server,
  path: string,
  holds: (status: Readonly<Record<string, number>>) => boolean,
): Promise<void> {
  await eventually(
    async () => {
      const { body } = await ask(server, { method: 'GET', path, headers: { accept: 'application/json' } })
      return holds((JSON.parse(body.toString()) as { status: Record<string, number> }).status)
    },
    `${path} is as it is to be`,
    120_000,
  )
}

/**
 * Deletes what no controller can list: aggregated APIs without a server, and the webhook that converts objects of a
 * definition. A namespace ends only when every kind in it has been listed.
 */
export async function letNamespacesEnd(world: World): Promise<void> {
  const list = async (path: string): Promise<readonly Members[]> =>
    (JSON.parse((await get(world.theirs, path)).body.toString()) as { items: readonly Members[] }).items
  const services = '/apis/apiregistration.k8s.io/v1/apiservices'
  for (const { metadata, spec } of await list(services))
    if (spec?.['service'] !== undefined) await send(world, 'DELETE', `${services}/${metadata!['name'] as string}`, '{}')
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
  for (const { metadata, spec } of await list(definitions)) {
    if ((spec?.['conversion'] as { strategy?: string } | undefined)?.strategy !== 'Webhook') continue
    const conversion = { strategy: 'None', webhook: null }
    await send(
      world,
      'PATCH',
      `${definitions}/${metadata!['name'] as string}`,
      JSON.stringify({ spec: { conversion } }),
    )
  }
}

/**
 * The nodes, and the workloads, pods and events of the namespace, a line each: for diagnosing why the controllers are
 * stuck.
 */
async function stateOf(world: World, namespace: string): Promise<string> {
  const lines: string[] = []
  const list = async (path: string, show: (object: Members) => unknown): Promise<void> => {
    const { code, body } = await get(world.theirs, path)
    const { items = [] } = JSON.parse(body.toString()) as { items?: readonly Members[] }
    lines.push(`${path}: ${code}, ${items.length}`)
    for (const item of items) lines.push(`  ${item['metadata']?.['name'] as string}: ${JSON.stringify(show(item))}`)
  }
  const specAndStatus = ({ spec, status }: Members): unknown => ({ ...status, unschedulable: spec?.['unschedulable'], taints: spec?.['taints'], nodeName: spec?.['nodeName'] })
  const { body } = await get(world.theirs, `/api/v1/namespaces/${namespace}`)
  lines.push(body.toString())
  await list('/api/v1/nodes', specAndStatus)
  for (const path of ['apps/v1/%/deployments', 'apps/v1/%/replicasets', 'apps/v1/%/statefulsets', 'apps/v1/%/daemonsets', 'batch/v1/%/jobs'])
    await list(`/apis/${path.replace('%', `namespaces/${namespace}`)}`, ({ status }) => status)
  await list(`/api/v1/namespaces/${namespace}/pods`, specAndStatus)
  await list(`/api/v1/namespaces/${namespace}/events`, ({ type, reason, message }) => [type, reason, message])
  return [...lines, ...world.controllerLogs()].join('\n')
} // prettier-ignore

type Members = { readonly [name: string]: { readonly [name: string]: unknown } }

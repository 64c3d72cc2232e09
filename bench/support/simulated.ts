/**
 * The objects of the simulated cluster: deployments with a service each, one of which is rolled every few seconds, and
 * a service that only the bench changes, with a marker (`native/common.h`) that dates each change.
 */
import { EMPTY_MARK, MAGIC } from './objects.js'
import { AGENT_NAME, type ControlPlane } from './control-plane.js'
import { sleep } from './processes.js'

export interface ClusterSize {
  readonly nodes: number
  readonly pods: number
  readonly deployments: number
}

const NAMESPACE = 'bench'
const DEPLOYMENTS = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`
const SERVICES = `/api/v1/namespaces/${NAMESPACE}/services`
const RIGHTS = '/apis/rbac.authorization.k8s.io/v1'
const PODS_READY_MS = 300_000

/** Resolves when every pod is ready. */
export async function createCluster(plane: ControlPlane, { nodes, pods, deployments }: ClusterSize): Promise<void> {
  await plane.request('POST', '/api/v1/namespaces', { metadata: { name: NAMESPACE } })
  const metadata = { name: 'agent' }
  const rules = [
    { apiGroups: ['', 'discovery.k8s.io'], resources: ['pods', 'services', 'nodes', 'endpointslices'], verbs: ['*'] },
  ]
  const [apiGroup, roleKind] = ['rbac.authorization.k8s.io', 'ClusterRole']
  await plane.request('POST', `${RIGHTS}/clusterroles`, { metadata, rules })
  await plane.request('POST', `${RIGHTS}/clusterrolebindings`, {
    metadata,
    roleRef: { apiGroup, kind: roleKind, name: metadata.name },
    subjects: [{ apiGroup, kind: 'User', name: AGENT_NAME }],
  })
  for (let i = 0; i < nodes; i++) await plane.request('POST', '/api/v1/nodes', node(i))
  await plane.request('POST', SERVICES, service('probe', undefined))
  for (let i = 0; i < deployments; i++) {
    await plane.request('POST', SERVICES, service(`app-${i}`, { app: `app-${i}` }))
    await plane.request('POST', DEPLOYMENTS, deployment(`app-${i}`, pods / deployments))
  }
  await untilReady(plane, PODS_READY_MS)
}

interface Deployments {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly generation: number }
    readonly spec: { readonly replicas: number }
    readonly status: {
      readonly observedGeneration?: number
      readonly replicas?: number
      readonly updatedReplicas?: number
      readonly availableReplicas?: number
    }
  }[]
}

/** Waits until no deployment is being rolled out. @throws Error when that takes longer than `timeoutMs`. */
export async function untilReady(plane: ControlPlane, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const { items } = JSON.parse((await plane.request('GET', DEPLOYMENTS)).toString()) as Deployments
    const late = items.filter(
      ({ metadata, spec, status }) =>
        status.observedGeneration !== metadata.generation ||
        [status.replicas, status.updatedReplicas, status.availableReplicas].some((count) => count !== spec.replicas),
    )
    if (late.length === 0) return
    if (performance.now() > deadline) throw new Error(`not ready: ${JSON.stringify(late.slice(0, 3))}`)
    await sleep(500)
  }
}

const node = (i: number): object => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: {
    name: `n${i}`,
    labels: { 'kubernetes.io/hostname': `n${i}` },
    annotations: { 'kwok.x-k8s.io/node': 'fake' },
  },
  spec: { podCIDR: `10.${Math.floor(i / 256) + 1}.${i % 256}.0/24` },
})

const service = (name: string, selector: object | undefined): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, annotations: { mark: EMPTY_MARK } },
  spec: { clusterIP: 'None', ports: [{ name: 'http', port: 80, targetPort: 8080 }], selector },
})

const deployment = (name: string, replicas: number): object => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name },
  spec: {
    replicas,
    revisionHistoryLimit: 1,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: {
        containers: [
          {
            name: 'main',
            image: `registry.example/${name}:1.0`,
            ports: [{ name: 'http', containerPort: 8080 }],
            env: ['LOG_LEVEL', 'REGION', 'FEATURES'].map((each) => ({ name: each, value: 'default' })),
            resources: { requests: { cpu: '100m', memory: '128Mi' } },
          },
        ],
      },
    },
  },
})

/** Work that is repeated until it is paused; a failure is kept for `pause` to throw. */
export interface Repeated {
  /** Does the work once. */
  once(): Promise<void>
  resume(): void
  /** Resolves once no work is in progress. @throws Error if the work has failed. */
  pause(): Promise<void>
}

function repeated(everyMs: number, turn: () => Promise<void>): Repeated {
  let stop: (() => void) | null = null
  let running = Promise.resolve()
  let failure: Error | null = null
  const run = async (stopped: AbortSignal): Promise<void> => {
    for (let next = performance.now(); !stopped.aborted; next += everyMs) {
      await sleep(Math.max(0, next - performance.now()))
      if (!stopped.aborted) await turn()
    }
  }
  return {
    once: turn,
    resume() {
      const controller = new AbortController()
      stop = () => controller.abort()
      running = run(controller.signal).catch((error: unknown) => {
        failure = error instanceof Error ? error : new Error(String(error))
      })
    },
    async pause() {
      stop?.()
      await running
      if (failure !== null) throw failure
    },
  }
}

/** Rolls out one deployment after another. */
export function rolling(plane: ControlPlane, { deployments }: ClusterSize, everyMs: number): Repeated {
  let serial = 0
  return repeated(everyMs, async () => {
    const annotations = { rolled: String(++serial) }
    const path = `${DEPLOYMENTS}/app-${serial % deployments}`
    await plane.request('PATCH', path, { spec: { template: { metadata: { annotations } } } })
  })
}

export interface Probe extends Repeated {
  /** The sequence of the next change. */
  readonly next: number
  /** Returns how long each write since the last call took, in milliseconds. */
  takeDurations(): readonly number[]
}

export function probing(plane: ControlPlane, everyMs: number): Probe {
  let next = 0
  let durations: number[] = [] // reset for each measurement
  const turns = repeated(everyMs, async () => {
    const begin = process.hrtime.bigint()
    const mark = MAGIC + String(next++).padStart(12, '0') + String(begin).padStart(18, '0')
    await plane.request('PATCH', `${SERVICES}/probe`, { metadata: { annotations: { mark } } })
    durations.push(Number(process.hrtime.bigint() - begin) / 1e6)
  })
  return {
    ...turns,
    get next() {
      return next
    },
    takeDurations() {
      const taken = durations
      durations = []
      return taken
    },
  }
}

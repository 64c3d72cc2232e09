/**
 * A stand-in for a kubelet, without containers. It registers its node, reports that the pods bound to the node run, and
 * removes those that are deleted. At /metrics/resource, over TLS with a certificate of the cluster's CA, it says what they use,
 * to callers that the API server knows and allows to read it.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { ask, serverAt } from '../reference/ask.js'
import { ADMIN } from '../reference/control-plane.js'
import type { Cluster } from './cluster.js'

const EVERY_MS = 1_000
const MEBIBYTE = 1_048_576
const READY = [{ type: 'Ready', status: 'True' }]
const RUNNING = { phase: 'Running', conditions: READY }
/** Everything has run for an hour: a counter that is still 0 counts as missing. */
const RUN_MS = 3_600_000

export interface Usage {
  readonly millicores: number
  readonly mebibytes: number
}

interface Measured {
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly labels?: Readonly<Record<string, string>>
    readonly deletionTimestamp?: string
  }
}

/** What a node uses, or each container of a pod. The CPU depends on its name, and the memory also on its label `turn`. */
export function usageOf({ metadata: { name, labels } }: Measured): Usage {
  const upTo900 = (text: string): number => 1 + (createHash('sha256').update(text).digest().readUInt16BE() % 900)
  return { millicores: upTo900(name), mebibytes: upTo900(`${name} ${labels?.['turn']}`) }
}

interface Pod extends Measured {
  readonly spec: { readonly containers: readonly { readonly name: string }[] }
  readonly status: { readonly phase: string }
}

/** Returns when the node is ready. */
export async function startKubelet(t: Test, cluster: Cluster, node: string): Promise<void> {
  const apiServer = serverAt('theirs', cluster.url, ADMIN)
  const send = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const headers = { accept: 'application/json', 'content-type': type }
    const sent = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    return JSON.parse((await ask(apiServer, { method, path, headers }, sent)).body.toString()) as T
  }
  const startedMs = Date.now() - RUN_MS
  let itself: Measured = { metadata: { name: node } }
  let pods: readonly Pod[] = []

  const refresh = async (): Promise<void> => {
    itself = await send<Measured>('GET', `/api/v1/nodes/${node}`)
    const { items } = await send<{ items: readonly Pod[] }>('GET', `/api/v1/pods?fieldSelector=spec.nodeName=${node}`)
    for (const { metadata, status } of items) {
      const path = `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`
      if (metadata.deletionTimestamp !== undefined) await send('DELETE', path, { gracePeriodSeconds: 0 })
      else if (status.phase === 'Pending') await send('PATCH', `${path}/status`, { status: RUNNING })
    }
    pods = items.filter(
      ({ metadata, status }) => metadata.deletionTimestamp === undefined && status.phase === 'Running',
    )
  }

  /** Callers that may read, by what they send. As a kubelet, it asks once: a scrape must not depend on the API server. */
  const allowed = new Set<string>()
  const isAllowed = async (credentials: string): Promise<boolean> => {
    if (allowed.has(credentials)) return true
    const token = /^Bearer (\S+)$/.exec(credentials)?.[1]
    if (token === undefined) return false
    const { status } = await send<{
      status: { authenticated?: boolean; user: { username: string; groups: string[] } }
    }>('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token },
    })
    if (status.authenticated !== true) return false
    const { username: user, groups } = status.user
    const resourceAttributes = { verb: 'get', version: 'v1', resource: 'nodes', subresource: 'metrics', name: node }
    const review = await send<{ status: { allowed: boolean } }>(
      'POST',
      '/apis/authorization.k8s.io/v1/subjectaccessreviews',
      {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: { user, groups, resourceAttributes },
      },
    )
    if (review.status.allowed) allowed.add(credentials)
    return review.status.allowed
  }

  const series = (): string => {
    const nowMs = Date.now()
    const of = (what: string, labels: string, measured: Measured): string => {
      const { millicores, mebibytes } = usageOf(measured)
      // In nanoseconds, which are integers.
      const used = String(millicores * (nowMs - startedMs) * 1_000).padStart(10, '0')
      const seconds = `${used.slice(0, -9)}.${used.slice(-9)}`
      return [
        `${what}_cpu_usage_seconds_total${labels} ${seconds} ${nowMs}`,
        `${what}_memory_working_set_bytes${labels} ${mebibytes * MEBIBYTE} ${nowMs}`,
        `${what}_start_time_seconds${labels} ${startedMs / 1_000}`,
      ].join('\n')
    }
    const containers = pods.flatMap((pod) => {
      const { namespace, name } = pod.metadata
      return pod.spec.containers.map((container) =>
        of('container', `{container="${container.name}",namespace="${namespace}",pod="${name}"}`, pod),
      )
    })
    return `${[of('node', '', itself), ...containers].join('\n')}\n`
  }

  const { cert, key } = cluster.authority.server('IP:127.0.0.1')
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) => {
    const answer = (code: number, body = ''): void => void response.writeHead(code).end(body)
    if (request.url !== '/metrics/resource') return answer(404)
    void isAllowed(request.headers.authorization ?? '').then(
      (may) => (may ? answer(200, series()) : answer(403)),
      () => answer(503),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })

  await send('POST', '/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: node } })
  const resources = { cpu: '4', memory: '8Gi', pods: '110' }
  await send('PATCH', `/api/v1/nodes/${node}/status`, {
    status: {
      addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
      daemonEndpoints: { kubeletEndpoint: { Port: (server.address() as AddressInfo).port } },
      capacity: resources,
      allocatable: resources,
      conditions: READY,
    },
  })
  let isRunning = true
  // While the API server is away, the pods are as they were.
  const round = async (): Promise<void> => {
    await refresh().catch(() => {})
    if (isRunning) timer = setTimeout(() => void round(), EVERY_MS)
  }
  let timer: NodeJS.Timeout | undefined
  t.teardown(() => {
    isRunning = false
    clearTimeout(timer)
  })
  await round()
}

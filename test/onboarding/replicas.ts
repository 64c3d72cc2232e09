/**
 * Two replicas behind one address, in front of Kubernetes' own API server over the same etcd. Everybody may do
 * everything there.
 */
import type { Test } from 'tap'
import type { Disruption } from '../clients/support/disruptions.js'
import { oneByOne, pods, type ReplicatedStage, startReplicatedStage } from '../clients/support/stage.js'
import { create, letEveryoneIn, passing, urlOf } from '../clients/support/api-server.js'
import { type ApiServer, startApiServer, writeKubeconfig } from '../reference/control-plane.js'
import { buildKubernetes } from '../reference/programs.js'
import { pause } from '../support/until.js'

/**
 * Returns the flags that say what the replicas read, and how they authorize.
 *
 * @param reader the kubeconfig of a service account, which an API server that is starting refuses; the administrator is
 * let in by his group.
 */
export type Source = (apiServer: ApiServer, etcdUrl: string, reader: string) => readonly string[]

export const fromUpstream =
  (onGap: 'coalesce' | 'expire'): Source =>
  (apiServer, _, reader) => [
    `--upstream=${urlOf(apiServer)}`,
    `--kubeconfig=${reader}`,
    `--on-gap=${onGap}`,
    '--authorization-mode=Webhook',
    `--authorization-kubeconfig=${writeKubeconfig(apiServer)}`,
    '--anonymous-auth',
  ]

export const fromEtcd: Source = (_, etcdUrl) => [
  `--etcd-servers=${etcdUrl}`,
  '--authorization-mode=RBAC',
  '--anonymous-auth',
]

export interface Replicas {
  readonly stage: ReplicatedStage
  readonly apiServer: ApiServer
}

export async function startReplicas(t: Test, source: Source): Promise<Replicas> {
  let apiServer!: ApiServer
  const stage = await startReplicatedStage(t, {
    world: oneByOne(pods),
    source: async ({ url }) => {
      apiServer = await startApiServer(t, url, buildKubernetes('kube-apiserver'))
      await letEveryoneIn(apiServer)
      const accounts = '/api/v1/namespaces/default/serviceaccounts'
      await create(apiServer, accounts, { metadata: { name: 'reader' } })
      const { status } = await create(apiServer, `${accounts}/reader/token`, {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: {},
      })
      const reader = writeKubeconfig(apiServer, status?.token)
      return [...source(apiServer, url, reader), ...passing(apiServer)]
    },
  })
  return { stage, apiServer }
}

export interface Watched extends Disruption<ReplicatedStage> {
  /** How long the API server, or etcd, was away. */
  awayMs: number
}

/**
 * Restarts the API server or etcd while others ask for various things, and are never misled.
 *
 * @param object the path of an object that exists.
 * @param meanwhile begins at the same moment.
 */
function watched(
  t: Test,
  { stage }: Replicas,
  object: string,
  { name, restart, meanwhile }: { name: string; restart: () => Promise<void>; meanwhile: () => Promise<void> },
): Watched {
  const disruption: Watched = {
    name,
    awayMs: 0,
    disrupt: async () => {
      const probe = startProbe(t, stage.url, object)
      const startedMs = performance.now()
      const others = meanwhile()
      await restart()
      disruption.awayMs = performance.now() - startedMs
      await others
      t.comment(`${name}: away for ${Math.round(disruption.awayMs)} ms`)
      await pause(1_000)
      for (const [{ what, code, retryAfter, isEmpty }, count] of await probe.stop()) {
        t.comment(`${what}: ${code}, Retry-After ${retryAfter}, ${count} times`)
        t.notOk([401, 403, 404].includes(code ?? 0), `${what}: ${code} would mislead`)
        t.notOk(isEmpty, `${what}: an empty list would mislead`)
        if (code === 429 || code === 503) t.ok(retryAfter, `${what}: ${code} says when to ask again`)
      }
    },
  }
  return disruption
}

/** Kills the API server and starts it again. */
export function restartOf(t: Test, replicas: Replicas, object: string): Watched {
  const { stage, apiServer } = replicas
  return watched(t, replicas, object, {
    name: 'a restart of the API server',
    restart: () => apiServer.restart(),
    meanwhile: () => stage.write('meanwhile'),
  })
}

/**
 * Kills a replica at the moment at which the API server, or etcd, is restarted; another replica starts in the meantime.
 */
export function jointRestartsOf(t: Test, replicas: Replicas, object: string): readonly Watched[] {
  const { stage, apiServer } = replicas
  const joint = (what: string, restart: () => Promise<void>): Watched =>
    watched(t, replicas, object, {
      name: `a restart of ${what} and kill -9 of a replica`,
      restart,
      meanwhile: () => stage.killOne(),
    })
  return [joint('the API server', () => apiServer.restart()), joint('etcd', () => stage.etcd.restart())]
}

interface Probed {
  readonly what: string
  /** The status code; null if the connection failed. */
  readonly code: number | null
  readonly retryAfter: string | null
  /** Whether the response is a list without objects although there are some. */
  readonly isEmpty: boolean
}

/** Asks for various things all the time. `stop` returns the different answers, with how often each came. */
function startProbe(t: Test, url: string, object: string) {
  const counts = new Map<string, number>()
  const ended = new AbortController()
  const outcome = async (path: string, init: RequestInit): Promise<Omit<Probed, 'what'>> => {
    try {
      const answer = await fetch(`${url}${path}`, init)
      const isEmpty = /"items":\s*(?:\[\]|null)/.test(await answer.text())
      return { code: answer.status, retryAfter: answer.headers.get('retry-after'), isEmpty }
    } catch {
      return { code: null, retryAfter: null, isEmpty: false }
    }
  }
  const asking = async (what: string, path: string, init: RequestInit = {}): Promise<void> => {
    while (!ended.signal.aborted) {
      const key = JSON.stringify({ what, ...(await outcome(path, init)) } satisfies Probed)
      counts.set(key, (counts.get(key) ?? 0) + 1)
      await pause(100)
    }
  }
  const path = '/api/v1/namespaces/default/pods'
  const patch = {
    method: 'PATCH',
    headers: { 'content-type': 'application/merge-patch+json' },
    body: '{"metadata":{"labels":{"a":"b"}}}',
  }
  const all = [
    asking('a consistent list', `${path}?limit=1`),
    asking('a list from the cache', `${path}?resourceVersion=0`),
    asking('a pod', `${path}/p1`),
    asking('the object', object),
    asking('a patch', '/api/v1/namespaces/default', patch),
    asking('discovery', '/api/v1'),
  ]
  const stop = async (): Promise<readonly (readonly [Probed, number])[]> => {
    ended.abort()
    await Promise.all(all)
    return [...counts].map(([key, count]) => [JSON.parse(key) as Probed, count])
  }
  t.teardown(stop)
  return { stop }
}

/** Kubernetes' own API server over the etcd of a stage, so that a client can be run at both and compared. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { ask } from '../../reference/ask.js'
import { type ApiServer, startApiServer, writeKubeconfig } from '../../reference/control-plane.js'
import { buildKubernetes } from '../../reference/programs.js'
import { get } from '../../reference/world.js'
import type { Written } from '../../support/etcd-writer.js'
import { until } from '../../support/until.js'
import { type Stage, startStage, type World } from './stage.js'

interface Source {
  readonly name: string
  readonly flags: (apiServer: ApiServer, etcdUrl: string) => readonly string[]
  /**
   * Whether this server forwards nothing to the API server. `/version` then names distributary, and the server changes
   * nothing that an API server wrote.
   */
  readonly isAlone?: boolean
}

export const urlOf = ({ server }: ApiServer): string => `https://127.0.0.1:${server.port}`

export const passing = (apiServer: ApiServer): readonly string[] => [
  `--passthrough=${urlOf(apiServer)}`,
  `--passthrough-cafile=${join(apiServer.folder, 'apiserver.crt')}`,
]

/** The ways to run distributary in a cluster, and one without it. */
export const sources: readonly Source[] = [
  {
    name: 'beside etcd',
    flags: (apiServer, etcdUrl) => [`--etcd-servers=${etcdUrl}`, '--authorization-mode=RBAC', ...passing(apiServer)],
  },
  {
    name: '--upstream',
    flags: (apiServer) => {
      const kubeconfig = writeKubeconfig(apiServer)
      return [
        `--upstream=${urlOf(apiServer)}`,
        `--kubeconfig=${kubeconfig}`,
        '--authorization-mode=Webhook',
        `--authorization-kubeconfig=${kubeconfig}`,
        ...passing(apiServer),
      ]
    },
  },
  {
    name: '--enable-writes',
    isAlone: true,
    flags: (_, etcdUrl) => [
      `--etcd-servers=${etcdUrl}`,
      '--enable-writes',
      '--resource=secrets',
      '--authorization-mode=RBAC',
    ],
  },
]

export interface Compared {
  readonly stage: Stage
  readonly apiServer: ApiServer
}

/** Neither of the two asks for credentials. */
export async function startCompared(t: Test, world: World, { flags }: Source): Promise<Compared> {
  let apiServer!: ApiServer
  const stage = await startStage(t, {
    world,
    source: async ({ url }) => {
      apiServer = await startApiServer(t, url, buildKubernetes('kube-apiserver'))
      await letEveryoneIn(apiServer)
      return [...flags(apiServer, url), '--anonymous-auth']
    },
  })
  return { stage, apiServer }
}

interface Stored {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

/**
 * Has the API server write these objects again, in its own form and with its defaults. It would set the
 * `creationTimestamp` of an object that it creates, so the objects are first written into etcd.
 */
export async function rewrite({ server }: ApiServer, values: Iterable<Written>): Promise<void> {
  const headers = { accept: 'application/json', 'content-type': 'application/json' }
  for (const value of values) {
    if (value === null) continue
    const { apiVersion, kind, metadata } = value as Stored
    const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
    // Custom resources are served a moment after their definition is written.
    await until(
      async () => {
        const { resources } = JSON.parse((await get(server, group)).body.toString()) as Resources
        const { name: plural } = resources.find((one) => one.kind === kind && !one.name.includes('/'))!
        const place = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`
        const path = `${group}${place}/${plural}/${metadata.name}`
        const { body } = await get(server, path)
        const { code, body: said } = await ask(server, { method: 'PUT', path, headers }, body)
        if (code !== 200) throw new Error(said.toString())
        return true
      },
      `the API server rewrites ${kind} ${metadata.name}`,
      30_000,
    )
  }
}

interface Resources {
  readonly resources: readonly { readonly name: string; readonly kind: string }[]
}

export async function create({ server }: ApiServer, path: string, object: object): Promise<Created> {
  const headers = { 'content-type': 'application/json' }
  const { code, body } = await ask(server, { method: 'POST', path, headers }, Buffer.from(JSON.stringify(object)))
  if (code !== 201) throw new Error(`${path}: ${code} ${body.toString()}`)
  return JSON.parse(body.toString()) as Created
}

interface Created {
  readonly status?: { readonly token?: string }
}

/** Lets those without credentials, and service accounts, do everything. */
export async function letEveryoneIn(apiServer: ApiServer): Promise<void> {
  await create(apiServer, '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', EVERYONE)
}

const EVERYONE = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRoleBinding',
  metadata: { name: 'everyone' },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
  subjects: ['system:unauthenticated', 'system:serviceaccounts'].map((name) => ({
    apiGroup: 'rbac.authorization.k8s.io',
    kind: 'Group',
    name,
  })),
}

/** A folder for a client, with a kubeconfig for a server; returns the paths of both. */
export function clientFolder(t: Pick<Test, 'teardown'>, server: string): { folder: string; kubeconfig: string } {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-client-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const kubeconfig = join(folder, 'kubeconfig')
  const config = {
    clusters: [{ name: 'cluster', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'admin', user: {} }],
    contexts: [{ name: 'context', context: { cluster: 'cluster', user: 'admin' } }],
    'current-context': 'context',
  }
  writeFileSync(kubeconfig, JSON.stringify(config))
  return { folder, kubeconfig }
}

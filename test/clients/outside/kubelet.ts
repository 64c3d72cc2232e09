/**
 * The kubelet, unmodified but for its container runtime, which is Kubernetes' own fake (kubemark): one node follows the
 * API server, and one follows distributary, where the Node authorizer decides what it may read. Both run the same pods
 * with everything that these need, through changes and restarts.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ask } from '../../reference/ask.js'
import { type ApiServer, startApiServer, writeCredentials } from '../../reference/control-plane.js'
import { buildKubernetes } from '../../reference/programs.js'
import { freePort } from '../../support/free-port.js'
import { buildGoProgram } from '../../support/go-program.js'
import { secureFlags } from '../../support/secure-flags.js'
import { until } from '../../support/until.js'
import { kubemark } from '../programs.js'
import { clientFolder, create, passing, urlOf } from '../support/api-server.js'
import { disruptions, momentAfter } from '../support/disruptions.js'
import { type Stage, startStage } from '../support/stage.js'
import { type RunningProcess, startProcess } from '../support/start-process.js'

const program = buildGoProgram(kubemark)

const NODES = ['there', 'here'] as const
type Node = (typeof NODES)[number]

const tokenOf = (node: Node): string => `token-of-${node}`
const tokens = NODES.map((node) => `${tokenOf(node)},system:node:${node},uid-of-${node},"system:nodes"`)

const CORE = '/api/v1/namespaces/default'
const WITHIN_MS = 120_000

const volumes = [
  { name: 'settings', configMap: { name: 'settings' } },
  { name: 'login', secret: { secretName: 'login' } },
  { name: 'labels', downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] } },
  {
    name: 'identity',
    projected: { sources: [{ serviceAccountToken: { path: 'token', audience: 'vault', expirationSeconds: 600 } }] },
  },
]

const podOn = (node: Node, name: string): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: `${name}-${node}`, labels: { app: name } },
  spec: {
    nodeName: node,
    serviceAccountName: 'robot',
    terminationGracePeriodSeconds: 1,
    containers: [
      {
        name: 'c',
        image: 'i',
        env: [
          { name: 'USER', valueFrom: { secretKeyRef: { name: 'login', key: 'user' } } },
          { name: 'MODE', valueFrom: { configMapKeyRef: { name: 'settings', key: 'mode' } } },
        ],
        volumeMounts: volumes.map((volume) => ({ name: volume.name, mountPath: `/${volume.name}` })),
      },
    ],
    volumes,
  },
})

interface Pod {
  readonly metadata: { readonly name: string; readonly uid: string }
  readonly spec: { readonly nodeName: string }
  readonly status: {
    readonly phase: string
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly reason?: string }[]
    readonly containerStatuses?: readonly { readonly name: string; readonly ready: boolean; readonly state: object }[]
  }
}

async function read<T>({ server }: ApiServer, path: string): Promise<T> {
  const { body } = await ask(server, { method: 'GET', path, headers: {} })
  return JSON.parse(body.toString()) as T
}

async function send({ server }: ApiServer, method: string, path: string, patch?: object): Promise<void> {
  const headers = patch === undefined ? {} : { 'content-type': 'application/merge-patch+json' }
  const body = patch === undefined ? undefined : Buffer.from(JSON.stringify(patch))
  const { code } = await ask(server, { method, path, headers }, body)
  if (code !== 200) throw new Error(`${method} ${path}: ${code}`)
}

/** Lines about the pods of a node that are the same on the other. */
async function podsOn(apiServer: ApiServer, node: Node): Promise<readonly string[]> {
  const { items } = await read<{ items: readonly Pod[] }>(apiServer, `${CORE}/pods`)
  return items
    .filter(({ spec }) => spec.nodeName === node)
    .map(({ metadata, status: { phase, conditions = [], containerStatuses = [] } }) => {
      const held = conditions.map(({ type, status, reason = '' }) => `${type}=${status}${reason}`).toSorted()
      const containers = containerStatuses.map(
        ({ name, ready, state }) => `${name} ${ready} ${Object.keys(state).join()}`,
      )
      return `${metadata.name.replace(`-${node}`, '')} ${phase} ${held.join()} ${containers.join()}`
    })
    .toSorted()
}

interface Kubelet {
  readonly node: Node
  readonly process: RunningProcess
  /** The folder of its volumes. */
  readonly root: string
}

async function startKubelet(t: Test, node: Node, kubeconfig: string): Promise<Kubelet> {
  const running = startProcess(t, [
    program,
    '--morph=kubelet',
    `--name=${node}`,
    `--kubeconfig=${kubeconfig}`,
    `--kubelet-port=${await freePort()}`,
    '--kubelet-read-only-port=0',
    '--use-host-image-service=false',
  ])
  let root: string | undefined
  const isStarted = async (): Promise<boolean> => {
    root ??= /Using (\S+) as root dir/.exec(running.printed())?.[1]
    return root !== undefined || running.hasEnded()
  }
  await until(isStarted, () => `the kubelet starts: ${running.printed()}`, WITHIN_MS)
  if (root === undefined) throw new Error(running.printed())
  const folder = root
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return { node, process: running, root: folder }
}

/** Reads the files of a pod's volumes from the kubelet's folder. */
async function given(
  apiServer: ApiServer,
  { node, root }: Kubelet,
  pod: string,
): Promise<Readonly<Record<string, string>>> {
  const { metadata } = await read<Pod>(apiServer, `${CORE}/pods/${pod}-${node}`)
  const file = (kind: string, volume: string, name: string): string =>
    readFileSync(join(root, 'pods', metadata.uid, 'volumes', `kubernetes.io~${kind}`, volume, name), 'utf8')
  const [, claims = ''] = file('projected', 'identity', 'token').split('.')
  const { aud, sub } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { aud: unknown; sub: unknown }
  return {
    mode: file('configmap', 'settings', 'mode'),
    user: file('secret', 'login', 'user'),
    labels: file('downward-api', 'labels', 'labels'),
    identity: JSON.stringify({ aud, sub }),
  }
}

async function startCluster(t: Test): Promise<{ stage: Stage; apiServer: ApiServer; url: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-kubelet-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const tokenFile = writeCredentials(folder, tokens)
  const port = await freePort()
  let apiServer!: ApiServer
  const stage = await startStage(t, {
    world: { initial: new Map(), turn: () => [] },
    source: async ({ url }) => {
      apiServer = await startApiServer(t, url, buildKubernetes('kube-apiserver'), [`--token-auth-file=${tokenFile}`])
      const own = [`--etcd-servers=${url}`, '--resource=secrets', '--authorization-mode=Node,RBAC']
      // client-go sends no token without TLS.
      return [
        ...own,
        `--token-auth-file=${tokenFile}`,
        ...passing(apiServer),
        `--secure-port=${port}`,
        ...secureFlags().slice(2),
      ]
    },
  })
  return { stage, apiServer, url: `https://127.0.0.1:${port}` }
}

void t.test('at distributary a kubelet runs the pods that it runs at the API server', async (t) => {
  const { stage, apiServer, url } = await startCluster(t)
  const settings = (mode: string): object => ({ apiVersion: 'v1', kind: 'ConfigMap', data: { mode } })
  await create(apiServer, `${CORE}/serviceaccounts`, { metadata: { name: 'robot' } })
  await create(apiServer, `${CORE}/configmaps`, { ...settings('first'), metadata: { name: 'settings' } })
  await create(apiServer, `${CORE}/secrets`, { metadata: { name: 'login' }, stringData: { user: 'ann' } })
  const kubelets = [
    await startKubelet(t, 'there', kubeconfigFor(t, urlOf(apiServer), 'there')),
    await startKubelet(t, 'here', kubeconfigFor(t, url, 'here')),
  ]
  const printed = (): string => kubelets.map(({ process }) => process.printed()).join('\n\n')
  let last: string | null = null
  for (const disruption of [{ name: 'the start', disrupt: async () => {} }, ...disruptions]) {
    await disruption.disrupt(stage)
    const moment = momentAfter(disruption)
    await send(apiServer, 'PATCH', `${CORE}/configmaps/settings`, settings(moment))
    for (const { node } of kubelets) {
      await create(apiServer, `${CORE}/pods`, podOn(node, moment))
      if (last !== null) await send(apiServer, 'DELETE', `${CORE}/pods/${last}-${node}`)
    }
    let pods: (readonly string[])[] = []
    let files: object[] = []
    const isDone = async (): Promise<boolean> => {
      pods = await Promise.all(NODES.map((node) => podsOn(apiServer, node)))
      files = await Promise.all(kubelets.map((kubelet) => given(apiServer, kubelet, 'lasting')))
      const areRunning = pods.every(
        (lines) => lines.length === 2 && lines.every((line) => / Running .*c true running$/.test(line)),
      )
      return areRunning && files.every((file) => 'mode' in file && file.mode === moment)
    }
    if (last === null) for (const { node } of kubelets) await create(apiServer, `${CORE}/pods`, podOn(node, 'lasting'))
    await until(isDone, () => `${moment}: ${JSON.stringify({ pods, files })}`, WITHIN_MS).catch((error: unknown) => {
      t.comment(printed().slice(-20_000))
      throw error
    })
    t.same(pods[1], pods[0], `${moment}: the pods`)
    t.same(files[1], files[0], `${moment}: what they are given`)
    last = moment
  }
  for (const { process } of kubelets) t.notOk(process.hasEnded(), process.printed())
  t.same(
    stage
      .answered()
      .filter(({ userAgent, code }) => userAgent.startsWith('hollow-kubelet') && [401, 403].includes(code)),
    [],
    'nothing is refused',
  )
  const { status } = await read<{ status: { conditions: readonly { type: string; status: string }[] } }>(
    apiServer,
    '/api/v1/nodes/here',
  )
  t.equal(status.conditions.find(({ type }) => type === 'Ready')?.status, 'True')
})

function kubeconfigFor(t: Test, server: string, node: Node): string {
  const { kubeconfig } = clientFolder(t, server)
  const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as { users: object[] }
  config.users = [{ name: 'admin', user: { token: tokenOf(node) } }]
  writeFileSync(kubeconfig, JSON.stringify(config))
  return kubeconfig
}

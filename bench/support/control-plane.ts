/**
 * A Kubernetes control plane over the run's etcd: API server, controllers and scheduler, and kwok, which simulates the
 * nodes and their pods. All of them share the cores, as on one machine of a small cluster.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { freePort } from '../../test/support/free-port.js'
import { ask, serverAt } from '../../test/reference/ask.js'
import { ADMIN, apiServerFlags, writeCredentials, writeKubeconfig } from '../../test/reference/control-plane.js'
import type { Kwok, Programs } from '../../test/reference/programs.js'
import { awaitOkOverTls } from '../subjects/subject.js'
import { type Child, start } from './processes.js'
import type { Workspace } from './workspace.js'

/**
 * The token of every agent. It belongs to a service account, because the API server queues and refuses requests of such
 * clients.
 */
export const AGENT = 'agent-token'

export const AGENT_NAME = 'system:serviceaccount:bench:agent'

const READY_MS = 180_000

export interface ControlPlane {
  readonly port: number
  readonly tokenFile: string
  /** The path of the administrator's kubeconfig. */
  readonly kubeconfig: string
  /** The process id of the running API server. */
  readonly pid: number
  /** The process ids of the controllers, the scheduler and kwok. */
  readonly otherPids: readonly number[]
  /** Sends a request as the administrator. @throws Error unless it succeeds. */
  request(method: string, path: string, body?: object): Promise<Buffer>
  /**
   * Restarts the API server on the same port. The other programs reconnect with back-off, after up to half a minute.
   */
  restartApiServer(): Promise<void>
  /** Restarts all programs, so that none of them is in back-off. */
  restart(): Promise<void>
}

export interface ControlPlanePrograms extends Programs {
  readonly kwok: Kwok
}

export async function startControlPlane(
  workspace: Workspace,
  etcdPort: number,
  programs: ControlPlanePrograms,
): Promise<ControlPlane> {
  const folder = workspace.path('control-plane')
  mkdirSync(folder)
  const tokenFile = writeCredentials(folder, [
    `${AGENT},${AGENT_NAME},agent,"system:serviceaccounts,system:serviceaccounts:bench"`,
  ])
  const port = await freePort()
  const server = serverAt('theirs', `https://127.0.0.1:${port}`, ADMIN)
  let apiServer = await startApiServer(programs['kube-apiserver'], { etcdPort, port, folder })
  const kubeconfig = writeKubeconfig({ server, folder })
  let others = startOthers(workspace, kubeconfig, programs)
  const request: ControlPlane['request'] = async (method, path, body) => {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const headers = { accept: 'application/json', ...(body === undefined ? {} : { 'content-type': type }) }
    const sent = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    const answer = await ask(server, { method, path, headers }, sent)
    if (answer.code >= 300) throw new Error(`${method} ${path}: ${answer.code} ${answer.body.toString()}`)
    const ended = others.find(({ hasEnded }) => hasEnded)
    if (ended !== undefined) await ended.line(() => undefined, 1)
    return answer.body
  }
  const restartApiServer = async (): Promise<void> => {
    await apiServer.end()
    apiServer = await startApiServer(programs['kube-apiserver'], { etcdPort, port, folder })
  }
  return {
    port,
    tokenFile,
    kubeconfig,
    get pid() {
      return apiServer.pid
    },
    get otherPids() {
      return others.map(({ pid }) => pid)
    },
    request,
    restartApiServer,
    async restart() {
      for (const other of others.splice(0)) await other.end()
      await restartApiServer()
      // A new kwok would wait until the leases of the last one have expired.
      await request('DELETE', '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases')
      others = startOthers(workspace, kubeconfig, programs)
    },
  }
}

interface ApiServerPlace {
  readonly etcdPort: number
  readonly port: number
  readonly folder: string
}

async function startApiServer(program: string, { etcdPort, port, folder }: ApiServerPlace): Promise<Child> {
  const flags = apiServerFlags({ etcdUrl: `http://127.0.0.1:${etcdPort}`, port, folder })
  const child = start('apiserver', 'both', [program, ...flags])
  await awaitOkOverTls(child, `https://127.0.0.1:${port}/readyz`, READY_MS, { Authorization: `Bearer ${ADMIN}` })
  return child
}

/** Fast enough to create thousands of pods in a minute. */
const RATE = { qps: 500, burst: 1_000 }

function startOthers(workspace: Workspace, kubeconfig: string, programs: ControlPlanePrograms): Child[] {
  const schedulerConfig = workspace.path('scheduler.json')
  const scheduler = {
    apiVersion: 'kubescheduler.config.k8s.io/v1',
    kind: 'KubeSchedulerConfiguration',
    clientConnection: { kubeconfig, ...RATE },
    leaderElection: { leaderElect: false },
  }
  writeFileSync(schedulerConfig, JSON.stringify(scheduler))
  const rate = [`--kube-api-qps=${RATE.qps}`, `--kube-api-burst=${RATE.burst}`]
  return [
    start('kube-controller-manager', 'both', [
      programs['kube-controller-manager'],
      `--kubeconfig=${kubeconfig}`,
      '--leader-elect=false',
      '--secure-port=0',
      ...rate,
    ]),
    start('kube-scheduler', 'both', [programs['kube-scheduler'], `--config=${schedulerConfig}`, '--secure-port=0']),
    start('kwok', 'both', [
      programs.kwok.program,
      ...programs.kwok.stages.map((file) => `--config=${file}`),
      `--kubeconfig=${kubeconfig}`,
      '--manage-all-nodes',
      '--node-lease-duration-seconds=40',
    ]),
  ]
}

/**
 * Runs the programs of a Kubernetes control plane as processes on loopback. The API server authenticates with a token
 * file, so that distributary can be given the same file. There is no kubelet, webhook or service network.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { endsWithUs } from '../support/ends-with-us.js'
import { freePort } from '../support/free-port.js'
import { until } from '../support/until.js'
import { ask, type Server, serverAt } from './ask.js'
import { CURRENT, type KubernetesRelease, type Programs } from './programs.js'
import { openssl } from '../support/openssl.js'

export interface ApiServer {
  readonly server: Server
  /** The API server's token file. */
  readonly tokenFile: string
  /** The folder of the API server's keys, which is deleted with it. */
  readonly folder: string
  /**
   * Ends the API server and starts it again, over the same etcd and on the same port. Resolves when it is ready.
   * @param signal default: SIGKILL.
   */
  readonly restart: (signal?: NodeJS.Signals) => Promise<void>
}

/** The administrator; the token is the same as the name. */
export const ADMIN = 'system:admin'

/** The issuer of the API server's tokens. */
export const ISSUER = 'https://kubernetes.default.svc'

/**
 * The feature gates to turn on: those without which api/all omits resources, and the alpha feature that distributary
 * always has.
 */
const GATES: Readonly<Record<KubernetesRelease, readonly string[]>> = {
  '1.37': [
    'GenericWorkload',
    'TopologyAwareWorkloadScheduling',
    'CompositePodGroup',
    'EvictionRequestAPI',
    'ShardedListAndWatch',
  ],
  '1.36': ['GenericWorkload', 'TopologyAwareWorkloadScheduling', 'ShardedListAndWatch'],
}

interface StartOptions {
  /** Whether pods need an existing ServiceAccount, which no controller creates, and get the volume with its token. */
  readonly hasServiceAccounts?: boolean
  /** The release of the program. */
  readonly release?: KubernetesRelease
}

/**
 * Resolves when it is ready.
 *
 * @param t used only for teardown.
 */
export async function startApiServer(
  t: Test,
  etcdUrl: string,
  program: string,
  flags: readonly string[] = [],
  { hasServiceAccounts = false, release = CURRENT }: StartOptions = {},
): Promise<ApiServer> {
  const folder = mkdtempSync(join(tmpdir(), 'reference-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const tokenFile = writeCredentials(folder)
  const port = await freePort()
  const server = serverAt('theirs', `https://127.0.0.1:${port}`, ADMIN)
  const start = async (): Promise<Running> => {
    const child = run(t, program, [
      ...apiServerFlags({ etcdUrl, port, folder, hasServiceAccounts }),
      '--runtime-config=api/all=true',
      `--feature-gates=${GATES[release].map((gate) => `${gate}=true`).join()}`,
      ...flags,
    ])
    await until(
      async () => {
        if (child.hasEnded()) return true
        return (await ask(server, { method: 'GET', path: '/readyz', headers: {} })).code === 200
      },
      () => `the API server is ready: ${child.log()}`,
      180_000,
    )
    if (child.hasEnded()) throw new Error(`the API server ended: ${child.log()}`)
    return child
  }
  let child = await start()
  const restart = async (signal?: NodeJS.Signals): Promise<void> => {
    await child.kill(signal)
    child = await start()
  }
  return { server, tokenFile, folder, restart }
}

/**
 * Writes the API server's token file, whose path is returned, and the key of its service accounts.
 *
 * @param others further lines of the token file.
 */
export function writeCredentials(folder: string, others: readonly string[] = []): string {
  const tokenFile = join(folder, 'tokens.csv')
  const admin = `${ADMIN},${ADMIN},uid-of-the-administrator,"system:masters"`
  writeFileSync(tokenFile, [admin, ...others, ''].join('\n'))
  openssl('genrsa', '-out', accountKey(folder), '2048')
  return tokenFile
}

const accountKey = (folder: string): string => join(folder, 'service-accounts.pem')

export interface ApiServerOptions {
  readonly etcdUrl: string
  readonly port: number
  /** The folder with the API server's credentials. */
  readonly folder: string
  readonly hasServiceAccounts?: boolean
}

/** Returns the flags of every API server on loopback. */
export function apiServerFlags({ etcdUrl, port, folder, hasServiceAccounts = false }: ApiServerOptions): string[] {
  return [
    `--etcd-servers=${etcdUrl}`,
    '--bind-address=127.0.0.1',
    `--secure-port=${port}`,
    `--cert-dir=${folder}`,
    '--endpoint-reconciler-type=none',
    '--service-cluster-ip-range=10.96.0.0/16',
    `--service-account-issuer=${ISSUER}`,
    `--service-account-key-file=${accountKey(folder)}`,
    `--service-account-signing-key-file=${accountKey(folder)}`,
    `--token-auth-file=${join(folder, 'tokens.csv')}`,
    '--authorization-mode=Node,RBAC',
    '--allow-privileged=true',
    // There is no kubelet whose readiness would remove a node's taint.
    `--disable-admission-plugins=${hasServiceAccounts ? '' : 'ServiceAccount,'}TaintNodesByCondition`,
    // A run compacts explicitly; a recording keeps the whole history.
    '--etcd-compaction-interval=0',
  ]
}

/** Returns the path of a kubeconfig. @param token default: the administrator's. */
export function writeKubeconfig({ server, folder }: Pick<ApiServer, 'server' | 'folder'>, token = ADMIN): string {
  const kubeconfig = join(folder, token === ADMIN ? 'kubeconfig' : 'kubeconfig-of-another')
  const authority = join(folder, 'apiserver.crt')
  const cluster = { server: `https://127.0.0.1:${server.port}`, 'certificate-authority': authority }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'reference', cluster }],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name: 'admin', context: { cluster: 'reference', user: 'admin' } }],
    'current-context': 'admin',
  }
  writeFileSync(kubeconfig, JSON.stringify(config))
  return kubeconfig
}

/** Starts the controllers and the scheduler as administrators, without waiting for them to finish any work. */
export function startControllers(t: Test, apiServer: ApiServer, programs: Programs): Running[] {
  const kubeconfig = writeKubeconfig(apiServer)
  const flags = [`--kubeconfig=${kubeconfig}`, '--leader-elect=false', '--secure-port=0']
  return [
    // The excluded controller crashes, and takes the others with it, on a volume without a field that the API server
    // does not require.
    run(t, programs['kube-controller-manager'], [
      ...flags,
      '--controllers=*,-persistentvolume-attach-detach-controller',
    ]),
    run(t, programs['kube-scheduler'], flags),
  ]
}

export interface Running {
  hasEnded(): boolean
  /** The end of its output. */
  log(): string
  /** @param signal default: SIGKILL. */
  kill(signal?: NodeJS.Signals): Promise<void>
}

function run(t: Test, program: string, flags: readonly string[]): Running {
  const child = spawn(program, flags, { stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.on('data', (chunk: Buffer) => (log = (log + chunk.toString()).slice(-4_000)))
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null
  endsWithUs(child)
  const kill = async (signal: NodeJS.Signals = 'SIGKILL'): Promise<void> => {
    if (hasEnded()) return
    child.kill(signal)
    await once(child, 'exit')
  }
  t.teardown(() => kill())
  return { hasEnded, log: () => log, kill }
}

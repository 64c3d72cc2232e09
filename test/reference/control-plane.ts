/**
 * The programs of a Kubernetes control plane as processes on loopback. The API server authenticates by a token file, so
 * that distributary can be given the same file, and nothing behind it exists: no kubelet, no webhook, no service network.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePort } from '../support/free-port.js'
import { until } from '../support/until.js'
import { ask, type Server, serverAt } from './ask.js'
import type { Programs } from './programs.js'
import { openssl } from '../support/openssl.js'

export interface ApiServer {
  readonly server: Server
  /** The token file that it reads. */
  readonly tokenFile: string
  /** The folder of its keys, which ends with it. */
  readonly folder: string
}

/** The administrator, whose token is the name. */
export const ADMIN = 'system:admin'

/** Of the tokens that it makes. */
export const ISSUER = 'https://kubernetes.default.svc'

/**
 * Resolves when it is ready.
 *
 * @param t only told when the run ends.
 */
export async function startApiServer(t: Test, etcdUrl: string, program: string): Promise<ApiServer> {
  const folder = mkdtempSync(join(tmpdir(), 'reference-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const [tokenFile, key] = [join(folder, 'tokens.csv'), join(folder, 'service-accounts.pem')]
  writeFileSync(tokenFile, `${ADMIN},${ADMIN},uid-of-the-administrator,"system:masters"\n`)
  openssl('genrsa', '-out', key, '2048')
  const port = await freePort()
  const child = run(t, program, [
    `--etcd-servers=${etcdUrl}`,
    '--bind-address=127.0.0.1',
    `--secure-port=${port}`,
    `--cert-dir=${folder}`,
    '--endpoint-reconciler-type=none',
    '--service-cluster-ip-range=10.96.0.0/16',
    `--service-account-issuer=${ISSUER}`,
    `--service-account-key-file=${key}`,
    `--service-account-signing-key-file=${key}`,
    `--token-auth-file=${tokenFile}`,
    '--authorization-mode=Node,RBAC',
    '--allow-privileged=true',
    '--runtime-config=api/all=true',
    // Whose resources api/all leaves out as long as their gates are off.
    '--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,EvictionRequestAPI=true',
    // Pods have neither tokens nor a kubelet that takes the taint of its node away.
    '--disable-admission-plugins=ServiceAccount,TaintNodesByCondition',
    // A run compacts when it means to; a recording keeps the whole history.
    '--etcd-compaction-interval=0',
  ])
  const server = serverAt('theirs', `https://127.0.0.1:${port}`, ADMIN)
  await until(
    async () => {
      if (child.hasEnded()) return true
      return (await ask(server, { method: 'GET', path: '/readyz', headers: {} })).code === 200
    },
    () => `the API server is ready: ${child.log()}`,
    180_000,
  )
  if (child.hasEnded()) throw new Error(`the API server ended: ${child.log()}`)
  return { server, tokenFile, folder }
}

/** The path of a kubeconfig of the administrator. */
export function writeKubeconfig({ server, folder }: ApiServer): string {
  const kubeconfig = join(folder, 'kubeconfig')
  const authority = join(folder, 'apiserver.crt')
  const cluster = { server: `https://127.0.0.1:${server.port}`, 'certificate-authority': authority }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'reference', cluster }],
    users: [{ name: 'admin', user: { token: ADMIN } }],
    contexts: [{ name: 'admin', context: { cluster: 'reference', user: 'admin' } }],
    'current-context': 'admin',
  }
  writeFileSync(kubeconfig, JSON.stringify(config))
  return kubeconfig
}

/** The controllers and the scheduler, as administrators. Returns when they run, not when they are done with anything. */
export function startControllers(t: Test, apiServer: ApiServer, programs: Programs): Running[] {
  const kubeconfig = writeKubeconfig(apiServer)
  const flags = [`--kubeconfig=${kubeconfig}`, '--leader-elect=false', '--secure-port=0']
  return [
    // One of its controllers dies, and takes the others with it, of a volume without a member that the API server does not require.
    run(t, programs['kube-controller-manager'], [
      ...flags,
      '--controllers=*,-persistentvolume-attach-detach-controller',
    ]),
    run(t, programs['kube-scheduler'], flags),
  ]
}

export interface Running {
  hasEnded(): boolean
  /** The last of what it wrote. */
  log(): string
}

function run(t: Test, program: string, flags: readonly string[]): Running {
  const child = spawn(program, flags, { stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.on('data', (chunk: Buffer) => (log = (log + chunk.toString()).slice(-4_000)))
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null
  const killWithUs = (): void => void child.kill('SIGKILL')
  process.once('exit', killWithUs)
  t.teardown(async () => {
    process.off('exit', killWithUs)
    if (!hasEnded()) await killed(child)
  })
  return { hasEnded, log: () => log }
}

async function killed(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

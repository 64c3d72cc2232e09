/**
 * Kubernetes' own API server over an etcd, with distributary in front of it as in deploy/kubernetes/agents/server: with
 * the configuration, the reviewer and the certificate of the manifests. Only addresses and folders are adapted to this
 * machine.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { parseManifests } from '../ops/support/chart.js'
import type { KubernetesObject } from '../ops/support/kubernetes-objects.js'
import { placeContainer, readdress } from '../ops/support/machine.js'
import { root, type ServerProcess, startServerProcess } from '../ops/support/server-process.js'
import { ADMIN, startApiServer } from '../reference/control-plane.js'
import { buildKubernetes } from '../reference/programs.js'
import { type CertificateAuthority, createAuthority } from '../support/certificates.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { kubectlBinary } from '../support/kubectl.js'

export interface Cluster {
  readonly etcd: EtcdProcess
  /** `https://127.0.0.1:PORT` of the API server. */
  readonly url: string
  /** The authority that signed its certificate, as `ca.crt` of every pod has it. */
  readonly ca: string
  /** The path of the administrator's kubeconfig. */
  readonly kubeconfig: string
  /** Issues serving certificates for 127.0.0.1, as kubelets have them. */
  readonly authority: CertificateAuthority
  /** Ends the API server and starts it again. Resolves when it is ready. @param signal default: SIGKILL. */
  readonly restart: (signal?: NodeJS.Signals) => Promise<void>
  /** Returns what kubectl prints. @throws Error when it fails, or warns. */
  kubectl(args: readonly string[], input?: string): string
}

export function temporaryFolder(t: Pick<Test, 'teardown'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-onboarding-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** The name in a pod's variables. A real cluster has the Service's address there. */
export const API_SERVER = 'kubernetes.default.svc'

/** @param flags further flags of the API server. */
export async function startCluster(t: Test, flags: readonly string[] = []): Promise<Cluster> {
  const etcd = await startEtcd(t)
  const authority = createAuthority(t)
  const { cert, key } = authority.server(`IP:127.0.0.1,DNS:localhost,DNS:${API_SERVER}`)
  const certificate = [`--tls-cert-file=${cert}`, `--tls-private-key-file=${key}`]
  const given = [...certificate, ...frontProxyFlags(t), ...flags]
  const apiServer = await startApiServer(t, etcd.url, buildKubernetes('kube-apiserver'), given, {
    hasServiceAccounts: true,
  })
  const { server, folder } = apiServer
  const url = `https://127.0.0.1:${server.port}`
  const [kubeconfig, { ca }] = [join(folder, 'admin.kubeconfig'), authority]
  writeFileSync(kubeconfig, kubeconfigOf({ server: url, ca, user: { token: ADMIN } }))
  const kubectl = (args: readonly string[], input = ''): string => {
    const { status, stdout, stderr } = spawnSync(kubectlBinary, ['--kubeconfig', kubeconfig, ...args], {
      input,
      encoding: 'utf8',
      cwd: root,
    })
    if (status !== 0 || stderr !== '') throw new Error(`kubectl ${args.join(' ')}: ${stderr}`)
    return stdout
  }
  return { etcd, url, ca, kubeconfig, authority, restart: (signal) => apiServer.restart(signal), kubectl }
}

/** The flags with which the API server tells other servers, such as metrics-server, on whose behalf it calls them. */
function frontProxyFlags(t: Test): string[] {
  const authority = createAuthority(t)
  const { cert, key } = authority.client('front-proxy-client')
  return [
    `--proxy-client-cert-file=${cert}`,
    `--proxy-client-key-file=${key}`,
    `--requestheader-client-ca-file=${authority.ca}`,
    '--requestheader-allowed-names=front-proxy-client',
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
  ]
}

export interface Kubeconfig {
  readonly server: string
  /** The name that the server's certificate is for, if it is not in its address. */
  readonly name?: string
  readonly ca: string
  readonly user: object
}

export function kubeconfigOf({ server, name, ca, user }: Kubeconfig): string {
  const cluster = { server, 'tls-server-name': name, 'certificate-authority': ca }
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'cluster', cluster }],
    users: [{ name: 'user', user }],
    contexts: [{ name: 'context', context: { cluster: 'cluster', user: 'user' } }],
    'current-context': 'context',
  })
}

/** What `kubectl kustomize` makes of a folder. */
export function kustomize(folder: string): KubernetesObject[] {
  const { status, stdout, stderr } = spawnSync(kubectlBinary, ['kustomize', folder], { encoding: 'utf8', cwd: root })
  if (status !== 0) throw new Error(stderr)
  return parseManifests(stdout, folder)
}

export const SERVER_FOLDER = 'deploy/kubernetes/agents/server'

export interface Installed extends ServerProcess {
  /** The folder in which certificate.sh has made ca.crt, tls.crt and tls.key. */
  readonly certificates: string
}

export interface Installation {
  /** Whether an object is applied. A test omits the objects that it wants to be missing. */
  readonly isApplied?: (object: KubernetesObject) => boolean
  /** The folder of existing certificates. Default: certificate.sh makes them, or they are among the objects. */
  readonly certificates?: string
  /** The objects. Default: those of the manifests. */
  readonly objects?: readonly KubernetesObject[]
  readonly namespace?: string
  /** Further flags of the server. */
  readonly flags?: readonly string[]
  /** Returns the command that runs it, without its arguments. @param token of its service account. */
  readonly command?: (token: string) => readonly string[]
}

/** Applies the manifests, and runs what their Deployment says. */
export async function install(t: Test, cluster: Cluster, installation: Installation = {}): Promise<Installed> {
  const { isApplied = () => true, certificates = temporaryFolder(t), namespace = 'distributary' } = installation
  const { objects = kustomize(SERVER_FOLDER), flags = [], command } = installation
  const placed = objects.map((object) => ({ ...object, metadata: { namespace, ...object.metadata } }))
  for (const kind of ['Namespace', '']) {
    const chosen = placed.filter((object) => (kind === '' || object.kind === kind) && isApplied(object))
    if (chosen.length > 0) cluster.kubectl(['apply', '--server-side', '--force-conflicts', '-f', '-'], listOf(chosen))
  }
  const generated = objects.find(({ kind, type }) => kind === 'Secret' && type === 'kubernetes.io/tls')
  for (const [name, text] of Object.entries((generated?.['data'] ?? {}) as Record<string, string>)) {
    writeFileSync(join(certificates, name), Buffer.from(text, 'base64'))
  }
  if (!existsSync(join(certificates, 'tls.crt'))) {
    const made = spawnSync(join(root, 'deploy/kubernetes/agents/certificate.sh'), {
      cwd: certificates,
      encoding: 'utf8',
    })
    if (made.status !== 0) throw new Error(made.stderr)
  }
  // The service account's directory, as the kubelet mounts it.
  const account = temporaryFolder(t)
  const token = tokenOf(cluster, namespace, 'distributary')
  writeFileSync(join(account, 'token'), token)
  writeFileSync(join(account, 'ca.crt'), readFileSync(cluster.ca))
  const mounted = (text: string): string =>
    text
      .replaceAll('/var/run/secrets/kubernetes.io/serviceaccount', account)
      .replaceAll('https://kubernetes.default.svc', cluster.url)
  const addresses = {
    etcdServers: [cluster.etcd.url],
    passthrough: cluster.url,
    etcdCafile: undefined,
    etcdCertfile: undefined,
    etcdKeyfile: undefined,
    bindAddress: '127.0.0.1',
    securePort: 0,
    metricsBindAddress: '127.0.0.1:0',
    shutdownDelayDuration: '0s',
  }
  const addressesIn = (text: string): Readonly<Record<string, unknown>> =>
    Object.fromEntries(Object.entries(addresses).filter(([key]) => text.includes(`${key}:`)))
  const pem = (name: string): string => readFileSync(join(certificates, name), 'utf8')
  const { args, environment, scheme } = placeContainer(t, 'distributary', {
    objects,
    secrets: { 'distributary-tls': { 'tls.crt': pem('tls.crt'), 'tls.key': pem('tls.key') }, 'etcd-client': {} },
    replace: (text) => mounted(text.includes('bindAddress:') ? readdress(text, addressesIn(text)) : text),
  })
  const process = { args: [...args, ...flags], environment, scheme, ...(command && { command: command(token) }) }
  return Object.assign(await startServerProcess(t, process), { certificates })
}

export const listOf = (items: readonly object[]): string => JSON.stringify({ apiVersion: 'v1', kind: 'List', items })

/** Creates the ConfigMap with the cluster's CA, which a controller creates in a real cluster. */
export function publishAuthority(cluster: Cluster, namespace: string): void {
  cluster.kubectl(['-n', namespace, 'create', 'configmap', 'kube-root-ca.crt', `--from-file=ca.crt=${cluster.ca}`])
}

/**
 * Creates the ConfigMap distributary-ca in a namespace, as the page says.
 * @returns the path of the file that its pods have as `ca.crt`.
 */
export function trustBoth(cluster: Cluster, installed: Installed, namespace: string): string {
  publishAuthority(cluster, namespace)
  return bundleAuthorities(cluster, installed, namespace)
}

/** As `trustBoth`, in a namespace that has the cluster's CA. */
export function bundleAuthorities(cluster: Cluster, { certificates }: Installed, namespace: string): string {
  const commands = commandsOfPage(/kube-root-ca\.crt/).replaceAll('-n monitoring', `-n ${namespace}`)
  runCommands(cluster, commands, certificates)
  return join(certificates, 'bundle.crt')
}

/** Returns the block of commands of docs/guide/onboarding.md that matches. */
export function commandsOfPage(pattern: RegExp): string {
  const page = readFileSync(join(root, 'docs/guide/onboarding.md'), 'utf8')
  const blocks = [...page.matchAll(/^ *```sh\n([^`]*)```/gm)].map(([, block = '']) => block)
  const found = blocks.find((block) => pattern.test(block))
  if (found === undefined) throw new Error(`the page has no commands with ${pattern}`)
  return found
}

/** Runs commands in a shell, with the administrator's kubectl. @throws Error when one fails, or warns. */
export function runCommands(cluster: Cluster, commands: string, folder: string): void {
  const lines = `kubectl() { command "${kubectlBinary}" --kubeconfig "${cluster.kubeconfig}" "$@"; }\n${commands}`
  const { status, stderr } = spawnSync('sh', ['-ec', lines], { cwd: folder, encoding: 'utf8' })
  if (status !== 0 || stderr !== '') throw new Error(`${commands}: ${stderr}`)
}

/**
 * Returns a token of an existing service account, like the one in a projected volume.
 * @param pod the pod with whose deletion the token becomes invalid.
 */
export function tokenOf(cluster: Cluster, namespace: string, name: string, pod?: string): string {
  const bound = pod === undefined ? [] : ['--bound-object-kind', 'Pod', '--bound-object-name', pod]
  return cluster.kubectl(['create', 'token', '--duration=24h', '-n', namespace, name, ...bound]).trim()
}

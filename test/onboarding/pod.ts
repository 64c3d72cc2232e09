/**
 * Processes with what a pod has: two variables, the names of its DNS, and the mounted token directory. Each has its own
 * mount namespace, which requires root.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { temporaryFolder } from './cluster.js'

export interface PodSettings {
  /** The name in `KUBERNETES_SERVICE_HOST`, which stands for this machine. */
  readonly host: string
  readonly port: string
  /** The path of the authority that it gets as `ca.crt`. */
  readonly ca: string
  readonly token: string
  /** Default: monitoring. */
  readonly namespace?: string
}

export interface Pod {
  /** The address in its variables. */
  readonly server: string
  /** The command line that runs a program in it. */
  readonly run: (...command: readonly string[]) => readonly string[]
  /** Replaces the token in the directory, as the kubelet does. */
  readonly rotate: (token: string) => void
}

/** The files in it: `token`, `ca.crt` and `namespace`. */
export const DIRECTORY = '/run/secrets/kubernetes.io/serviceaccount'

const SCRIPT = [
  // This hides the machine's /run, to which /var/run points.
  'mount -t tmpfs tmpfs /run',
  `mkdir -p ${DIRECTORY}`,
  `mount --bind "$0/serviceaccount" ${DIRECTORY}`,
  'mount --bind "$0/hosts" /etc/hosts',
  'exec "$@"',
].join(' && ')

export function makePod(
  t: Pick<Test, 'teardown'>,
  { host, port, ca, token, namespace = 'monitoring' }: PodSettings,
): Pod {
  const folder = temporaryFolder(t)
  const account = join(folder, 'serviceaccount')
  mkdirSync(account)
  writeFileSync(join(folder, 'hosts'), `127.0.0.1 localhost ${host}\n`)
  let versions = 0
  const rotate = (text: string): void => {
    const version = `..${versions++}`
    mkdirSync(join(account, version))
    const files = { token: text, 'ca.crt': readFileSync(ca, 'utf8'), namespace }
    for (const [name, content] of Object.entries(files)) writeFileSync(join(account, version, name), content)
    symlinkSync(version, join(account, '..data_tmp'))
    renameSync(join(account, '..data_tmp'), join(account, '..data'))
    if (versions > 1) rmSync(join(account, `..${versions - 2}`), { recursive: true })
  }
  rotate(token)
  for (const name of ['token', 'ca.crt', 'namespace']) symlinkSync(`..data/${name}`, join(account, name))
  const environment = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    KUBERNETES_SERVICE_HOST: host,
    KUBERNETES_SERVICE_PORT: port,
  }
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`)
  return {
    server: `https://${host}:${port}`,
    run: (...command) => [
      'unshare',
      '--mount',
      '--propagation',
      'private',
      'sh',
      '-c',
      SCRIPT,
      folder,
      'env',
      '-i',
      ...variables,
      ...command,
    ],
    rotate,
  }
}

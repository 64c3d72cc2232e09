/**
 * Checks what tests need in addition to Node: real servers and real clients. A test needs those whose modules are among
 * its sources. Tests never skip because one is missing. It is installed by root and in CI, which have agreed to that, and
 * elsewhere only with `--install`; otherwise one line names it.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { etcdBinary } from './etcd-process.js'
import { testPath } from './test-path.js'

interface Requirement {
  /** A description for people. */
  readonly what: string
  /** Debian's package. */
  readonly package: string
  /** The sources that run it; all others go through these. */
  readonly usedBy: readonly string[]
  isThere(): boolean
}

const ETCD = ['test/support/etcd-process.ts', 'bench/subjects/etcd.ts']
const COMPILER = ['bench/support/native.ts']
/** The file that runs the commands of the documents. */
const COMMANDS = 'test/docs/command-runner.ts'

export const requirements: readonly Requirement[] = [
  { what: 'etcd 3.4 or newer', package: 'etcd-server', usedBy: ETCD, isThere: () => isAtLeast(etcdBinary, 3, 4) },
  { what: 'etcdctl', package: 'etcd-client', usedBy: ETCD, isThere: () => runs('etcdctl', 'version') },
  {
    what: 'nats-server',
    package: 'nats-server',
    usedBy: ['test/support/nats-process.ts'],
    isThere: () => runs('nats-server', '--version'),
  },
  {
    what: 'curl',
    package: 'curl',
    usedBy: ['test/support/curl.ts', COMMANDS],
    isThere: () => runs('curl', '--version'),
  },
  {
    what: 'openssl',
    package: 'openssl',
    usedBy: ['test/support/openssl.ts'],
    isThere: () => runs('openssl', 'version'),
  },
  {
    what: 'prometheus and promtool',
    package: 'prometheus',
    usedBy: ['test/ops/support/prometheus.ts', COMMANDS],
    isThere: () => runs('promtool', '--version'),
  },
  {
    what: 'chromium',
    package: 'chromium',
    usedBy: ['test/support/launch-chromium.ts'],
    isThere: () => runs('chromium', '--version'),
  },
  {
    what: 'nginx',
    package: 'nginx',
    usedBy: ['test/support/http-cache.ts'],
    isThere: () => runs('nginx', '-v'),
  },
  {
    what: 'varnishd',
    package: 'varnish',
    usedBy: ['test/support/http-cache.ts'],
    isThere: () => runs('varnishd', '-V'),
  },
  {
    what: 'PostgreSQL',
    package: 'postgresql',
    usedBy: ['test/clients/support/postgres.ts'],
    isThere: () => existsSync('/usr/lib/postgresql'),
  },
  {
    what: 'Patroni',
    package: 'patroni',
    usedBy: ['test/clients/support/patroni.ts'],
    isThere: () => runs('patroni', '--version'),
  },
  {
    what: 'nft',
    package: 'nftables',
    usedBy: ['test/clients/support/proxied.ts'],
    isThere: () => runs('nft', '--version'),
  },
  {
    what: 'tmux',
    package: 'tmux',
    usedBy: ['test/clients/support/terminal.ts'],
    isThere: () => runs('tmux', '-V'),
  },
  { what: 'a C compiler', package: 'gcc', usedBy: COMPILER, isThere: () => runs('cc', '--version') },
  {
    what: "the C library's headers",
    package: 'libc6-dev',
    usedBy: COMPILER,
    isThere: () => existsSync('/usr/include/stdio.h'),
  },
  {
    what: 'kubectl',
    package: 'kubernetes-client',
    usedBy: ['test/support/kubectl.ts', COMMANDS],
    isThere: () => runs('kubectl', 'version', '--client'),
  },
]

/** The requirements of tests with these sources. */
export function requirementsOf(sources: ReadonlySet<string>): readonly Requirement[] {
  return requirements.filter(({ usedBy }) => usedBy.some((source) => sources.has(source)))
}

/**
 * Returns null when everything that these sources need is available (or now installed); otherwise the one line that
 * says what to install.
 *
 * @param mayInstall the user passed `--install`: use sudo, without a prompt.
 */
export function provideRequirements(sources: ReadonlySet<string>, mayInstall = false): string | null {
  let missing = requirementsOf(sources).filter((requirement) => !requirement.isThere())
  if (missing.length === 0) return null
  const prefix = installPrefix(mayInstall)
  if (prefix) {
    const names = missing.map((requirement) => requirement.package)
    process.stdout.write(`The tests need ${names.join(', ')}: installing with apt-get\n`)
    runQuietly([...prefix, 'sh', '-c', INSTALL, 'install', ...names])
    missing = missing.filter((requirement) => !requirement.isThere())
    if (missing.length === 0) return null
  }
  const what = missing.map((requirement) => requirement.what).join(', ')
  const packages = missing.map((requirement) => requirement.package).join(' ')
  const how = prefix ? '' : ', or repeat the command with -- --install'
  return `The tests need ${what}, which this machine lacks: apt-get install ${packages}${how}`
}

/**
 * Debian starts a daemon (etcd, nginx, PostgreSQL …) when its package is installed, unless this policy file forbids it.
 * A policy that is already there stays. The package lists may be outdated, or empty in a fresh container: they are
 * fetched only then.
 */
const INSTALL = `
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy" || exit 1
fi
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install --yes --no-install-recommends "$@"; }
install "$@" || { apt-get update && install "$@"; }
`

/** How to run a command as root here; null when nobody has agreed to installing, or that needs a prompt. */
function installPrefix(mayInstall: boolean): readonly string[] | null {
  if (!runs('apt-get', '--version')) return null
  if (process.getuid?.() === 0) return []
  if (!mayInstall && process.env['CI'] === undefined) return null
  return runs('sudo', '-n', 'true') ? ['sudo', '-n'] : null
}

function run(command: string, args: readonly string[]): { isFine: boolean; output: string } {
  const { status, stdout } = spawnSync(command, args, {
    encoding: 'utf8',
    timeout: 30_000,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, PATH: testPath },
  })
  return { isFine: status === 0, output: stdout ?? '' }
}

function runs(command: string, ...args: string[]): boolean {
  return run(command, args).isFine
}

function isAtLeast(command: string, major: number, minor: number): boolean {
  const { isFine, output } = run(command, ['--version'])
  const version = /(\d+)\.(\d+)\.\d+/.exec(output)
  if (!isFine || !version) return false
  const [foundMajor, foundMinor] = [Number(version[1]), Number(version[2])]
  return foundMajor > major || (foundMajor === major && foundMinor >= minor)
}

/** Installing chromium from a slow mirror takes minutes. */
function runQuietly([command, ...args]: readonly string[]): boolean {
  return spawnSync(command!, args, { stdio: 'ignore', timeout: 600_000 }).status === 0
}

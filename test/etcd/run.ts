/**
 * `npm run judge -- etcd [--version 3.7] [TEST…]`: the tests that use a real etcd, on the releases that people run. Each
 * release is built from its Go modules the first time, which takes minutes. If Go is missing, the modules cannot be
 * fetched, or building takes longer than `--build-seconds`, a line says what is skipped. The last line is `N passed, N
 * failed`.
 */
import { parseArgs } from 'node:util'
import { NoProgramError } from '../support/go-program.js'
import { sourcesOf } from '../support/imports.js'
import { provideRequirements } from '../support/requirements.js'
import { runTap } from '../support/run-tap.js'
import { selectTests } from '../support/select-tests.js'
import { buildEtcd, buildEtcdctl, etcdVersions, type EtcdVersion } from './versions.js'
import { fail, print, verdict } from '../support/verdict.js'
import { runMain } from '../support/run-main.js'

/**
 * `test/etcd` contains the tests that only this run includes: they take minutes, root, or a newer etcd than Debian's.
 */
const SUITES = [
  'test/engine/upstream',
  'test/engine/feed',
  'test/fault',
  'test/fleet',
  'test/integration',
  'test/etcd',
  'test/etcd-api',
]

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: {
      version: { type: 'string', multiple: true },
      'build-seconds': { type: 'string', default: '600' },
    },
    allowPositionals: true,
  })
  const wanted = values.version ?? etcdVersions
  const unknown = wanted.filter((version) => !isKnown(version))
  if (unknown.length > 0) return fail(`etcd ${unknown.join(', ')} is not built here: ${etcdVersions.join(', ')}`)
  const buildSeconds = Number(values['build-seconds'])
  if (!(buildSeconds > 0)) return fail(`--build-seconds ${values['build-seconds']} is not a number above 0`)
  const files = selectTests(positionals.length === 0 ? SUITES : positionals)
  const lack = provideRequirements(sourcesOf(files))
  if (lack !== null) return fail(lack)

  let passed = 0
  let failed = 0
  for (const version of etcdVersions.filter((each) => wanted.includes(each))) {
    const program = builtOr(() => buildEtcd(version, performance.now() + buildSeconds * 1_000), `etcd ${version}`)
    if (program === null) continue
    print(`== etcd ${version}`)
    // Inherited and read by the tests' own processes.
    process.env['ETCD_BIN'] = program
    const etcdctl =
      version === '3.7' ? builtOr(() => buildEtcdctl(performance.now() + buildSeconds * 1_000), 'etcdctl') : null
    if (etcdctl === null) delete process.env['ETCDCTL_BIN']
    else process.env['ETCDCTL_BIN'] = etcdctl
    const outcome = await runTap(files, { seconds: 600 })
    print(`etcd ${version}: ${outcome.passed} passed, ${outcome.failed} failed`)
    passed += outcome.passed
    failed += outcome.failed
  }
  return verdict({ passed, failed })
}

/** Returns the path of the program; null, after printing the reason, when it cannot be built. */
function builtOr(build: () => string, what: string): string | null {
  try {
    return build()
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    print(`skipped: ${what}, since ${error.message}`)
    return null
  }
}

function isKnown(version: string): version is EtcdVersion {
  return (etcdVersions as readonly string[]).includes(version)
}

await runMain(import.meta.url, main)

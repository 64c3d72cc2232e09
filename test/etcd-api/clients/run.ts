/**
 * `npm run judge -- etcd-clients [--clients NAME,…] [--build-seconds N]`: programs that speak etcd's own API, unchanged, with
 * distributary as their etcd and etcd 3.7 behind it. A program that cannot be built or fetched here is skipped, with a
 * line that says so. The last line is `N passed, N failed`.
 */
import { parseArgs } from 'node:util'
import { provideJava } from '../../clients/support/java.js'
import { tryToProvide } from '../../clients/support/provide.js'
import { providePython } from '../../clients/support/python.js'
import { buildEtcd } from '../../etcd/versions.js'
import { buildGoProgram } from '../../support/go-program.js'
import { runMain } from '../../support/run-main.js'
import { runTap } from '../../support/run-tap.js'
import { fail, verdict } from '../../support/verdict.js'
import { clientv3, coreDns, robustness } from './programs.js'

/** Each is tested by the file of its name, once it is provided. @param deadlineMs of `performance.now()`. */
const clients: Readonly<Record<string, (deadlineMs: number) => unknown>> = {
  clientv3: (deadlineMs) => buildGoProgram(clientv3, deadlineMs),
  coredns: (deadlineMs) => buildGoProgram(coreDns, deadlineMs),
  jetcd: (deadlineMs) => provideJava('jetcd', deadlineMs),
  python: () => providePython('etcd.txt'),
  robustness: (deadlineMs) => buildGoProgram(robustness, deadlineMs),
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      clients: { type: 'string', default: Object.keys(clients).join() },
      'build-seconds': { type: 'string', default: '1200' },
    },
  })
  const names = values.clients.split(',')
  const unknown = names.filter((name) => !Object.hasOwn(clients, name))
  if (unknown.length > 0) return fail(`no client is called ${unknown.join(' ')}: ${Object.keys(clients).join(', ')}`)
  const deadlineMs = performance.now() + Number(values['build-seconds']) * 1_000
  const hasEtcd = tryToProvide('etcd 3.7', () => (process.env['ETCD_BIN'] = buildEtcd('3.7', deadlineMs)))
  const runnable = hasEtcd ? names.filter((name) => tryToProvide(name, () => clients[name]!(deadlineMs))) : []
  if (runnable.length === 0) return verdict({ passed: 0, failed: 0 })
  return verdict(
    await runTap(
      runnable.map((name) => `test/etcd-api/clients/${name}.ts`),
      { jobs: 1 },
    ),
  )
}

await runMain(import.meta.url, main)

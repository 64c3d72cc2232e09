/**
 * `npm run test:onboarding -- [--build-seconds N] [--seconds N] [NAME...]`: what docs/onboarding.md says, followed on Kubernetes' own
 * API server: manifests, the patches there and back, an agent that is moved, `distributary doctor`, and a restart of the API
 * server behind `--upstream`. Names are files of this
 * folder. Skipped with a line where the programs cannot be built. The last line is `N passed, N failed`.
 */
import { parseArgs } from 'node:util'
import { kubeStateMetrics } from '../clients/programs.js'
import { buildEtcd } from '../etcd/versions.js'
import { buildKubernetes } from '../reference/programs.js'
import { buildGoProgram, NoProgramError } from '../support/go-program.js'
import { sourcesOf } from '../support/imports.js'
import { provideRequirements } from '../support/requirements.js'
import { runTap } from '../support/run-tap.js'

const all = ['manifests', 'kube-state-metrics', 'doctor', 'api-server-restart'] as const

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { 'build-seconds': { type: 'string', default: '3600' }, seconds: { type: 'string', default: '600' } },
  })
  const unknown = positionals.filter((name) => !all.some((one) => one === name))
  if (unknown.length > 0) throw new Error(`there is no ${unknown.join(' ')}: ${all.join(', ')}`)
  const deadlineMs = performance.now() + Number(values['build-seconds']) * 1_000
  try {
    process.env['ETCD_BIN'] = buildEtcd('3.7', deadlineMs)
    buildKubernetes('kube-apiserver', deadlineMs)
    buildGoProgram(kubeStateMetrics, deadlineMs)
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    process.stdout.write(`skipped: onboarding on the API server, since ${error.message}\n0 passed, 0 failed\n`)
    return 0
  }
  const files = (positionals.length > 0 ? positionals : all).map((name) => `test/onboarding/${name}.ts`)
  const lack = provideRequirements(sourcesOf(files))
  if (lack !== null) throw new Error(lack)
  const { passed, failed } = await runTap(files, { seconds: Number(values.seconds), jobs: 1 })
  process.stdout.write(`${passed} passed, ${failed} failed\n`)
  return failed === 0 ? 0 : 1
}

process.exitCode = await main()

/**
 * `npm run test:onboarding -- [--build-seconds N] [--seconds N] [NAME...]`: what docs/onboarding.md says, followed on
 * Kubernetes' own API server: manifests, the patches there and back, an agent that is moved, clients with the settings of a pod, `distributary doctor`, and a
 * restart of the API server behind `--upstream`. Names are files of this folder. Skipped with a line where the programs
 * cannot be built. The last line is `N passed, N failed`.
 */
import { parseArgs } from 'node:util'
import { kubeStateMetrics } from '../clients/programs.js'
import { buildEtcd } from '../etcd/versions.js'
import { buildKubernetes } from '../reference/programs.js'
import { buildGoProgram, NoProgramError } from '../support/go-program.js'
import { sourcesOf } from '../support/imports.js'
import { provideRequirements } from '../support/requirements.js'
import { runTap } from '../support/run-tap.js'
import { fail, verdict } from '../support/verdict.js'
import { runMain } from '../support/run-main.js'

const all = [
  'manifests',
  'kube-state-metrics',
  'in-cluster',
  'doctor',
  'api-server-restart',
  'two-replicas',
  'passed-watches',
  'patroni',
] as const

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { 'build-seconds': { type: 'string', default: '3600' }, seconds: { type: 'string', default: '600' } },
  })
  const unknown = positionals.filter((name) => !all.some((one) => one === name))
  if (unknown.length > 0) return fail(`there is no ${unknown.join(' ')}: ${all.join(', ')}`)
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
  if (lack !== null) return fail(lack)
  return verdict(await runTap(files, { seconds: Number(values.seconds), jobs: 1 }))
}

await runMain(import.meta.url, main)

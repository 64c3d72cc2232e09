/**
 * `npm run judge -- forms [--forms workers,nats,upstream,api-server] [TEST…]`: repeats tests with a server in another
 * form than the plain one at etcd: with two workers, as an edge that NATS feeds, behind another server, behind
 * Kubernetes' own API server. By default these are attacks and limits, also through nginx and Varnish, in each form.
 * The last line is `N passed, N failed`.
 */
import { parseArgs } from 'node:util'
import { fileURLToPath } from 'node:url'
import { buildEtcd } from '../etcd/versions.js'
import { ETCD_OF_API_SERVER } from '../clients/support/provide.js'
import { buildKubernetes } from '../reference/programs.js'
import { NoProgramError } from '../support/go-program.js'
import { sourcesOf } from '../support/imports.js'
import { bundlePrograms } from '../support/program.js'
import { provideRequirements } from '../support/requirements.js'
import { runMain } from '../support/run-main.js'
import { runTap } from '../support/run-tap.js'
import { selectTests } from '../support/select-tests.js'
import { fail, print, verdict } from '../support/verdict.js'

const FORMS = ['workers', 'nats', 'upstream', 'api-server'] as const

const SUITES = ['test/security', 'test/edge/cross-talk.test.ts', 'test/fault/bounds.test.ts']

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({ options: { forms: { type: 'string' } }, allowPositionals: true })
  const forms = values.forms === undefined ? FORMS : FORMS.filter((form) => values.forms!.split(',').includes(form))
  const files = selectTests(positionals.length === 0 ? SUITES : positionals)
  const lack = provideRequirements(sourcesOf([...files, ...forms.map((form) => `test/forms/${form}.ts`)]))
  if (lack !== null) return fail(lack)
  await bundlePrograms()
  const sum = { passed: 0, failed: 0 }
  for (const form of forms) {
    print(`== ${form}`)
    if (form === 'api-server' && !hasApiServer()) continue
    process.env['TEST_SERVER_FORM'] = fileURLToPath(new URL(`${form}.js`, import.meta.url))
    const { passed, failed } = await runTap(files)
    sum.passed += passed
    sum.failed += failed
  }
  return verdict(sum)
}

function hasApiServer(): boolean {
  try {
    process.env['ETCD_BIN'] = buildEtcd(ETCD_OF_API_SERVER)
    buildKubernetes('kube-apiserver')
    return true
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    print(`skipped: ${error.message}`)
    return false
  }
}

await runMain(import.meta.url, main)

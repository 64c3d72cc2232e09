/**
 * `npm run judge -- NAME [OPTION…]`: runs one of the judges below, with its own options, which `--help` after its name
 * shows. Each judges this project by other programs, by other runtimes, or over a long time. The last line of each is
 * `N passed, N failed`.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { fail } from './support/verdict.js'

/** The runner of each judge, relative to `test/`, and the options that make it one. */
export const judges: Readonly<Record<string, readonly [runner: string, ...options: string[]]>> = {
  bun: ['bun/run'],
  clients: ['clients/run'],
  encryption: ['reference/encryption/run'],
  etcd: ['etcd/run'],
  'etcd-api': ['etcd-api/api-servers'],
  'etcd-clients': ['etcd-api/clients/run'],
  forms: ['forms/run'],
  growth: ['growth/run'],
  h2spec: ['h2spec/run'],
  nats: ['nats/run'],
  onboarding: ['onboarding/run'],
  package: ['ops/package-on-nodes'],
  reference: ['reference/run'],
  schema: ['kubernetes/codec/protobuf/schema/program', '--check'],
  soak: ['soak/run'],
}

function main([name = '', ...options]: readonly string[]): number {
  const judge = Object.hasOwn(judges, name) ? judges[name] : undefined
  if (judge === undefined)
    return fail(`usage: npm run judge -- NAME [OPTION…], with NAME ${Object.keys(judges).join(', ')}`)
  const [runner, ...own] = judge
  const path = fileURLToPath(new URL(`${runner}.js`, import.meta.url))
  const { status } = spawnSync(process.execPath, [path, ...own, ...options], { stdio: 'inherit' })
  return status ?? 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2))

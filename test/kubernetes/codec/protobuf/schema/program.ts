/**
 * `npm run generate:schema` generates `src/kubernetes/codec/protobuf/kubernetes-schema.txt` from Kubernetes' Go types,
 * of the release in `kubernetes-types/go.mod`. `npm run judge -- schema` (`--check`) compares every field, number and tag
 * with them instead.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { buildGoProgram, NoProgramError } from '../../../../support/go-program.js'
import { withHistory } from './history.js'

const root = fileURLToPath(new URL('../../../../../../', import.meta.url))
const source = `${root}test/kubernetes/codec/protobuf/kubernetes-types`
const file = `${root}src/kubernetes/codec/protobuf/kubernetes-schema.txt`

function makeTable(before: string, deadlineMs: number): string {
  const release = execFileSync(buildGoProgram({ source }, deadlineMs), {
    encoding: 'utf8',
    maxBuffer: 16 * 1024 * 1024,
  })
  const version = /k8s\.io\/api v0\.(\S+)/.exec(readFileSync(`${source}/go.mod`, 'utf8'))![1]!
  const head = [
    `# The messages of the Kubernetes API, in the notation that schema.ts documents. Kubernetes 1.${version}, and what`,
    '# earlier releases had besides. Made by npm run generate:schema; do not edit. Only facts are taken from the Go types',
    '# of k8s.io/api, apimachinery, apiextensions-apiserver and kube-aggregator (Apache-2.0, The Kubernetes Authors).',
  ]
  return `${head.join('\n')}\n${withHistory(release, before)}`
}

function main(isCheck: boolean, buildSeconds: number): void {
  const before = readFileSync(file, 'utf8')
  let table: string
  try {
    table = makeTable(before, performance.now() + buildSeconds * 1_000)
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    process.stdout.write(`skipped: ${error.message}\n`)
    return
  }
  if (!isCheck) {
    writeFileSync(file, table)
    return
  }
  const [wanted, found] = [table, before].map((text) => new Set(text.split('\n')))
  const missing = [...wanted!].filter((line) => !found!.has(line))
  const extra = [...found!].filter((line) => !wanted!.has(line))
  for (const line of extra) process.stdout.write(`- ${line}\n`)
  for (const line of missing) process.stdout.write(`+ ${line}\n`)
  const isSame = table === before
  if (!isSame) process.exitCode = 1
  const differing = Math.max(missing.length, extra.length, isSame ? 0 : 1)
  process.stdout.write(`${wanted!.size - missing.length} passed, ${differing} failed\n`)
}

const { values } = parseArgs({
  options: { check: { type: 'boolean', default: false }, 'build-seconds': { type: 'string', default: '600' } },
})
main(values.check, Number(values['build-seconds']))

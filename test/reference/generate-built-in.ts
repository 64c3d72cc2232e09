/**
 * Makes what comes from the API server's own code: `npm run generate:roles` its Roles and bindings, for
 * `src/server/auth/authz/bootstrap-roles.json`; `npm run generate:defaults` the responses in
 * `test/data/kubernetes-defaults/manifests.jsonl`, from the manifests that are in it. The release is in
 * `built-in/go.mod`.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { buildGoProgram, NoProgramError } from '../support/go-program.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const ROLES = `${root}src/server/auth/authz/bootstrap-roles.json`
const DEFAULTS = `${root}test/data/kubernetes-defaults/manifests.jsonl`

function run(mode: string, input: string): string {
  const program = buildGoProgram({ source: `${root}test/reference/built-in` })
  return execFileSync(program, [mode], { encoding: 'utf8', input, maxBuffer: 64 * 1024 * 1024 })
}

function makeRoles(): void {
  const lines = run('roles', '').trim().split('\n').map(withoutEmpty)
  writeFileSync(ROLES, `[\n${lines.join(',\n')}\n]\n`)
}

/** Go writes empty metadata members of its own, which nobody has set. */
function withoutEmpty(line: string): string {
  return JSON.stringify(JSON.parse(line, (key, value: unknown) => (key !== '' && value === null ? undefined : value)))
}

function makeDefaults(): void {
  const manifests = readFileSync(DEFAULTS, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.stringify((JSON.parse(line) as { manifest: unknown }).manifest))
  writeFileSync(DEFAULTS, run('defaults', manifests.join('\n')))
}

const [what] = process.argv.slice(2)
try {
  if (what === 'roles') makeRoles()
  else if (what === 'defaults') makeDefaults()
  else throw new Error('takes roles or defaults')
} catch (error) {
  if (!(error instanceof NoProgramError)) throw error
  process.stdout.write(`skipped: ${error.message}\n`)
}

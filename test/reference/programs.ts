/**
 * The program that the comparison needs and no distribution has: the generic API server, of one version, built from the Go
 * module beside this file. What was built is kept in the user's cache folder, by the hash of its
 * sources, so that only the first run waits for the compiler.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const sources = fileURLToPath(new URL('../../../test/reference/', import.meta.url))

export type ProgramName = 'apiserver'

/** The path of the program, which is built first where it is not in the cache. @throws Error when Go is missing or fails. */
export function buildProgram(name: ProgramName): string {
  const source = join(sources, name)
  const hash = createHash('sha256')
  for (const file of readdirSync(source).sort()) hash.update(file).update(readFileSync(join(source, file)))
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'distributary', 'reference')
  const program = join(folder, `${name}-${hash.digest('hex').slice(0, 16)}`)
  if (existsSync(program)) return program
  mkdirSync(folder, { recursive: true })
  // Built beside its place and moved there, so that a run that is cut short leaves no half a program behind.
  const building = mkdtempSync(join(folder, 'building-'))
  try {
    process.stdout.write(`building ${name}, which takes minutes the first time\n`)
    const output = join(building, name)
    execFileSync('go', ['build', '-trimpath', '-o', output, '.'], {
      cwd: source,
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    renameSync(output, program)
  } finally {
    rmSync(building, { recursive: true, force: true })
  }
  return program
}

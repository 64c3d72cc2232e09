/**
 * Programs that are built from Go modules in this repository. What was built is kept in the user's cache folder, by the hash
 * of its sources, so that only the first run waits for the compiler.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'

export function hasGo(): boolean {
  return spawnSync('go', ['version'], { stdio: 'ignore' }).status === 0
}

/**
 * The path of the program, which is built first where it is not in the cache.
 *
 * @param source the folder of its module.
 * @param variables string variables that the linker sets, by their package and name.
 * @throws Error when the build fails.
 */
export function buildGoProgram(source: string, variables: Readonly<Record<string, string>> = {}): string {
  const set = Object.entries(variables).map(([name, value]) => `-X ${name}=${value}`)
  const name = basename(source)
  const hash = createHash('sha256').update(set.join('\n'))
  for (const file of readdirSync(source).sort()) hash.update(file).update(readFileSync(join(source, file)))
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'distributary', 'clients')
  const program = join(folder, `${name}-${hash.digest('hex').slice(0, 16)}`)
  if (existsSync(program)) return program
  mkdirSync(folder, { recursive: true })
  // The build is moved to its place when it is complete: a run that is cut short leaves no half of a program behind.
  const building = mkdtempSync(join(folder, 'building-'))
  try {
    const output = join(building, name)
    // One package at a time and with the least priority: the machine may be small, and others may work on it.
    const command = ['-n', '19', 'go', 'build', '-p', '1', '-trimpath', `-ldflags=${set.join(' ')}`, '-o', output, '.']
    execFileSync('nice', command, { cwd: source, stdio: ['ignore', 'ignore', 'inherit'] })
    renameSync(output, program)
  } finally {
    rmSync(building, { recursive: true, force: true })
  }
  return program
}

/**
 * Builds programs from the Go modules in this repository. A program is kept in the user's cache folder, under the hash of
 * its sources, so that only the first run waits for the compiler.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'

export function hasGo(): boolean {
  return spawnSync('go', ['version'], { stdio: 'ignore' }).status === 0
}

export interface BuildOptions {
  /** String variables that the linker sets, by their package and name. */
  readonly variables?: Readonly<Record<string, string>>
  /** The folder below the user's cache folder. Default: `clients`. */
  readonly cache?: string
}

/**
 * Returns the path of the program, which is built first when it is not in the cache.
 *
 * @param source the folder of its module.
 * @throws Error when Go is missing or the build fails.
 */
export function buildGoProgram(source: string, { variables = {}, cache = 'clients' }: BuildOptions = {}): string {
  const set = Object.entries(variables).map(([name, value]) => `-X ${name}=${value}`)
  const name = basename(source)
  const hash = createHash('sha256').update(set.join('\n'))
  for (const file of readdirSync(source).sort()) hash.update(file).update(readFileSync(join(source, file)))
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'distributary', cache)
  const program = join(folder, `${name}-${hash.digest('hex').slice(0, 16)}`)
  if (existsSync(program)) return program
  mkdirSync(folder, { recursive: true })
  // The program is moved to its place when it is complete, so that an interrupted run leaves no half of it behind.
  const building = mkdtempSync(join(folder, 'building-'))
  try {
    const output = join(building, name)
    process.stderr.write(`building ${name}, which takes minutes the first time\n`)
    // One package at a time and with the least priority, since the machine may be small and in use.
    const command = ['-n', '19', 'go', 'build', '-p', '1', '-trimpath', `-ldflags=${set.join(' ')}`, '-o', output, '.']
    execFileSync('nice', command, { cwd: source, stdio: ['ignore', 'ignore', 'inherit'] })
    renameSync(output, program)
  } finally {
    rmSync(building, { recursive: true, force: true })
  }
  return program
}

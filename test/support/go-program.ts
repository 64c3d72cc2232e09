/**
 * Builds Go programs from modules in this repository. Binaries are cached in the user's cache folder by the hash of
 * their sources, so that only the first run waits for the compiler.
 *
 * A machine may lack Go, access to the modules, or the time to compile them. That says nothing about what is tested, so
 * it has its own error (`NoProgramError`), on which runners skip; a program that does not compile is an ordinary error.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'

export interface GoProgram {
  /** The folder of its module; the program has the folder's name. */
  readonly source: string
  /** The package to build. Default: the folder's own; else one of another module in its go.mod. */
  readonly package?: string
  /** String variables set by the linker, by package and name. */
  readonly variables?: Readonly<Record<string, string>>
}

const BUILD_MS = 10 * 60_000

/** The program cannot be built on this machine, for a reason that is the machine's. */
export class NoProgramError extends Error {
  override readonly name = 'NoProgramError'
}

/**
 * Returns the path of the program, and builds it if it is not cached.
 *
 * @param deadlineMs of `performance.now()`, for fetching and building.
 * @throws NoProgramError when Go, its modules or the time to build are missing; Error when the program does not
 * compile.
 */
export function buildGoProgram(
  { source, package: built = '.', variables = {} }: GoProgram,
  deadlineMs = performance.now() + BUILD_MS,
): string {
  const set = Object.entries(variables).map(([name, value]) => `-X ${name}=${value}`)
  const name = basename(source)
  const hash = createHash('sha256').update([...set, built].join('\n'))
  for (const file of readdirSync(source).sort()) hash.update(file).update(readFileSync(join(source, file)))
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'distributary', 'programs')
  const program = join(folder, `${name}-${hash.digest('hex').slice(0, 16)}`)
  if (existsSync(program)) return program
  const leftMs = (): number => Math.max(1, Math.floor(deadlineMs - performance.now()))
  fetchModules(name, source, built, leftMs())
  mkdirSync(folder, { recursive: true })
  // The finished build is moved into place: an interrupted run leaves no partial program.
  const building = mkdtempSync(join(folder, 'building-'))
  try {
    process.stdout.write(`building ${name}, which takes minutes the first time\n`)
    const output = join(building, name)
    // Not at low priority: the caller waits, and on a busy machine it would not finish in time.
    const command = ['build', '-trimpath', `-ldflags=${set.join(' ')}`, '-o', output, built]
    execFileSync('go', command, { cwd: source, stdio: ['ignore', 'ignore', 'inherit'], timeout: leftMs() })
    renameSync(output, program)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ETIMEDOUT') throw error
    throw new NoProgramError(`there was no time left to build ${name}`, { cause: error })
  } finally {
    rmSync(building, { recursive: true, force: true })
  }
  return program
}

/** The folder of a module that the program's module requires, for files that are not in the program. */
export function moduleFolder({ source }: GoProgram, module: string): string {
  const fetched = execFileSync('go', ['mod', 'download', '-json', module], { cwd: source, encoding: 'utf8' })
  return (JSON.parse(fetched) as { readonly Dir: string }).Dir
}

/** Fetches what the compiler needs from the module cache or from where Go is configured to fetch. */
function fetchModules(name: string, source: string, built: string, timeout: number): void {
  if (spawnSync('go', ['version'], { stdio: 'ignore' }).status !== 0) throw new NoProgramError('Go is not installed')
  const { status, stderr } = spawnSync('go', ['list', '-deps', built], {
    cwd: source,
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
    timeout,
  })
  if (status === 0) return
  const said = `${name}: ${stderr.trim().split('\n').at(-1)?.slice(0, 300) ?? ''}`
  // A module missing from our own files is our mistake.
  if (/\bgo\.(mod|sum)\b|no required module/.test(stderr)) throw new Error(said)
  throw new NoProgramError(`the Go modules cannot be fetched: ${said}`)
}

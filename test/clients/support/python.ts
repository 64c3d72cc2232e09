/**
 * Python with the packages of a file in ../python, in a virtual environment in the user's cache folder, by the
 * hash of that file.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const pythonFolder = fileURLToPath(new URL('../../../../test/clients/python/', import.meta.url))

const INSTALL_MS = 5 * 60_000

/** This machine has no Python 3 with venv, or no access to the packages. */
export class NoPythonError extends Error {
  override readonly name = 'NoPythonError'
}

/** The path of its interpreter. @param packages the file that lists them. @throws NoPythonError */
export function providePython(packages: 'requirements.txt' | 'etcd.txt' = 'requirements.txt'): string {
  const requirements = join(pythonFolder, packages)
  const hash = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 16)
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'distributary')
  const complete = join(folder, `python-${hash}`)
  const interpreter = join(complete, 'bin/python')
  if (existsSync(interpreter)) return interpreter
  mkdirSync(folder, { recursive: true })
  // Moved into place when complete; `python -m` still works there, the scripts in bin would not.
  const building = mkdtempSync(join(folder, 'building-'))
  try {
    run('there is no Python 3 with venv', 'python3', ['-m', 'venv', building])
    const install = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--requirement', requirements]
    run('its packages cannot be fetched', join(building, 'bin/python'), install)
    renameSync(building, complete)
  } finally {
    rmSync(building, { recursive: true, force: true })
  }
  return interpreter
}

function run(otherwise: string, command: string, args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(command, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
    timeout: INSTALL_MS,
  })
  if (status === 0) return
  const said = (stderr ?? error?.message ?? '').trim().split('\n').at(-1)?.slice(0, 200)
  throw new NoPythonError(`${otherwise}${said === undefined || said === '' ? '' : `: ${said}`}`)
}

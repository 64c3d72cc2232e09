/**
 * Finds Helm, which is a Go module: `HELM_BIN`, else the one in PATH, else the one that `npm run test:helm` has built
 * in the user's cache folder, outside the repository.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

const VERSION = 'v4.3.1'

const cached = join(
  process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'),
  'distributary',
  `helm-${VERSION}`,
  'helm',
)

const runs = (program: string): boolean => spawnSync(program, ['version', '--short']).status === 0

/** null without helm: the chart is then rendered only by our own small renderer. */
export function findHelm(): string | null {
  const named = process.env['HELM_BIN']
  if (named !== undefined && named !== '') {
    if (!runs(named)) throw new Error(`HELM_BIN=${named} does not run`)
    return named
  }
  if (runs('helm')) return 'helm'
  return existsSync(cached) ? cached : null
}

/** Takes some minutes the first time. @throws Error without Go, or without access to the module. */
export function provideHelm(): string {
  const found = findHelm()
  if (found !== null) return found
  mkdirSync(dirname(cached), { recursive: true })
  const { status, error } = spawnSync('go', ['install', '-ldflags=-s -w', `helm.sh/helm/v4/cmd/helm@${VERSION}`], {
    cwd: dirname(cached),
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, GOBIN: dirname(cached), GOFLAGS: '-mod=mod' },
  })
  if (error) throw error
  if (status !== 0) throw new Error(`go install ended with ${status}`)
  return cached
}

/** The program of ../rust, built by cargo in the user's cache folder. */
import { spawnSync } from 'node:child_process'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NoProgramError } from '../../support/go-program.js'

const manifest = fileURLToPath(new URL('../../../../test/clients/rust/Cargo.toml', import.meta.url))

const BUILD_MS = 10 * 60_000

/**
 * Its path.
 *
 * @param deadlineMs of `performance.now()`: a build ends then.
 * @throws NoProgramError when cargo, the crates or the time to build are missing.
 */
export function provideRust(deadlineMs = performance.now() + BUILD_MS): string {
  const target = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'distributary', 'rust')
  const args = ['build', '--quiet', '--locked', '--manifest-path', manifest, '--target-dir', target]
  const { status } = spawnSync('cargo', args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    timeout: Math.max(1, Math.floor(deadlineMs - performance.now())),
  })
  if (status !== 0) throw new NoProgramError('cargo cannot build it')
  return join(target, 'debug/follow')
}

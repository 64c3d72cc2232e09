/** The programs that run the server, from the npm packages `node` and `bun`. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

export type RuntimeName = 'node' | 'bun'

const programs: Readonly<Record<RuntimeName, string>> = {
  node: 'node_modules/node/bin/node',
  bun: 'node_modules/bun/bin/bun.exe', // on Linux, too
}

/**
 * The path of the runtime's program, installed in the user's cache folder.
 *
 * @param version as for npm: `22`, `24.20.0`.
 * @returns null, after printing the reason, when it is not available.
 */
export function runtimeProgram(name: RuntimeName, version: string): string | null {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  const folder = join(cache, 'distributary', `${name}s`, version)
  const program = join(folder, programs[name])
  try {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{"private":true}')
    // Installs new patch releases as they are published; without the registry, the previous one is used.
    run(folder, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-online', `${name}@${version}`)
  } catch (error) {
    if (!existsSync(program)) {
      const [why] = error instanceof Error ? error.message.split('\n') : ['']
      process.stderr.write(`skipped: ${name} ${version}, since npm cannot bring it: ${why}\n`)
      return null
    }
  }
  run(folder, program, '--version')
  return program
}

function run(cwd: string, program: string, ...args: readonly string[]): void {
  const { status, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}`)
}

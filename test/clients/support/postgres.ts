/** PostgreSQL's programs and its account, as Debian installs them. */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'

const versions = '/usr/lib/postgresql'

export interface Account {
  readonly uid: number
  readonly gid: number
}

/** The folder of the newest release's programs. */
export function postgresFolder(): string {
  const newest = readdirSync(versions).toSorted((a, b) => Number(b) - Number(a))[0]!
  return join(versions, newest, 'bin')
}

/** Null where this process is not root, and so runs programs as itself. */
export function accountOf(name: string): Account | null {
  if (process.getuid?.() !== 0) return null
  const id = (flag: string): number => Number(spawnSync('id', [flag, name], { encoding: 'utf8' }).stdout)
  return { uid: id('-u'), gid: id('-g') }
}

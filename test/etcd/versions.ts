/** The etcd releases that the tests run on besides Debian's, each built from the Go module in the folder of its name. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { buildGoProgram } from '../support/go-program.js'

export const etcdVersions = ['3.5', '3.6', '3.7'] as const

export type EtcdVersion = (typeof etcdVersions)[number]

const sources = fileURLToPath(new URL('../../../test/etcd/', import.meta.url))

/** Why its modules cannot be had here (no network, a proxy that lacks them); null when they can. */
export function missingModules(version: EtcdVersion): string | null {
  // It fetches what a build needs and no more, and builds nothing.
  const { status, stderr } = spawnSync('go', ['list', '-deps', '.'], {
    cwd: sourceOf(version),
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  return status === 0 ? null : (stderr.trim().split('\n').at(-1) ?? 'go list failed')
}

/** The path of the program, which is etcd and has the subcommand `snapshot` of etcdutl. @throws Error when the build fails. */
export function buildEtcd(version: EtcdVersion): string {
  return buildGoProgram(sourceOf(version))
}

function sourceOf(version: EtcdVersion): string {
  return `${sources}etcd-${version}`
}

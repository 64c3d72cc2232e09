/**
 * The etcd releases that the tests run on in addition to Debian's, each built from the Go module in the folder of its
 * name.
 */
import { fileURLToPath } from 'node:url'
import { buildGoProgram } from '../support/go-program.js'

export const etcdVersions = ['3.5', '3.6', '3.7'] as const

export type EtcdVersion = (typeof etcdVersions)[number]

const sources = fileURLToPath(new URL('../../../test/etcd/', import.meta.url))

/** Builds etcdctl of the newest release. @throws NoProgramError, Error as `buildGoProgram`. */
export function buildEtcdctl(deadlineMs?: number): string {
  return buildGoProgram({ source: `${sources}../etcd-api/etcdctl-3.7` }, deadlineMs)
}

/**
 * The path of the program, which is etcd with the subcommand `snapshot` of etcdutl.
 *
 * @throws NoProgramError, Error as `buildGoProgram`.
 */
export function buildEtcd(version: EtcdVersion, deadlineMs?: number): string {
  return buildGoProgram({ source: `${sources}etcd-${version}` }, deadlineMs)
}

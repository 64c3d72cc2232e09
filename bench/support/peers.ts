/**
 * The peers of today: etcd 3.7 (which is its grpc-proxy too) and the generic API server, built from Go modules by the code
 * that the tests use. Distributions ship an etcd that is years older.
 */
import { readFileSync } from 'node:fs'
import { buildEtcd } from '../../test/etcd/versions.js'
import { apiServer } from '../../test/reference/programs.js'
import { buildGoProgram, NoProgramError } from '../../test/support/go-program.js'

export interface Peers {
  /** Paths of the programs. */
  readonly etcd: string
  readonly apiServer: string
  readonly apiServerVersion: string
}

/** Builds them where they are not in the cache yet; null, with a line that says why, where they cannot be had. */
export function referencePeers(): Peers | null {
  try {
    const modules = readFileSync(`${apiServer.source}/go.mod`, 'utf8')
    const apiServerVersion = /k8s\.io\/apiserver v(\S+)/.exec(modules)?.[1] ?? 'unknown'
    return { etcd: buildEtcd('3.7'), apiServer: buildGoProgram(apiServer), apiServerVersion }
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    process.stderr.write(`bench: the machine's own etcd, and no API server, since ${error.message}\n`)
    return null
  }
}

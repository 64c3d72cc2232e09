/**
 * Current peers: etcd 3.7, which includes the grpc-proxy, and Kubernetes' API server, built from Go modules by the code
 * that the tests use. Distributions ship an etcd that is years older.
 */
import { buildEtcd } from '../../test/etcd/versions.js'
import { buildKubernetes, kubernetesVersion } from '../../test/reference/programs.js'
import { NoProgramError } from '../../test/support/go-program.js'

export interface Peers {
  /** The paths of the programs. */
  readonly etcd: string
  readonly apiServer: string
  readonly apiServerVersion: string
}

/**
 * Builds the programs that are not in the cache yet. Returns null, after printing the reason, if they are not
 * available.
 */
export function referencePeers(): Peers | null {
  try {
    return {
      etcd: buildEtcd('3.7'),
      apiServer: buildKubernetes('kube-apiserver'),
      apiServerVersion: kubernetesVersion.slice(1),
    }
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    process.stderr.write(`bench: the machine's own etcd, and no API server, since ${error.message}\n`)
    return null
  }
}

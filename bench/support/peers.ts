/**
 * Current peers: etcd 3.7, which includes the grpc-proxy, and Kubernetes' API server, built from Go modules by the code
 * that the tests use. Distributions ship an etcd that is years older.
 */
import { buildEtcd } from '../../test/etcd/versions.js'
import { buildControlPlane, buildKubernetes, buildKwok, kubernetesVersion } from '../../test/reference/programs.js'
import { NoProgramError } from '../../test/support/go-program.js'
import { runtimeProgram } from '../../test/support/runtime-program.js'

export interface Peers {
  /** The paths of the programs. */
  readonly etcd: string
  readonly apiServer: string
  readonly apiServerVersion: string
}

/** Fetching and compiling everything takes half an hour on two cores. */
const BUILD_ALL_MS = 3_600_000

/** @param deadlineMs of `performance.now()`, for building; 0 for programs that are built already. */
const builders: Readonly<Record<string, (deadlineMs: number) => unknown>> = {
  'etcd 3.7': (deadlineMs) => buildEtcd('3.7', deadlineMs),
  'the API server': (deadlineMs) => buildKubernetes('kube-apiserver', deadlineMs),
  'the control plane': (deadlineMs) => buildControlPlane(deadlineMs),
  kwok: (deadlineMs) => buildKwok(deadlineMs),
}
const runtimes = [
  ['Node 24', 'node', '24'],
  ['Bun', 'bun', '1'],
] as const

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

/** Returns the programs if they are built; it builds none. */
export function builtPeers(): Peers | null {
  const missing = missingPeers()
  return missing.includes('etcd 3.7') || missing.includes('the API server') ? null : referencePeers()
}

/** Builds all programs of all questions. @returns the names of those that cannot be built, with the reasons. */
export function buildPeers(): string[] {
  return unavailable(performance.now() + BUILD_ALL_MS)
}

/** Returns the names of the programs that are not there yet. It builds none. */
export function missingPeers(): string[] {
  return unavailable(0)
}

function unavailable(deadlineMs: number): string[] {
  const programs = Object.entries(builders).flatMap(([name, build]) => {
    try {
      build(deadlineMs)
      return []
    } catch (error) {
      if (!(error instanceof NoProgramError)) throw error
      if (deadlineMs > 0) process.stderr.write(`bench: no ${name}, since ${error.message}\n`)
      return [name]
    }
  })
  const others = runtimes.flatMap(([name, program, version]) =>
    runtimeProgram(program, version) === null ? [name] : [],
  )
  return [...programs, ...others]
}

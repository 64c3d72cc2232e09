/** Builds and fetches what the clients of the table need, before their tests run. */
import { buildEtcd } from '../../etcd/versions.js'
import { buildKubernetes } from '../../reference/programs.js'
import { buildGoProgram, NoProgramError } from '../../support/go-program.js'
import { print } from '../../support/verdict.js'
import type { OutsideClient } from '../table.js'
import { provideJava } from './java.js'
import { NoPythonError, providePython } from './python.js'
import { provideRust } from './rust.js'

/** Debian's is too old for Kubernetes' API server. */
export const ETCD_OF_API_SERVER = '3.7'

/** Returns false, and prints the reason, where this machine cannot provide it. */
export function tryToProvide(name: string, provide: () => unknown): boolean {
  try {
    provide()
    return true
  } catch (error) {
    if (!(error instanceof NoProgramError || error instanceof NoPythonError)) throw error
    print(`skipped: ${name}, since ${error.message}`)
    return false
  }
}

/** As `tryToProvide`, for a client. @param deadlineMs of `performance.now()`. */
export function isProvided(client: OutsideClient, deadlineMs: number): boolean {
  const { name, program, needsPython = false, needsJava, needsRust = false, needsApiServer = false } = client
  return tryToProvide(name, () => {
    if (program !== undefined) buildGoProgram(program, deadlineMs)
    if (needsApiServer) {
      buildEtcd(ETCD_OF_API_SERVER, deadlineMs)
      buildKubernetes('kube-apiserver', deadlineMs)
    }
    if (needsPython) providePython()
    if (needsJava !== undefined) provideJava(needsJava, deadlineMs)
    if (needsRust) provideRust(deadlineMs)
  })
}

/**
 * The exit codes of a server that ends by itself. Service managers rely on them (deploy/systemd restarts after 1, not
 * after 2), and docs/guide/operations.md lists them.
 */
import { ConfigError } from '../config/config-error.js'
import { mayPass } from '../config/passing-error.js'

const EXIT = { mayPass: 1, misconfigured: 2 } as const

/** Returns the exit code for a failure at the start. */
export function exitCodeOf(error: unknown): number {
  const isPassing = error instanceof ConfigError ? error.mayPass : mayPass(error)
  return isPassing ? EXIT.mayPass : EXIT.misconfigured
}

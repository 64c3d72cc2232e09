/** The openssl of the tests. */
import { execFileSync } from 'node:child_process'

/** @throws Error with its output when it fails. */
export function openssl(...args: readonly string[]): void {
  execFileSync('openssl', args, { stdio: 'pipe' })
}

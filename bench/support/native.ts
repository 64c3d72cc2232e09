/**
 * Builds the bench's C programs with the machine's own compiler, once per change of their source.
 *
 * A Node client was rejected as the receiving side: on two cores it would be saturated before the server is, and the
 * bench would measure the client. Without `cc` the bench says so and ends; the product itself needs no compiler.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, renameSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The root of the repository. This file runs as `.build/bench/support/native.js`. */
export const repositoryRoot = fileURLToPath(new URL('../../../', import.meta.url))

const sourceDirectory = `${repositoryRoot}bench/native/`
const builtDirectory = `${repositoryRoot}.build/bench/native/`

export type NativeProgram = 'watchers' | 'writer' | 'send-loop'

/** Returns the path of the built program. @throws Error with the compiler's output when it does not build. */
export function nativeProgram(name: NativeProgram): string {
  const built = builtDirectory + name
  const newest = Math.max(...readdirSync(sourceDirectory).map((file) => statSync(sourceDirectory + file).mtimeMs))
  if (existsSync(built) && statSync(built).mtimeMs > newest) return built
  mkdirSync(builtDirectory, { recursive: true })
  // Move the complete program into place, because another process may be about to run it.
  const making = `${built}.${process.pid}`
  const compile = (...libraries: string[]): void => {
    execFileSync('cc', ['-O2', '-Wall', `${sourceDirectory}${name}.c`, '-o', making, ...libraries], { stdio: 'pipe' })
  }
  try {
    if (name !== 'watchers') compile()
    else if (hasOpenssl()) compile('-DWITH_TLS', '-lssl', '-lcrypto')
    else compile()
    renameSync(making, built)
  } catch (error) {
    throw new Error(`bench: ${name}.c does not build; the bench needs a C compiler (Debian: gcc, libc6-dev)`, {
      cause: error,
    })
  }
  return built
}

/** OpenSSL's headers (Debian: libssl-dev) let the C watchers speak TLS; without them the TLS rows are left out. */
export function hasOpenssl(): boolean {
  return existsSync('/usr/include/openssl/ssl.h')
}

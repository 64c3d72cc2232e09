/** What a test runner prints at the end, and its exit code. */

export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** Prints why nothing could be tested. @returns the exit code. */
export function fail(message: string): number {
  process.stderr.write(`${message}\n`)
  return 1
}

/** Prints the last line of a test runner. @returns the exit code. */
export function verdict({ passed, failed }: { readonly passed: number; readonly failed: number }): number {
  print(`${passed} passed, ${failed} failed`)
  return failed === 0 ? 0 : 1
}

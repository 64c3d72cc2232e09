/** The verdict of a test runner, and its exit code. */

export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** Nothing could be tested. */
export function fail(message: string): number {
  process.stderr.write(`${message}\n`)
  return 1
}

/** The last line of every runner. */
export function verdict({ passed, failed }: { readonly passed: number; readonly failed: number }): number {
  print(`${passed} passed, ${failed} failed`)
  return failed === 0 ? 0 : 1
}

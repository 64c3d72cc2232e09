/** Lets a program that is no test use what tests do, such as a server process that ends with its test. */
import type { Test } from 'tap'

/** @param run uses only `teardown` of the test. */
export async function withTeardown(run: (t: Test) => Promise<void>): Promise<void> {
  const teardowns: (() => unknown)[] = []
  try {
    await run({ teardown: (done: () => unknown) => void teardowns.push(done) } as unknown as Test)
  } finally {
    for (const done of teardowns.reverse()) await done()
  }
}

/**
 * Resolves when the condition holds; a test waits for a condition, never for a time.
 *
 * @param condition may throw, which counts as not yet: a server that restarts refuses connections.
 * @param what names what is waited for.
 * @throws Error that says what did not happen, after `withinMs`, with the condition's last error as its cause.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string | (() => string),
  withinMs = 60_000,
): Promise<void> {
  const end = performance.now() + withinMs
  let cause: unknown
  for (;;) {
    // Another process is polled less often.
    let pauseMs = 2
    try {
      cause = undefined
      const holds = condition()
      if (holds === true) return
      if (holds !== false) {
        pauseMs = 20
        if (await holds) return
      }
    } catch (error) {
      cause = error
    }
    if (performance.now() > end) {
      throw new Error(`not within ${withinMs} ms: ${typeof what === 'string' ? what : what()}`, { cause })
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}

/** For faults that have to last for a while, and writers with a fixed rate; never instead of `until`. */
export async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
}

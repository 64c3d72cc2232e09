/** Time limits for waiting, which work even if the work itself ignores its signal. */
import type { Clock } from './clock.js'

/**
 * Runs `work` with a signal that aborts when `signal` does or when `timeoutMs` have passed. If the work continues
 * anyway, its result is dropped.
 *
 * @throws the error of `onTimeout` when time is up; the signal's reason when it aborts; any error of `work`.
 */
export async function withDeadline<T>(
  clock: Clock,
  timeoutMs: number,
  signal: AbortSignal | undefined,
  onTimeout: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted()
  const inner = new AbortController()
  let giveUp!: (reason: Error) => void
  const givenUp = new Promise<never>((_resolve, reject) => {
    giveUp = (reason) => {
      reject(reason)
      inner.abort(reason)
    }
  })
  const onAbort = (): void => giveUp(signal?.reason as Error)
  const timer = clock.setTimer(timeoutMs, () => giveUp(onTimeout()))
  signal?.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([work(inner.signal), givenUp])
  } finally {
    timer.cancel()
    signal?.removeEventListener('abort', onAbort)
  }
}

/**
 * Returns the result, or throws the signal's reason if the signal aborts first. Only the wait is abandoned; the work
 * continues.
 */
export function orAborted<T>(result: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return result
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    void result.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

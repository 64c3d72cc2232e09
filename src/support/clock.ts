/** A clock. It is passed to the code that needs it, so that tests control the time. */
export interface Clock {
  /** Milliseconds since the epoch, for timestamps. */
  now(): number
  /**
   * Milliseconds since an arbitrary start, for durations. They never go back. All processes of a machine share the same
   * start.
   */
  monotonic(): number
  /** Calls back once after `delayMs`. The timer does not keep the process alive. */
  setTimer(delayMs: number, callback: () => void): Timer
}

export interface Timer {
  cancel(): void
}

/** The longest delay of Node's timers. With a longer delay, they would fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1

/** The start of this process by the machine's own monotonic clock, which is not available in browsers. */
const STARTED_MS =
  'process' in globalThis && 'hrtime' in process ? Number(process.hrtime.bigint()) / 1e6 - performance.now() : 0

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => STARTED_MS + performance.now(),
  setTimer: (delayMs, callback) => longTimer(delayMs, callback, false),
}

/** As `setTimeout`, for any delay. @param holdsProcess whether Node waits for it before it exits. */
export function longTimer(delayMs: number, callback: () => void, holdsProcess = true): Timer {
  const endMs = performance.now() + delayMs
  let handle: NodeJS.Timeout
  const wait = (ms: number): void => {
    const goOn = (): void => wait(endMs - performance.now())
    handle = ms > MAX_DELAY_MS ? setTimeout(goOn, MAX_DELAY_MS) : setTimeout(callback, ms)
    if (!holdsProcess) handle.unref()
  }
  wait(delayMs)
  return { cancel: () => clearTimeout(handle) }
}

/** Resolves after `delayMs`, or at once (without throwing) when the signal aborts. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const done = (): void => {
      timer.cancel()
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = clock.setTimer(delayMs, done)
    signal?.addEventListener('abort', done, { once: true })
  })
}

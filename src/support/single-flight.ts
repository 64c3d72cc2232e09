/**
 * Shares one run of an operation among concurrent callers. A result is valid only for callers that asked before the run
 * began, so callers that ask during a run share the next one. A run begins in a microtask, so callers that ask in the same
 * turn share it.
 *
 *     asked ──▶ begun ─────────────▶ done
 *                 asked meanwhile ──▶ begun ──▶ done      (one in line, shared by all who asked meanwhile)
 */
import { orAborted } from './deadline.js'

export class SingleFlight<T> {
  #running: Promise<T> | null = null
  #queued: Promise<T> | null = null

  constructor(private readonly run: () => Promise<T>) {}

  /**
   * Returns the result of a run that starts after this call. An aborted signal ends only this wait.
   * @throws any error of the run, or the signal's reason.
   */
  join(signal?: AbortSignal): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason as Error)
    return orAborted(this.#queued ?? this.#queue(this.#running ?? Promise.resolve()), signal)
  }

  #begin(): Promise<T> {
    const run = this.run().finally(() => {
      if (this.#running === run) this.#running = null
    })
    this.#running = run
    return run
  }

  #queue(before: Promise<unknown>): Promise<T> {
    const begin = (): Promise<T> => {
      this.#queued = null
      return this.#begin()
    }
    this.#queued = before.then(begin, begin)
    return this.#queued
  }
}

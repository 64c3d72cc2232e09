/**
 * Wakes every feed of one etcd at the first response after an outage, so that no feed waits for the end of its own
 * back-off.
 *
 * While any feed sleeps, four requests per second ask etcd for its revision, on behalf of all feeds. A response wakes
 * the feeds only if the request before it got none, so a feed whose watch fails although etcd responds keeps its own
 * back-off.
 */
import type { Clock, Timer } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { UpstreamError, type UpstreamReader } from '../upstream/upstream.js'

const PROBE_MS = 250
const PROBE_TIMEOUT_MS = 1_000

export class Outage {
  readonly #upstream: Pick<UpstreamReader, 'currentRevision'>
  readonly #clock: Clock
  readonly #sleepers = new Set<() => void>()
  #wasUnreachable = false
  #timer: Timer | null = null
  #probe: AbortController | null = null

  constructor(upstream: Pick<UpstreamReader, 'currentRevision'>, clock: Clock) {
    this.#upstream = upstream
    this.#clock = clock
  }

  /** @param wake called once, unless the returned function is called first. */
  sleep(wake: () => void): () => void {
    this.#sleepers.add(wake)
    this.#plan()
    return () => {
      if (!this.#sleepers.delete(wake) || this.#sleepers.size > 0) return
      this.#timer?.cancel()
      this.#timer = null
      this.#probe?.abort()
    }
  }

  #plan(): void {
    if (this.#timer !== null || this.#probe !== null || this.#sleepers.size === 0) return
    this.#timer = this.#clock.setTimer(PROBE_MS, () => {
      this.#timer = null
      void this.#check()
    })
  }

  async #check(): Promise<void> {
    const probe = new AbortController()
    this.#probe = probe
    const isReachable = await this.#responds(probe.signal)
    this.#probe = null
    if (!probe.signal.aborted) {
      if (isReachable && this.#wasUnreachable) this.#wakeAll()
      this.#wasUnreachable = !isReachable
    }
    this.#plan()
  }

  /** Whether etcd responds at all. A refusal is also a response. */
  async #responds(signal: AbortSignal): Promise<boolean> {
    const late = (): Error => new UpstreamError('unavailable', `no answer within ${PROBE_TIMEOUT_MS} ms`)
    try {
      await withDeadline(this.#clock, PROBE_TIMEOUT_MS, signal, late, (inner) => this.#upstream.currentRevision(inner))
      return true
    } catch (error) {
      return error instanceof UpstreamError && error.code !== 'unavailable'
    }
  }

  #wakeAll(): void {
    const sleepers = [...this.#sleepers]
    this.#sleepers.clear()
    for (const wake of sleepers) wake()
  }
}

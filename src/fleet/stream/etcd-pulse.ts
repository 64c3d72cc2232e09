/**
 * Tracks when etcd last answered, which is the latest time that a publisher's status can vouch for.
 *
 * An open watch sends nothing while nothing changes, and only keepalive detects a connection that died silently, many
 * seconds later. So a process makes one small linearizable read a second for all the resources that it publishes.
 */
import type { Clock } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import type { Key } from '../../engine/model/event.js'
import { type UpstreamReader, UpstreamError } from '../../engine/upstream/upstream.js'

export interface EtcdPulseOptions {
  readonly upstream: Pick<UpstreamReader, 'read'>
  readonly clock: Clock
}

/** Callers share a read that is no older than this. */
const FRESH_MS = 500
const TIMEOUT_MS = 2_000

export class EtcdPulse {
  readonly #options: EtcdPulseOptions
  #asking: Promise<void> | null = null
  #askedAtMs: number | null = null

  constructor(options: EtcdPulseOptions) {
    this.#options = options
  }

  /** When the newest answered read was sent, in monotonic milliseconds; null before the first. */
  get askedAtMs(): number | null {
    return this.#askedAtMs
  }

  /** Resolves when etcd has answered or `patienceMs` have passed. @param prefix the keys that may be read. */
  async beat(prefix: Key, patienceMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    if (this.#askedAtMs !== null && clock.monotonic() - this.#askedAtMs < FRESH_MS) return
    const asking = (this.#asking ??= this.#ask(prefix).finally(() => {
      this.#asking = null
    }))
    const late = (): Error => new UpstreamError('unavailable', `no answer within ${patienceMs} ms`)
    await withDeadline(clock, patienceMs, signal, late, () => asking).catch(() => {})
  }

  async #ask(prefix: Key): Promise<void> {
    const { upstream, clock } = this.#options
    const askedAtMs = clock.monotonic()
    try {
      const late = (): Error => new UpstreamError('unavailable', `no answer within ${TIMEOUT_MS} ms`)
      await withDeadline(clock, TIMEOUT_MS, new AbortController().signal, late, (signal) =>
        upstream.read({ prefix, limit: 1, keysOnly: true, signal }),
      )
      this.#askedAtMs = askedAtMs
    } catch {
      // The growing age reveals the failure, and the feed reports its reason.
    }
  }
}

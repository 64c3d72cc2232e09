/**
 * Finds out whether Kubernetes stores anything under its prefix. A server of declared prefixes checks this at the
 * start, and serves no Kubernetes resources until something is stored. Without Kubernetes, these resources would only
 * be fifty empty caches, watches and table rows.
 *
 * It polls once a second instead of watching, because a worker process has no watches.
 */
import type { Ambient } from '../../support/ambient.js'
import { type Key, keyToText } from '../../engine/model/event.js'
import { UpstreamError, type UpstreamReader } from '../../engine/upstream/upstream.js'
import { type Clock, sleep } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { errorMessage } from '../../support/error-message.js'

const POLL_MS = 1_000
const TIMEOUT_MS = 5_000

export interface StoredKubernetesOptions extends Pick<Ambient, 'clock' | 'logger'> {
  readonly upstream: Pick<UpstreamReader, 'read'>
  /** Ends in '/'. */
  readonly prefix: Key
  /** Called at most once. */
  readonly onFound: () => void
}

export class StoredKubernetes {
  readonly #stopping = new AbortController()
  #content: 'unknown' | 'nothing' | 'something' = 'unknown'
  #problem: string | null = null

  constructor(private readonly options: StoredKubernetesOptions) {}

  /** Why the answer is unknown; null once it is known. */
  get problem(): string | null {
    return this.#content === 'unknown'
      ? (this.#problem ?? 'etcd has not been checked for Kubernetes objects yet')
      : null
  }

  get isFound(): boolean {
    return this.#content === 'something'
  }

  /** Whether it is known that nothing is stored, or that this server may not read it. */
  get isRuledOut(): boolean {
    return this.#content === 'nothing'
  }

  start(): void {
    void this.#poll()
  }

  stop(): void {
    this.#stopping.abort()
  }

  async #poll(): Promise<void> {
    const { upstream, prefix, clock, logger, onFound } = this.options
    const { signal } = this.#stopping
    while (!signal.aborted) {
      try {
        if (await isAnythingStored(upstream, prefix, clock, signal)) {
          if (this.#content === 'nothing')
            logger.info({ prefix: keyToText(prefix) }, 'Kubernetes has stored objects; serving its resources too')
          this.#content = 'something'
          return onFound()
        }
        this.#becomeNothing()
      } catch (error) {
        // A server that may not read the prefix cannot serve it either.
        if (isRefused(error)) this.#becomeNothing()
        else this.#problem = errorMessage(error)
      }
      await sleep(clock, POLL_MS, signal).catch(() => {})
    }
  }

  #becomeNothing(): void {
    if (this.#content === 'nothing') return
    const { logger, prefix } = this.options
    this.#content = 'nothing'
    logger.info(
      { prefix: keyToText(prefix) },
      'Kubernetes has stored no objects here; serving only the declared prefixes',
    )
  }
}

/** @throws UpstreamError */
export async function isAnythingStored(
  upstream: Pick<UpstreamReader, 'read'>,
  prefix: Key,
  clock: Clock,
  signal?: AbortSignal,
): Promise<boolean> {
  const late = (): Error => new UpstreamError('unavailable', `no answer within ${TIMEOUT_MS} ms`)
  const { keyValues } = await withDeadline(clock, TIMEOUT_MS, signal, late, (inTime) =>
    upstream.read({ prefix, limit: 1, keysOnly: true, signal: inTime }),
  )
  return keyValues.length > 0
}

/** Checks the upstream's error by shape. */
function isRefused(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'permission-denied'
}

/**
 * Finds out whether Kubernetes stores anything under its prefix. A server of declared prefixes checks this at the
 * start, and serves no Kubernetes resources until something is stored. Without Kubernetes, these resources would only
 * be fifty empty caches, watches and table rows.
 *
 * It polls once a second instead of watching, because a worker process has no watches.
 */
import { type Key, keyToText } from '../../engine/model/event.js'
import type { UpstreamReader } from '../../engine/upstream/upstream.js'
import { type Clock, sleep } from '../../support/clock.js'
import { errorMessage } from '../../support/error-message.js'
import type { Logger } from '../../support/log.js'

const POLL_MS = 1_000
const TIMEOUT_MS = 5_000

export interface StoredKubernetesOptions {
  readonly upstream: Pick<UpstreamReader, 'read'>
  /** Ends in '/'. */
  readonly prefix: Key
  readonly clock: Clock
  readonly logger: Logger
  /** Called at most once. */
  readonly onFound: () => void
}

export class StoredKubernetes {
  readonly #options: StoredKubernetesOptions
  readonly #stopping = new AbortController()
  #content: 'unknown' | 'nothing' | 'something' = 'unknown'
  #problem: string | null = null

  constructor(options: StoredKubernetesOptions) {
    this.#options = options
  }

  /** Why the answer is unknown; null once it is known. */
  get problem(): string | null {
    return this.#content === 'unknown'
      ? (this.#problem ?? 'etcd has not been checked for Kubernetes objects yet')
      : null
  }

  get isFound(): boolean {
    return this.#content === 'something'
  }

  start(): void {
    void this.#poll()
  }

  stop(): void {
    this.#stopping.abort()
  }

  async #poll(): Promise<void> {
    const { upstream, prefix, clock, logger, onFound } = this.#options
    const { signal } = this.#stopping
    while (!signal.aborted) {
      try {
        if (await isAnythingStored(upstream, prefix, signal)) {
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
    const { logger, prefix } = this.#options
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
  signal?: AbortSignal,
): Promise<boolean> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS)
  const both = signal === undefined ? timeout : AbortSignal.any([signal, timeout])
  const { keyValues } = await upstream.read({ prefix, limit: 1, keysOnly: true, signal: both })
  return keyValues.length > 0
}

/** Checks the upstream's error by shape. */
function isRefused(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'permission-denied'
}

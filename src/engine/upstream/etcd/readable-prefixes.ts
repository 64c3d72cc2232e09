/**
 * The prefixes that etcd has let the user read. The small reads that only ask for a revision, or for a sign of life,
 * need such a key.
 *
 * A role can be changed while the server runs. etcd checks it when a watch begins and at every read, so running watches
 * continue and nothing looks wrong, while every consistent read fails. The server reports once that this has happened,
 * and once that it is over; `problem` says it as long as it lasts.
 */
import { type Key, keyToText } from '../../model/event.js'
import type { Logger } from '../../../support/log.js'

/** As many as a large cluster has resources. Changes to further prefixes are not reported. */
const MAX_PREFIXES = 2_000

export class ReadablePrefixes {
  readonly #logger: Logger
  /** The next one to try comes first, as among the refused ones. */
  readonly #known = new Set<Key>()
  /** With the reason. */
  readonly #refused = new Map<Key, string>()

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** A prefix that was not refused the last time, if possible; null before the first. */
  get likely(): Key | null {
    for (const prefix of this.#known) if (!this.#refused.has(prefix)) return prefix
    return this.#refused.keys().next().value ?? null
  }

  /** Returns each prefix in turn, so that every change is noticed, but only refused ones while there are any. */
  next(): Key | null {
    for (const [prefix, reason] of this.#refused) {
      this.#refused.delete(prefix)
      this.#refused.set(prefix, reason)
      return prefix
    }
    for (const prefix of this.#known) {
      this.#known.delete(prefix)
      this.#known.add(prefix)
      return prefix
    }
    return null
  }

  /** A refused prefix, and why; null if none is known. */
  get problem(): string | null {
    for (const [prefix, reason] of this.#refused) return `${keyToText(prefix)}: ${reason}`
    return null
  }

  isRefused(prefix: Key): boolean {
    return this.#refused.has(prefix)
  }

  allowed(prefix: Key): void {
    if (this.#known.size < MAX_PREFIXES) this.#known.add(prefix)
    if (!this.#refused.has(prefix)) return
    // The role was changed again, so the others may be allowed as well.
    this.#refused.clear()
    this.#logger.info({ prefix: keyToText(prefix) }, 'etcd allows reads again')
  }

  /** Does nothing for a prefix that was never allowed: its list fails, and is reported. */
  refused(prefix: Key, reason: string): void {
    if (!this.#known.has(prefix) || this.#refused.has(prefix)) return
    this.#refused.set(prefix, reason)
    if (this.#refused.size > 1) return
    this.#logger.error(
      { prefix: keyToText(prefix), reason },
      'etcd refuses reads that it allowed before: check the role of the user; watches continue until they are reopened',
    )
  }
}

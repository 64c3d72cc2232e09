/**
 * The prefixes that etcd has allowed the user to read. The small reads that ask only for a revision or a sign of life
 * need a key under such a prefix.
 *
 * A role can be changed while the server runs. etcd checks the role when a watch begins and at every read. So if a
 * permission is taken away, running watches continue and nothing looks wrong, but every consistent read fails. The
 * server logs once that reads are refused, and once that they are allowed again. In between, `problem` names the
 * refused prefix.
 *
 * A prefix counts while it is watched. When its last watch ends, for example because a definition was deleted, it is
 * forgotten: its permission may be taken away as well, and that is no fault.
 */
import { type Key, keyToText } from '../../model/event.js'
import type { Logger } from '../../../support/log.js'
import { MAX_UNWATCHED_PREFIXES } from '../../model/limits.js'

export class ReadablePrefixes {
  readonly #logger: Logger
  /** In the order in which `next` returns them. */
  readonly #known = new Set<Key>()
  /** The refused prefixes with the reason for each, in the order in which `next` returns them. */
  readonly #refused = new Map<Key, string>()
  /** The number of open watches of each prefix. */
  readonly #watches = new Map<Key, number>()

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** A prefix that was not refused the last time, if there is one; null if no prefix is known yet. */
  get likely(): Key | null {
    for (const prefix of this.#known) if (!this.#refused.has(prefix)) return prefix
    return this.#refused.keys().next().value ?? null
  }

  /**
   * Returns each prefix in turn, so that every change is noticed. While there are refused prefixes, returns only those.
   */
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

  /** A refused prefix with the reason; null if there is none. */
  get problem(): string | null {
    for (const [prefix, reason] of this.#refused) return `${keyToText(prefix)}: ${reason}`
    return null
  }

  isRefused(prefix: Key): boolean {
    return this.#refused.has(prefix)
  }

  /** Notes that etcd has accepted a watch. @returns a function to call once when that watch is over. */
  watched(prefix: Key): () => void {
    this.#known.add(prefix)
    this.#watches.set(prefix, (this.#watches.get(prefix) ?? 0) + 1)
    return () => this.#unwatched(prefix)
  }

  #unwatched(prefix: Key): void {
    const left = this.#watches.get(prefix)! - 1
    if (left > 0) return void this.#watches.set(prefix, left)
    this.#watches.delete(prefix)
    // When etcd is lost, all watches end. One prefix stays known, since small reads need one as soon as etcd is back.
    if (this.#watches.size > 0) this.#forget(prefix)
  }

  #forget(prefix: Key): void {
    this.#known.delete(prefix)
    this.#refused.delete(prefix)
  }

  allowed(prefix: Key): void {
    this.#known.add(prefix)
    this.#keepToLimit()
    if (!this.#refused.has(prefix)) return
    // The role has been changed again, so the other prefixes may be allowed as well.
    this.#refused.clear()
    this.#logger.info({ prefix: keyToText(prefix) }, 'etcd allows reads again')
  }

  /**
   * Reports that a prefix was refused. Does nothing for a prefix that was never allowed, because the failure of its
   * list is reported anyway.
   */
  refused(prefix: Key, reason: string): void {
    if (!this.#known.has(prefix) || this.#refused.has(prefix)) return
    this.#refused.set(prefix, reason)
    if (this.#refused.size > 1) return
    this.#logger.error(
      { prefix: keyToText(prefix), reason },
      'etcd refuses reads that it allowed before: check the roles of the etcd user; running watches continue until they must be reopened',
    )
  }

  #keepToLimit(): void {
    if (this.#known.size <= this.#watches.size + MAX_UNWATCHED_PREFIXES) return
    for (const prefix of this.#known) if (!this.#watches.has(prefix)) return this.#forget(prefix)
  }
}

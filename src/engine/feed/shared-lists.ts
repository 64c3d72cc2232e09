/**
 * Shared by the feeds of one etcd while they list: permits for their reads, the revision below which etcd's history is
 * gone, and the moment at which their watches begin.
 *
 * etcd finds the events for new watches by reading every revision of every key from the oldest start of any of them up
 * to the present, whatever their prefixes, and once for up to 512 watches that wait at the same time. So feeds that list
 * at the same time open their watches together. The wait is bounded, because one large list must not delay all others.
 */
import type { Revision } from '../model/revision.js'
import type { Clock, Timer } from '../../support/clock.js'
import { orAborted } from '../../support/deadline.js'
import { Semaphore } from '../../support/semaphore.js'
import { EarlierReads } from './earlier-reads.js'
import { FIRST_PAGES_AT_ONCE, LISTS_TOGETHER_MS } from '../model/limits.js'

/** The number of keys in a first page. Most resources have fewer, so their whole list takes one request. */
export const FIRST_KEYS = 16

export class SharedLists {
  /** Lists with more than a first page are expensive for etcd, so only a few run at once. */
  readonly slots: Semaphore
  readonly firstPages = new Semaphore(FIRST_PAGES_AT_ONCE)
  readonly earlier = new EarlierReads()
  /** The first revision that etcd can still read, as far as a list has found out; null before that. */
  floor: Revision | null = null
  readonly #clock: Clock
  #learning: Promise<Revision | null> | null = null
  #running = 0
  #finished: (() => void)[] = []
  #timer: Timer | null = null

  /** @param listsAtOnce how many lists with more than a first page may run at once. */
  constructor(listsAtOnce: number, clock: Clock) {
    this.slots = new Semaphore(listsAtOnce)
    this.#clock = clock
  }

  /** Learns `floor`. Lists that fail at the same time share one attempt. */
  learnFloor(learn: () => Promise<Revision | null>): Promise<Revision | null> {
    this.#learning ??= learn().then((floor) => {
      this.#learning = null
      if (floor !== null) this.floor = floor
      return floor
    })
    return this.#learning
  }

  /** A list begins. @returns a function to call when it has ended. Only its first call has an effect. */
  begin(): () => void {
    this.#running++
    let isRunning = true
    return () => {
      if (!isRunning) return
      isRunning = false
      if (--this.#running === 0) this.#release()
    }
  }

  /** Resolves when the other lists that are running have ended, or after `LISTS_TOGETHER_MS`. @throws the signal's reason. */
  async allEnded(signal: AbortSignal): Promise<void> {
    if (this.#running === 0) return
    const released = new Promise<void>((resolve) => this.#finished.push(resolve))
    // One timer serves all who wait, so that they continue together even if the time is over.
    this.#timer ??= this.#clock.setTimer(LISTS_TOGETHER_MS, () => this.#release())
    await orAborted(released, signal)
  }

  #release(): void {
    this.#timer?.cancel()
    this.#timer = null
    for (const resolve of this.#finished.splice(0)) resolve()
  }
}

/** The permit of one feed among `SharedLists.slots`. */
export class ListSlot {
  readonly #slots: Semaphore
  readonly #isAwaited: () => boolean
  #giveBack: (() => void) | null = null

  /** @param isAwaited whether a client waits for the resource; if so, its feed goes first. */
  constructor(slots: Semaphore, isAwaited: () => boolean) {
    this.#slots = slots
    this.#isAwaited = isAwaited
  }

  /** Waits for a slot unless the feed already has one. @throws the signal's reason. */
  async take(signal: AbortSignal): Promise<void> {
    if (this.#giveBack !== null) return
    const giveBack = await this.#slots.acquire(signal, this.#isAwaited)
    if (signal.aborted) {
      giveBack()
      throw signal.reason
    }
    this.#giveBack = giveBack
  }

  release(): void {
    this.#giveBack?.()
    this.#giveBack = null
  }
}

/**
 * The primary's end of the limits shared by all workers: it tracks what the clients of one worker hold, and releases it
 * when the worker is gone.
 */
import type { CountedRates, Draw, IdentitySemaphores, Resets, SemaphoreName } from '../../engine/model/shared-limits.js'
import { BusyError } from '../../engine/model/errors.js'
import type { LimitReport, Refusal } from './messages.js'

/** The limits that the primary counts for all workers. */
export interface CountedLimits {
  readonly semaphores: IdentitySemaphores
  readonly rates: CountedRates
  readonly resets: Pick<Resets, 'countOf'>
}

export class PrimaryLimits {
  /** Releases each slot that is held; keyed by the number that the worker gave the slot. */
  readonly #held = new Map<number, () => void>()

  constructor(private readonly limits: CountedLimits) {}

  receive(message: LimitReport): void {
    switch (message.kind) {
      case 'hold':
        this.#held.set(message.slot, this.limits.semaphores[message.name].hold(message.identity))
        return
      case 'leave':
        return this.#leave(message.slot)
      case 'resets':
        return this.limits.resets.countOf(message.network, message.resets)
      default:
        throw new RangeError(`unknown message ${(message satisfies never as LimitReport).kind}`)
    }
  }

  /** Releases everything that the worker's clients held. */
  close(): void {
    for (const slot of this.#held.keys()) this.#leave(slot)
  }

  /** @param signal aborts when the worker gives up waiting for the slot, and when the worker is gone. */
  async enter(slot: number, name: SemaphoreName, identity: string, signal: AbortSignal): Promise<Refusal | null> {
    try {
      const leave = await this.limits.semaphores[name].acquire(identity, signal)
      if (signal.aborted) leave()
      else this.#held.set(slot, leave)
      return null
    } catch (error) {
      return refusalOf(error)
    }
  }

  drawRequests(identity: string, draw: Draw): number | Refusal {
    try {
      return this.limits.rates.drawRequests(identity, draw)
    } catch (error) {
      return refusalOf(error)
    }
  }

  #leave(slot: number): void {
    this.#held.get(slot)?.()
    this.#held.delete(slot)
  }
}

/** A limit could not be counted, because the worker is gone or because of a bug. */
const UNCOUNTED: Refusal = { message: 'an internal error occurred', retryAfterSeconds: 1 }

function refusalOf(error: unknown): Refusal {
  if (!(error instanceof BusyError)) return UNCOUNTED
  return { message: error.message, retryAfterSeconds: error.retryAfterSeconds || 1 }
}

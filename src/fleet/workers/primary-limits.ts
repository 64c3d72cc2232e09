/**
 * The primary's end of the limits shared by all workers: it tracks what the clients of one worker hold, and releases it
 * when the worker is gone.
 */
import {
  SEMAPHORE_NAMES,
  type CountedRates,
  type Draw,
  type IdentitySemaphores,
  type Resets,
} from '../../engine/model/shared-limits.js'
import { StatusError } from '../../engine/model/status.js'
import { type FrameReader, FrameWriter } from './frames.js'
import { ToPrimary, ToWorker } from './messages.js'

/** The limits that the primary counts for all workers. */
export interface CountedLimits {
  readonly semaphores: IdentitySemaphores
  readonly rates: CountedRates
  readonly resets: Pick<Resets, 'countOf'>
}

export class PrimaryLimits {
  readonly #limits: CountedLimits
  readonly #send: (frame: Buffer) => void
  /** By the worker's number: a slot that is held, or one that is being waited for. */
  readonly #slots = new Map<number, (() => void) | AbortController>()

  constructor(limits: CountedLimits, send: (frame: Buffer) => void) {
    this.#limits = limits
    this.#send = send
  }

  heard(reader: FrameReader): void {
    switch (reader.type) {
      case ToPrimary.enter:
        return void this.#acquire(reader.number(), semaphoreOf(reader), reader.text())
      case ToPrimary.hold: {
        const id = reader.number()
        this.#slots.set(id, this.#limits.semaphores[semaphoreOf(reader)].hold(reader.text()))
        return
      }
      case ToPrimary.leave:
        return this.#leave(reader.number())
      case ToPrimary.drawRequests:
        return this.#draw(reader.number(), reader.text(), {
          needed: reader.count(),
          spare: reader.count(),
          unused: reader.count(),
        })
      case ToPrimary.spendBytes: {
        const identity = reader.text()
        const waitMs = this.#limits.rates.spendInitialBytes(identity, reader.number())
        return this.#send(new FrameWriter(ToWorker.spent).text(identity).number(waitMs).done())
      }
      case ToPrimary.resets:
        return this.#limits.resets.countOf(reader.text(), reader.count())
      default:
        throw new RangeError(`no message has the type ${reader.type}`)
    }
  }

  /** Releases everything that the worker's clients held. */
  close(): void {
    for (const id of this.#slots.keys()) this.#leave(id)
  }

  async #acquire(id: number, name: (typeof SEMAPHORE_NAMES)[number], identity: string): Promise<void> {
    const waiting = new AbortController()
    this.#slots.set(id, waiting)
    try {
      const leave = await this.#limits.semaphores[name].acquire(identity, waiting.signal)
      if (waiting.signal.aborted) return leave()
      this.#slots.set(id, leave)
      this.#send(new FrameWriter(ToWorker.entered).number(id).byte(1).done())
    } catch (error) {
      if (waiting.signal.aborted) return
      this.#slots.delete(id)
      this.#refuse(new FrameWriter(ToWorker.entered).number(id).byte(0), error)
    }
  }

  #draw(id: number, identity: string, draw: Draw): void {
    const answer = new FrameWriter(ToWorker.drawn).number(id)
    try {
      this.#send(answer.count(this.#limits.rates.drawRequests(identity, draw)).done())
    } catch (error) {
      this.#refuse(answer.count(0), error)
    }
  }

  #refuse(answer: FrameWriter, error: unknown): void {
    const { message, details } = StatusError.from(error)
    this.#send(
      answer
        .text(message)
        .count(details?.retryAfterSeconds ?? 1)
        .done(),
    )
  }

  #leave(id: number): void {
    const slot = this.#slots.get(id)
    this.#slots.delete(id)
    if (slot instanceof AbortController) slot.abort()
    else slot?.()
  }
}

/** @throws RangeError */
function semaphoreOf(reader: FrameReader): (typeof SEMAPHORE_NAMES)[number] {
  const name = SEMAPHORE_NAMES[reader.byte()]
  if (name === undefined) throw new RangeError('no such semaphore')
  return name
}

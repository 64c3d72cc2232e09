/**
 * The initial state of one group at one revision, as framed write units of about 64 KB. Each unit is encoded once, when
 * the first watcher needs it, and shared by all watchers that start at the same state. The units are kept as long as
 * some watcher is receiving them.
 */
import type { Snapshot } from '../cache/store.js'
import type { Key } from '../model/event.js'
import type { StoredObject } from '../model/stored-object.js'
import type { Revision } from '../model/revision.js'
import { Scratch } from '../../support/scratch.js'
import { Slice } from '../../support/turns.js'
import { type EventUnit, NO_EVENTS, type WriteUnit } from './wire-format.js'

const UNIT_BYTES = 64 * 1024
/**
 * The time limit for one unit. The size limit is not enough, because a selector that matches nothing would examine all
 * objects for one unit.
 */
const UNIT_MS = 0.5
/**
 * All units can share this memory, because a unit is built in one synchronous step and the parts are copied into it.
 */
const scratch = new Scratch(2 * UNIT_BYTES)

export class InitialFrames {
  readonly revision: Revision
  readonly #objects: Generator<StoredObject, void, void>
  readonly #units: EventUnit[] = []
  #isComplete = false
  #failure: { readonly error: unknown } | null = null
  users = 0
  bytes = 0

  constructor(
    snapshot: Snapshot,
    prefix: Key,
    private readonly matches: (object: StoredObject) => boolean,
    private readonly frame: (object: StoredObject, scratch: Scratch) => readonly Buffer[] | null,
    private readonly pack: (parts: readonly Buffer[]) => WriteUnit,
    readonly startedAtMs: number,
  ) {
    this.revision = snapshot.revision
    this.#objects = snapshot.objects(prefix)
  }

  /** Whether one of the objects could not be encoded. If so, no further watcher may share the state. */
  get hasFailed(): boolean {
    return this.#failure !== null
  }

  /**
   * Returns null when the state is complete. An empty unit means that nothing is ready yet; call again in the next
   * turn.
   * @throws the encoder's error, for every watcher that gets this far, because the objects already taken for that unit
   * cannot be read again.
   */
  unit(index: number): EventUnit | null {
    if (index < this.#units.length) return this.#units[index]!
    if (this.#failure !== null) throw this.#failure.error
    if (this.#isComplete) return null
    try {
      return this.#nextUnit()
    } catch (error) {
      this.#failure = { error }
      throw error
    }
  }

  #nextUnit(): EventUnit | null {
    const parts: Buffer[] = []
    let events = 0
    let length = 0
    scratch.reset()
    const slice = new Slice(UNIT_MS)
    while (length < UNIT_BYTES) {
      const next = this.#objects.next()
      if (next.done) {
        this.#isComplete = true
        break
      }
      const frame = this.matches(next.value) ? this.frame(next.value, scratch) : null
      if (frame !== null) {
        for (const part of frame) {
          parts.push(part)
          length += part.length
        }
        events++
      }
      if (slice.isOver) break
    }
    if (events === 0) return this.#isComplete ? null : NO_EVENTS
    const unit = { ...this.pack(parts), events }
    this.bytes += unit.bytes.length
    this.#units.push(unit)
    return unit
  }
}

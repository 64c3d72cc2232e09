/**
 * The initial state of one group at one revision, as framed write units of about 64 KB, encoded once while the first
 * watcher takes them and shared by all that start at the same state. It lives as long as somebody is being sent it.
 */
import type { Snapshot } from '../cache/store.js'
import type { Key } from '../model/event.js'
import type { StoredObject } from '../model/stored-object.js'
import type { Revision } from '../model/revision.js'
import { type EventUnit, NO_EVENTS, type WriteUnit } from './wire-format.js'

const UNIT_BYTES = 64 * 1024
/** Objects looked at for one unit at the most, so that a selector that matches nothing does not stall the event loop. */
const OBJECTS_LOOKED_AT = 2_000

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
    private readonly frame: (object: StoredObject) => Buffer | null,
    private readonly pack: (frames: readonly Buffer[]) => WriteUnit,
    readonly startedAtMs: number,
  ) {
    this.revision = snapshot.revision
    this.#objects = snapshot.objects(prefix)
  }

  /** An object of it could not be encoded: nobody is to begin with it. */
  get hasFailed(): boolean {
    return this.#failure !== null
  }

  /**
   * null: there is no such unit, the state is complete. An empty one: nothing yet, ask again in the next turn.
   * @throws what the encoder threw, to everyone who comes so far: what was taken for that unit is not to be had again.
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
    const frames: Buffer[] = []
    let length = 0
    for (let looked = 0; length < UNIT_BYTES && looked < OBJECTS_LOOKED_AT; looked++) {
      const next = this.#objects.next()
      if (next.done) {
        this.#isComplete = true
        break
      }
      if (!this.matches(next.value)) continue
      const frame = this.frame(next.value)
      if (frame === null) continue
      frames.push(frame)
      length += frame.length
    }
    if (frames.length === 0) return this.#isComplete ? null : NO_EVENTS
    const unit = { ...this.pack(frames), events: frames.length }
    this.bytes += unit.bytes.length
    this.#units.push(unit)
    return unit
  }
}

/**
 * The initial state of one group at one revision, as framed write units of about 64 KB, encoded once while the first
 * watcher takes them and shared by all that start at the same state. It lives as long as somebody is being sent it.
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
 * The time for one unit: a selector that matches nothing looks at all objects, and no unit says how long its own take.
 */
const UNIT_MS = 2
/** A unit is made in one go, and its parts are copied into it. */
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

  /** One of its objects could not be encoded, so no further watcher may share it. */
  get hasFailed(): boolean {
    return this.#failure !== null
  }

  /**
   * Returns null when the state is complete, and an empty unit when nothing is ready yet: ask again in the next turn.
   * @throws the encoder's error, to every watcher that comes so far: the objects taken for that unit cannot be had
   * again.
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

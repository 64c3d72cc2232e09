/**
 * Memory that the values of a listed state share. An ArrayBuffer for each object takes 88 bytes of the heap and more
 * outside, and is marked and swept for as long as the object lives; of values of 1 KiB, sixty share one.
 *
 * Only what a list brings lies in slabs: most of it stays for long. What events bring has memory of its own. So a slab only
 * loses objects, and once they leave it less than a quarter used, the others are given memory of their own, too: often they are
 * replaced soon after their neighbours, and what is moved sooner than that is moved in vain. Nothing is freed here, and no memory is
 * used again: whoever holds bytes of a slab keeps all of it alive.
 */
import type { Key } from '../model/event.js'
import type { StoredObject } from '../model/stored-object.js'
import { Scratch } from '../../support/scratch.js'

const SLAB_BYTES = 64 * 1024
/** A larger value would leave too much of a slab unused, and saves little. */
const MAX_VALUE_BYTES = SLAB_BYTES / 16

interface Slab {
  readonly memory: Buffer
  used: number
  /** The bytes of objects that are still held. */
  held: number
  readonly objects: StoredObject[]
}

export class ValueSlabs {
  /** For the bytes of an object that is added next: what has no room here is too large for a slab. */
  readonly scratch = new Scratch(MAX_VALUE_BYTES)
  readonly #slabs = new Map<ArrayBufferLike, Slab>()
  #newest: Slab | null = null

  /** The number of slabs that are held. */
  get size(): number {
    return this.#slabs.size
  }

  /** Moves the bytes of an object into a slab. */
  add(object: StoredObject): void {
    const length = object.size
    if (length > MAX_VALUE_BYTES) return
    let slab = this.#newest
    if (slab === null || slab.used + length > slab.memory.length) slab = this.#begin()
    object.moveTo(slab.memory, slab.used)
    slab.used += length
    slab.held += length
    slab.objects.push(object)
  }

  /** The list is complete: the newest slab is made as small as what lies in it. */
  seal(): void {
    const newest = this.#newest
    if (newest === null) return
    this.#newest = null
    this.#slabs.delete(newest.memory.buffer)
    const memory = Buffer.allocUnsafeSlow(newest.used)
    let at = 0
    for (const object of newest.objects) {
      object.moveTo(memory, at)
      at += object.size
    }
    this.#slabs.set(memory.buffer, { ...newest, memory })
  }

  /** @param current the object that is held under a key now: the one that leaves no more. */
  leave(object: StoredObject, current: (key: Key) => StoredObject | undefined): void {
    if (this.#slabs.size === 0) return
    const slab = this.#slabs.get(object.buffer)
    if (slab === undefined) return
    slab.held -= object.size
    if (slab === this.#newest || slab.held * 4 >= slab.used) return
    this.#slabs.delete(slab.memory.buffer)
    for (const other of slab.objects) {
      if (current(other.key) === other) other.moveTo(Buffer.allocUnsafeSlow(other.size), 0)
    }
  }

  #begin(): Slab {
    const slab = { memory: Buffer.allocUnsafeSlow(SLAB_BYTES), used: 0, held: 0, objects: [] }
    this.#slabs.set(slab.memory.buffer, slab)
    this.#newest = slab
    return slab
  }
}

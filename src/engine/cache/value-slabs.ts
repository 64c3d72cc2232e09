/**
 * Memory shared by the values of a listed state. A separate ArrayBuffer per object takes 88 bytes of the heap and more
 * outside, and is marked and swept for as long as the object lives; sixty values of 1 KiB share one.
 *
 * Only listed values go into slabs, since most of them stay for long. Values from events have separate memory. So a
 * slab only loses objects, and once less than a quarter of it is used, the remaining ones move to separate memory too.
 * Moving them sooner would often be wasted, because they are likely to be replaced soon after their neighbours. Nothing
 * is freed explicitly, and no memory is reused: any reference to bytes of a slab keeps all of it alive.
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
  /** Bytes of objects still held. */
  held: number
  readonly objects: StoredObject[]
}

export class ValueSlabs {
  /** Scratch memory for the object to be added next; a value that does not fit is too large for a slab. */
  readonly scratch = new Scratch(MAX_VALUE_BYTES)
  readonly #slabs = new Map<ArrayBufferLike, Slab>()
  #newest: Slab | null = null

  /** The number of slabs held. */
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

  /** Called when the list is complete: shrinks the newest slab to its contents. */
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

  /** @param current returns the object now held under a key, which is not the one that left. */
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

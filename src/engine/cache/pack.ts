/**
 * A pack holds up to 128 neighbouring objects in one piece of memory. Every full garbage collection marks everything on
 * V8's heap again, and a loose object is five heap objects: itself, its key, and three for its Buffer. With 200,000
 * loose objects, marking took 200 ms of CPU time. In packs they are about 20,000 heap objects.
 *
 *     table   ┌ one row of numbers for each object, in the order of keys
 *     bytes   └ key value key value …
 *
 * A pack never changes. A reader gets a small object that decodes from the pack on demand, so an object in a pack takes
 * no heap memory before and after it is read. Any such small object, and any view of its bytes, keeps the whole pack
 * alive.
 */
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import { LooseObject, type ObjectNotes, type StoredObject } from '../model/stored-object.js'

const PACK_BYTES = 64 * 1024
/** Without this limit, unpacking a pack of small objects would take too long. */
const MAX_OBJECTS = 128
/** Packing larger values would save little, because a pack would hold only a few of them. */
export const MAX_VALUE_BYTES = PACK_BYTES / 4
/** A key and a value within both limits always fit into an empty pack. */
const MAX_KEY_BYTES = PACK_BYTES / 4

/** The columns of the table. A value ends where the next row's key begins. */
const KEY_AT = 0
const VALUE_AT = 1
const NAME_OFFSET = 2
const REVISION_OFFSET = 3
const CREATE_REVISION = 4
const MOD_REVISION = 5
const VERSION = 6
const TYPE = 7
const COLUMNS = 8

/** Properties that most objects of a pack have in common. */
type Type = Pick<StoredObject, 'scope' | 'leaseId' | 'encoding' | 'schemaVersion' | 'typeName'>

function isType(type: Type, { scope, leaseId, encoding, schemaVersion, typeName }: Type): boolean {
  return (
    type.scope === scope &&
    type.typeName === typeName &&
    type.schemaVersion === schemaVersion &&
    type.encoding === encoding &&
    type.leaseId === leaseId
  )
}

export class Pack {
  readonly count: number
  readonly table: Float64Array
  readonly memory: Buffer
  /** Bytes of the values that are still current. `held-objects.ts` keeps count. */
  usedBytes: number
  readonly valueBytes: number
  #notes: (ObjectNotes | undefined)[] | null = null

  constructor(
    rows: readonly number[],
    bytes: Buffer,
    readonly types: readonly Type[],
    /** `wholeChecksum` of each object; null if all are 0. */
    readonly checksums: Int32Array | null,
  ) {
    this.count = rows.length / COLUMNS
    const buffer = new ArrayBuffer((rows.length + 1) * Float64Array.BYTES_PER_ELEMENT + bytes.length)
    this.table = new Float64Array(buffer, 0, rows.length + 1)
    this.table.set(rows)
    this.table[rows.length + KEY_AT] = bytes.length
    this.memory = Buffer.from(buffer, this.table.byteLength)
    bytes.copy(this.memory)
    this.valueBytes = 0
    for (let at = 0; at < this.count; at++) this.valueBytes += this.sizeOf(at)
    this.usedBytes = this.valueBytes
  }

  object(at: number): PackedObject {
    return new PackedObject(this, at)
  }

  keyOf(at: number): Key {
    const row = at * COLUMNS
    return this.memory.toString('latin1', this.table[row + KEY_AT], this.table[row + VALUE_AT]) as Key
  }

  sizeOf(at: number): number {
    const row = at * COLUMNS
    return this.table[row + COLUMNS + KEY_AT]! - this.table[row + VALUE_AT]!
  }

  notesOf(at: number): ObjectNotes {
    this.#notes ??= Array.from({ length: this.count })
    return (this.#notes[at] ??= { facts: null, conformsTo: null, identityHead: -1 })
  }

  /**
   * Compares as `<` and `>` compare strings. Returns a negative number if the object's key comes before `key`, 0 if
   * they are equal.
   */
  compareKey(at: number, key: Key): number {
    const { memory, table } = this
    const row = at * COLUMNS
    const start = table[row + KEY_AT]!
    const length = table[row + VALUE_AT]! - start
    const shorter = Math.min(length, key.length)
    for (let i = 0; i < shorter; i++) {
      const difference = memory[start + i]! - key.charCodeAt(i)
      if (difference !== 0) return difference
    }
    return length - key.length
  }
}

class PackedObject implements StoredObject {
  #key: Key | null = null

  constructor(
    readonly pack: Pack,
    private readonly at: number,
  ) {}

  get key(): Key {
    return (this.#key ??= this.pack.keyOf(this.at))
  }

  get name(): string {
    return this.key.slice(this.number(NAME_OFFSET))
  }

  get scope(): string {
    return this.type.scope
  }

  get createRevision(): Revision {
    return this.number(CREATE_REVISION) as Revision
  }

  get modRevision(): Revision {
    return this.number(MOD_REVISION) as Revision
  }

  get version(): number {
    return this.number(VERSION)
  }

  get leaseId(): string {
    return this.type.leaseId
  }

  get encoding(): 'json' | 'protobuf' {
    return this.type.encoding
  }

  get schemaVersion(): string {
    return this.type.schemaVersion
  }

  get typeName(): string {
    return this.type.typeName
  }

  get revisionOffset(): number {
    return this.number(REVISION_OFFSET)
  }

  get wholeChecksum(): number {
    return this.pack.checksums?.[this.at] ?? 0
  }

  get size(): number {
    return this.pack.sizeOf(this.at)
  }

  get bytes(): Buffer {
    const start = this.number(VALUE_AT)
    return this.pack.memory.subarray(start, start + this.size)
  }

  get notes(): ObjectNotes {
    return this.pack.notesOf(this.at)
  }

  private get type(): Type {
    return this.pack.types[this.number(TYPE)]!
  }

  private number(column: number): number {
    return this.pack.table[this.at * COLUMNS + column]!
  }
}

/** Returns the pack that contains the object; null for a loose object. */
export function packOf(object: StoredObject): Pack | null {
  return object instanceof PackedObject ? object.pack : null
}

/** Copies the object into separate memory, together with its notes. */
export function loosened(object: StoredObject): StoredObject {
  const loose = new LooseObject(object)
  const bytes = Buffer.allocUnsafeSlow(loose.bytes.length)
  loose.bytes.copy(bytes)
  const { facts, conformsTo, identityHead } = object.notes
  return Object.assign(loose, { bytes, facts, conformsTo, identityHead })
}

/** One or more consecutive objects of a pack that are all current, with no other current object between them. */
export class Run {
  constructor(
    readonly pack: Pack,
    readonly from: number,
    /** Exclusive. */
    readonly to: number,
  ) {}

  get size(): number {
    return this.to - this.from
  }

  get firstKey(): Key {
    return this.pack.keyOf(this.from)
  }

  get lastKey(): Key {
    return this.pack.keyOf(this.to - 1)
  }

  /** Returns the place of the first object whose key is at or after `key`; `to` if there is none. */
  placeOf(key: Key): number {
    let low = this.from
    let high = this.to
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.pack.compareKey(middle, key) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  holds(key: Key, place: number): boolean {
    return place < this.to && this.pack.compareKey(place, key) === 0
  }

  get(key: Key): StoredObject | undefined {
    const place = this.placeOf(key)
    return this.holds(key, place) ? this.pack.object(place) : undefined
  }

  /** Returns the part of the run from `startKey` up to, but not including, `endKey`; null if that part is empty. */
  between(startKey: Key, endKey: Key | null): Run | null {
    const from = this.placeOf(startKey)
    const to = endKey === null || this.lastKey < endKey ? this.to : this.placeOf(endKey)
    return from < to ? new Run(this.pack, from, to) : null
  }
}

/** Collects objects for one pack after another. Their keys must be in ascending order. */
export class Packer {
  /** Reused for each pack, because the size of a pack is known only when it is complete. */
  readonly #bytes = Buffer.allocUnsafeSlow(PACK_BYTES)
  #used = 0
  #rows: number[] = []
  #types: Type[] = []
  #checksums: number[] = []

  /** Copies an object. @returns false if there is no room for it in this pack. */
  add(object: StoredObject): boolean {
    const { key, bytes } = object
    if (this.#used + key.length + bytes.length > PACK_BYTES || this.#rows.length === MAX_OBJECTS * COLUMNS) return false
    const keyAt = this.#used
    const valueAt = keyAt + this.#bytes.write(key, keyAt, 'latin1')
    bytes.copy(this.#bytes, valueAt)
    this.#used = valueAt + bytes.length
    const { createRevision, modRevision, version, revisionOffset, wholeChecksum } = object
    const nameOffset = key.length - object.name.length
    const type = this.#typeOf(object)
    this.#rows.push(keyAt, valueAt, nameOffset, revisionOffset, createRevision, modRevision, version, type)
    this.#checksums.push(wholeChecksum)
    return true
  }

  /** Returns all objects added since the last call; null if there are none. */
  take(): Run | null {
    if (this.#rows.length === 0) return null
    const checksums = this.#checksums.every((one) => one === 0) ? null : Int32Array.from(this.#checksums)
    const pack = new Pack(this.#rows, this.#bytes.subarray(0, this.#used), this.#types, checksums)
    this.#used = 0
    this.#rows = []
    this.#types = []
    this.#checksums = []
    return new Run(pack, 0, pack.count)
  }

  /** Searches from the end, because neighbours usually share a type. */
  #typeOf(object: StoredObject): number {
    const known = this.#types.findLastIndex((type) => isType(type, object))
    if (known !== -1) return known
    const { scope, leaseId, encoding, schemaVersion, typeName } = object
    return this.#types.push({ scope, leaseId, encoding, schemaVersion, typeName }) - 1
  }
}

/**
 * An object must be loose if its value is large or also kept as stored, its key is long, or its key does not end in its
 * name.
 */
export function canPack({ key, name, size, raw }: StoredObject): boolean {
  return raw === undefined && size <= MAX_VALUE_BYTES && key.length <= MAX_KEY_BYTES && key.endsWith(name)
}

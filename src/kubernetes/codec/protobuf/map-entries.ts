/** Reads the entries of a map on the wire: each is a message with the key as field 1 and the value as field 2. */
import { CodecError } from './codec-error.js'
import { JsonWriter } from './json-writer.js'
import { writeScalar } from './number-values.js'
import { type PlanField, WIRE_TYPES } from './plan.js'
import type { ScalarType } from './schema.js'
import { LENGTH, type WireReader } from './wire.js'

/** Where one entry's key and value are (-1 without a value), and where the entry ends. */
export interface MapEntry {
  readonly keyStart: number
  readonly keyEnd: number
  readonly valueAt: number
  readonly end: number
}

export class MapEntries {
  /** The bytes of the key of the entry found last. */
  keyStart = 0
  keyEnd = 0
  /** Where the entry's value is; -1 without one. */
  valueAt = -1

  constructor(private readonly reader: WireReader) {}

  /**
   * Finds the field's next entry from `reader.pos` on, notes key and value, and returns the entry's end; -1 after the
   * last.
   */
  next(field: PlanField, last: number, end: number): number {
    const { reader } = this
    while (reader.pos <= last) {
      const tag = reader.readTag(end)
      if (tag >>> 3 !== field.number) {
        reader.skip(tag & 7, end)
        continue
      }
      const length = reader.readLength(end)
      const stop = reader.pos + length
      this.keyStart = reader.pos
      this.keyEnd = reader.pos
      this.valueAt = -1
      while (reader.pos < stop) {
        const inner = reader.readTag(stop)
        const number = inner >>> 3
        const wireType = inner & 7
        const expected = number === 1 ? WIRE_TYPES[field.keyType] : number === 2 ? WIRE_TYPES[field.type] : wireType
        if (wireType !== expected) {
          throw new CodecError('wire-type', `an entry of ${field.jsonName} has wire type ${wireType}`, reader.pos)
        }
        if (number === 1 && wireType === LENGTH) {
          const size = reader.readLength(stop)
          this.keyStart = reader.pos
          this.keyEnd = reader.pos + size
          reader.pos = this.keyEnd
          continue
        }
        const at = reader.pos
        reader.skip(wireType, stop)
        if (number === 1) {
          this.keyStart = at
          this.keyEnd = reader.pos
        } else if (number === 2) this.valueAt = at
      }
      reader.pos = stop
      return stop
    }
    return -1
  }

  /**
   * Whether every key is greater than the one before it, as Go writes maps. Such a map needs no sorting and has no
   * duplicate keys.
   */
  isSorted(field: PlanField, first: number, last: number, end: number): boolean {
    const { reader } = this
    const { bytes } = reader
    let previousStart = 0
    let previousEnd = -1
    reader.pos = first
    for (let entryEnd = this.next(field, last, end); entryEnd !== -1; entryEnd = this.next(field, last, end)) {
      const { keyStart, keyEnd } = this
      if (previousEnd !== -1) {
        let i = previousStart
        let k = keyStart
        while (i < previousEnd && k < keyEnd && bytes[i] === bytes[k]) {
          i++
          k++
        }
        const isAbove = i === previousEnd ? k < keyEnd : k < keyEnd && bytes[k]! > bytes[i]!
        if (!isAbove) return false
      }
      previousStart = keyStart
      previousEnd = keyEnd
      reader.pos = entryEnd
    }
    return true
  }

  /**
   * Returns all entries from `reader.pos` on, sorted by key as in Go; the last of duplicate keys wins. Go itself
   * writes maps sorted, so few values need this.
   */
  sorted(field: PlanField, last: number, end: number): [key: string, entry: MapEntry][] {
    const { reader } = this
    const found = new Map<string, MapEntry>()
    for (let entryEnd = this.next(field, last, end); entryEnd !== -1; entryEnd = this.next(field, last, end)) {
      const { keyStart, keyEnd, valueAt } = this
      // latin1 gives one unit per byte, so that strings compare as Go compares bytes.
      const key =
        field.keyType === 'string'
          ? reader.bytes.toString('latin1', keyStart, keyEnd)
          : this.numericKey(field.keyType, keyStart, keyEnd)
      found.set(key, { keyStart, keyEnd, valueAt, end: entryEnd })
      reader.pos = entryEnd
    }
    return [...found].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  }

  /** Returns the text of a key that is a number or a boolean. Only messages from a descriptor set have such maps. */
  private numericKey(type: ScalarType, start: number, end: number): string {
    const { reader } = this
    if (start === end) return type === 'bool' ? 'false' : '0'
    reader.pos = start
    const scratch = new JsonWriter()
    writeScalar(type, reader, scratch, end)
    return scratch.bytes.toString('latin1', 0, scratch.length)
  }
}

/**
 * Makes the first pass over a message, which finds the first and last occurrence of each known field. The places of all
 * messages being read are numbers in one array, used as a stack.
 */
import { CodecError } from './codec-error.js'
import type { Plan } from './plan.js'
import { LENGTH, type WireReader } from './wire.js'

/**
 * The maximum depth, since every level costs a frame of the JavaScript stack. CRD schemas nest by far the deepest,
 * with two messages per level.
 */
export const MAX_MESSAGE_DEPTH = 200

export class FieldPlaces {
  /** The number of fields unknown to the schema since `reset`. */
  unknownFields = 0
  /** Two entries for each field of every message being read: the tags of its first and last occurrence, or -1. */
  private places = new Int32Array(4_096)
  private top = 0
  private messagesLeft = 0

  constructor(private readonly reader: WireReader) {}

  /** Starts a new value with at most this many messages. */
  reset(maxMessages: number): void {
    this.messagesLeft = maxMessages
    this.top = 0
    this.unknownFields = 0
  }

  /** Returns the base of the message's places, to be passed to `free` when they are no longer needed. */
  find(plan: Plan, start: number, end: number, depth: number): number {
    if (depth > MAX_MESSAGE_DEPTH) throw new CodecError('too-deep', `it nests deeper than ${MAX_MESSAGE_DEPTH}`, start)
    if (--this.messagesLeft < 0) throw new CodecError('too-large', 'it holds too many messages', start)
    const { reader } = this
    const { fields, slotOf } = plan
    const base = this.top
    this.top = base + 2 * fields.length
    if (this.top > this.places.length) {
      const larger = new Int32Array(Math.max(this.top, this.places.length * 2))
      larger.set(this.places)
      this.places = larger
    }
    const { places, top } = this
    for (let i = base; i < top; i++) places[i] = -1
    reader.pos = start
    while (reader.pos < end) {
      const at = reader.pos
      const tag = reader.readTag(end)
      const number = tag >>> 3
      const slot = number < slotOf.length ? slotOf[number]! : -1
      if (slot === -1) this.unknownFields++
      else {
        const field = fields[slot]!
        if ((tag & 7) !== field.wireType && !(field.isPackable && (tag & 7) === LENGTH)) {
          const name = `${plan.name} field ${number} ${field.jsonName}`
          throw new CodecError('wire-type', `${name} has wire type ${tag & 7}, not ${field.wireType}`, at)
        }
        const place = base + 2 * slot
        if (places[place] === -1) places[place] = at
        places[place + 1] = at
      }
      reader.skip(tag & 7, end)
    }
    return base
  }

  /** The tag of the field's first occurrence, or -1. */
  first(base: number, slot: number): number {
    return this.places[base + 2 * slot]!
  }

  /** The tag of the field's last occurrence, or -1. */
  last(base: number, slot: number): number {
    return this.places[base + 2 * slot + 1]!
  }

  /** Frees the places of a message and of all messages found after it. */
  free(base: number): void {
    this.top = base
  }
}

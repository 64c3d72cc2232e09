/**
 * Finds the fields of a stored protobuf value that the schema does not have. Protobuf clients see those fields, but
 * they have no JSON form. The search only walks over the bytes, at a fraction of the cost of decoding them.
 */
import { CodecError } from './codec-error.js'
import { isProtobuf, openEnvelope } from './envelope.js'
import { MAX_MESSAGE_DEPTH } from './field-places.js'
import { type FieldType, type Plan, type PlanField, type Plans, plansOf } from './plan.js'
import type { Schema } from './schema.js'
import { LENGTH, WireReader } from './wire.js'

/** The highest known field number of each message whose JSON is a string or a number. */
const SPECIAL_FIELDS: Partial<Record<FieldType, number>> = {
  time: 2,
  microtime: 2,
  duration: 1,
  quantity: 1,
  intorstring: 3,
  json: 1,
}
const NONE: readonly string[] = []

/**
 * Returns each field as the JSON path of its message and its number: `status.nodeInfo.#12`. The result is empty for
 * nearly every value.
 * @throws CodecError when the value cannot be read.
 */
export function unknownFields(value: Buffer, schema: Schema): readonly string[] {
  return new Walk(plansOf(schema)).object(value, [])
}

class Walk {
  readonly #reader = new WireReader()
  #found: string[] | null = null

  constructor(private readonly plans: Plans) {}

  object(value: Buffer, path: string[]): readonly string[] {
    const { apiVersion, kind, rawStart, rawEnd } = openEnvelope(value)
    const before = this.#reader.bytes
    this.#reader.bytes = value
    this.#message(this.plans.ofKind(apiVersion, kind), rawStart, rawEnd, path)
    this.#reader.bytes = before
    return this.#found ?? NONE
  }

  #message(plan: Plan, start: number, end: number, path: string[]): void {
    if (path.length > MAX_MESSAGE_DEPTH) throw new CodecError('too-deep', 'it nests too deep', start)
    const reader = this.#reader
    const { fields, slotOf } = plan
    reader.pos = start
    while (reader.pos < end) {
      const tag = reader.readTag(end)
      const number = tag >>> 3
      const slot = number < slotOf.length ? slotOf[number]! : -1
      if (slot === -1) this.#note(path, number)
      const field = slot === -1 ? null : fields[slot]!
      if (field === null || (tag & 7) !== LENGTH || !hasInside(field)) {
        reader.skip(tag & 7, end)
        continue
      }
      const stop = reader.readLength(end) + reader.pos
      path.push(field.jsonName)
      if (field.label === 'map') this.#entry(field, reader.pos, stop, path)
      else this.#value(field, reader.pos, stop, path)
      path.pop()
      reader.pos = stop
    }
  }

  #value(field: PlanField, start: number, stop: number, path: string[]): void {
    if (field.type === 'message') return this.#message(field.plan(this.plans), start, stop, path)
    const highest = SPECIAL_FIELDS[field.type] ?? 0
    this.#fields(start, stop, (number, from, to) => {
      if (number > highest) this.#note(path, number)
      else if (field.type === 'json') this.#embedded(from, to, path)
    })
  }

  /** Walks over an object in an envelope inside another. */
  #embedded(from: number, to: number, path: string[]): void {
    const inner = this.#reader.bytes.subarray(from, to)
    if (isProtobuf(inner)) this.object(inner, path)
  }

  #entry(field: PlanField, start: number, stop: number, path: string[]): void {
    this.#fields(start, stop, (number, from, to) => {
      if (number === 2) this.#value(field, from, to, path)
    })
  }

  #fields(start: number, stop: number, visit: (number: number, from: number, to: number) => void): void {
    const reader = this.#reader
    reader.pos = start
    while (reader.pos < stop) {
      const tag = reader.readTag(stop)
      const at = reader.pos
      reader.skip(tag & 7, stop)
      const to = reader.pos
      if ((tag & 7) === LENGTH) {
        reader.pos = at
        visit(tag >>> 3, to - reader.readLength(stop), to)
      } else visit(tag >>> 3, at, to)
      reader.pos = to
    }
  }

  /** Records a field. Inlined messages have no name in the path. */
  #note(path: readonly string[], number: number): void {
    this.#found ??= []
    this.#found.push([...path.filter((name) => name !== ''), `#${number}`].join('.'))
  }
}

function hasInside(field: PlanField): boolean {
  return field.type === 'message' || SPECIAL_FIELDS[field.type] !== undefined
}

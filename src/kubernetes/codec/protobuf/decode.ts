/**
 * Decodes a value stored as protobuf into the JSON in which an API server would serve it.
 *
 * Each message is read in two passes over its bytes: the first notes where each known field starts, and the second
 * writes the members in the order of the Go struct. One pass is not enough: some fields that are absent on the wire
 * (an empty required field) must be written, members are not in the order of their numbers, and the last of duplicate
 * scalars wins. The positions are numbers in one array used as a stack, and the bytes are copied from the input
 * buffer to the output buffer. Building an object tree for JSON.stringify was rejected, because protobuf-es takes
 * longer just to build the tree (`bench/protobuf-decode.ts`).
 *
 * Empty and absent values follow Go: a value is written unless it is empty and `omitempty`, a struct is always written,
 * a pointer is written when present, and an absent array or map without `omitempty` is null.
 */
import { compactJson } from '../json-scan.js'
import { CodecError } from './codec-error.js'
import { isProtobuf, openEnvelope } from './envelope.js'
import { FieldPlaces, MAX_MESSAGE_DEPTH } from './field-places.js'
import { JsonWriter } from './json-writer.js'
import { MapEntries } from './map-entries.js'
import { writeNumber } from './number-values.js'
import { type Plan, type PlanField, type Plans, plansOf, WIRE_TYPES } from './plan.js'
import { OBJECT_META, type Schema } from './schema.js'
import { SpecialValues } from './special-values.js'
import { LENGTH, WireReader } from './wire.js'

export interface DecodedObject {
  /** An exactly sized copy: compact JSON, kind and apiVersion first. */
  readonly bytes: Buffer
  /** Index in `bytes` just after the `{` of the top-level `metadata`; -1 when the kind has none. */
  readonly revisionOffset: number
  readonly apiVersion: string
  readonly kind: string
  /** The number of fields unknown to the schema, which are missing from `bytes`. */
  readonly unknownFields: number
}

export interface DecodeOptions {
  /**
   * By default `metadata.resourceVersion` is left out: etcd's mod revision is the true one, inserted when the object is
   * served.
   */
  readonly keepResourceVersion?: boolean
  /** Whether to leave out the kind and apiVersion that API servers add to a StatefulSet's volume claim templates. */
  readonly withoutDefaults?: boolean
  /**
   * The most messages to read before the value is rejected as too large. A body of 3 MB can hold a million and a half
   * empty messages, each of which is many times as long in JSON. Default: no limit, because etcd limits the size of
   * stored values.
   */
  readonly maxMessages?: number
  /** The kind of an envelope that names none. A frame of a watch, for example, is a WatchEvent. */
  readonly defaultKind?: { readonly apiVersion: string; readonly kind: string }
}

/**
 * Returns the stored value as JSON.
 *
 * @param value the whole value with its envelope.
 * @throws CodecError for anything that is wrong with the value, and nothing else.
 */
export function decodeObject(value: Buffer, schema: Schema, options: DecodeOptions = {}): DecodedObject {
  return decoder.decode(value, schema, options)
}

const CLAIM = 'k8s.io.api.core.v1.PersistentVolumeClaim'

const NULL = Buffer.from('null', 'latin1')
const EMPTY_STRING = Buffer.from('""', 'latin1')
const EMPTY_ARRAY = Buffer.from('[]', 'latin1')
const TYPE_META_OF_CLAIM = Buffer.from('"kind":"PersistentVolumeClaim","apiVersion":"v1",', 'latin1')
const NOTHING = Buffer.alloc(0)
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/** Only one decoding runs at a time, since it is synchronous, so its buffers are reused. */
class Decoder {
  private readonly reader = new WireReader()
  private readonly places = new FieldPlaces(this.reader)
  private readonly writer = new JsonWriter()
  private readonly entries = new MapEntries(this.reader)
  private readonly special = new SpecialValues(this.reader, this.writer)
  private plans!: Plans
  private revisionOffset = -1
  private keepsResourceVersion = false
  private addsDefaults = true

  decode(value: Buffer, schema: Schema, options: DecodeOptions): DecodedObject {
    const envelope = openEnvelope(value)
    const { rawStart, rawEnd } = envelope
    const { apiVersion, kind } = envelope.kind === '' ? (options.defaultKind ?? envelope) : envelope
    this.plans = plansOf(schema)
    this.writer.reset()
    this.reader.bytes = value
    this.addsDefaults = options.withoutDefaults !== true
    this.keepsResourceVersion = options.keepResourceVersion === true
    this.places.reset(options.maxMessages ?? Infinity)
    this.special.unknownFields = 0
    this.revisionOffset = -1
    try {
      this.object(apiVersion, kind, rawStart, rawEnd, 0)
      const unknownFields = this.places.unknownFields + this.special.unknownFields
      return { bytes: this.writer.copy(), revisionOffset: this.revisionOffset, apiVersion, kind, unknownFields }
    } finally {
      this.reader.bytes = NOTHING
    }
  }

  /** Writes an object with its kind: the whole value, or an object in an envelope inside another. */
  private object(apiVersion: string, kind: string, start: number, end: number, depth: number): void {
    const plan = this.plans.ofKind(apiVersion, kind)
    const { writer } = this
    writer.byte(OPEN_BRACE)
    const open = writer.length
    if (plan.isKind) {
      if (plan.head?.apiVersion !== apiVersion) {
        const text = `"kind":${JSON.stringify(kind)},"apiVersion":${JSON.stringify(apiVersion)},`
        plan.head = { apiVersion, bytes: Buffer.from(text, 'utf8') }
      }
      writer.raw(plan.head.bytes)
    }
    this.members(plan, start, end, depth)
    writer.close(open, CLOSE_BRACE)
  }

  /** Writes the members of a message, each with a comma after it. */
  private members(plan: Plan, start: number, end: number, depth: number): void {
    const { fields } = plan
    const { places } = this
    const base = places.find(plan, start, end, depth)
    for (let slot = 0; slot < fields.length; slot++) {
      const field = fields[slot]!
      const first = places.first(base, slot)
      if (first === -1 ? field.isSkippedWhenAbsent : field.isHidden) continue
      const last = places.last(base, slot)
      if (field.label === 'repeated') this.repeated(field, first, last, end, depth)
      else if (field.label === 'map') this.map(field, first, last, end, depth)
      else this.single(plan, field, first, last, end, depth)
    }
    places.free(base)
  }

  private single(plan: Plan, field: PlanField, first: number, last: number, end: number, depth: number): void {
    const { reader, writer } = this
    const isPointer = field.label === 'pointer'
    if (first === -1 && (isPointer || !field.isStruct)) {
      this.constant(field, isPointer ? NULL : field.zero)
      return
    }
    const before = writer.length
    if (field.type === 'message') {
      if (first === last) this.singleMessage(plan, field, first, end, depth)
      else this.mergedMessage(plan, field, first, last, end, depth)
      return
    }
    writer.raw(field.prefix)
    if (first === -1) writer.raw(field.zero)
    else {
      reader.pos = last
      reader.readTag(end)
      if (!this.value(field, end, depth, field.omitsEmpty && !isPointer)) {
        writer.length = before
        return
      }
    }
    writer.byte(COMMA)
  }

  private constant(field: PlanField, text: Buffer): void {
    this.writer.raw(field.prefix)
    this.writer.raw(text)
    this.writer.byte(COMMA)
  }

  /** @param at the offset of the field's tag; -1 when the field is absent and must still be written. */
  private singleMessage(plan: Plan, field: PlanField, at: number, end: number, depth: number): void {
    const { reader } = this
    if (at === -1) {
      this.messageMember(plan, field, 0, 0, depth)
      return
    }
    reader.pos = at
    reader.readTag(end)
    const length = reader.readLength(end)
    this.messageMember(plan, field, reader.pos, reader.pos + length, depth)
  }

  /** Joins the bytes of a message that is given in several parts. No encoder of Kubernetes writes such a message. */
  private mergedMessage(plan: Plan, field: PlanField, first: number, last: number, end: number, depth: number): void {
    const { reader } = this
    const bytes = reader.bytes
    const parts: Buffer[] = []
    reader.pos = first
    while (reader.pos <= last) {
      const tag = reader.readTag(end)
      if (tag >>> 3 !== field.number) {
        reader.skip(tag & 7, end)
        continue
      }
      const length = reader.readLength(end)
      parts.push(bytes.subarray(reader.pos, reader.pos + length))
      reader.pos += length
    }
    reader.bytes = Buffer.concat(parts)
    this.messageMember(plan, field, 0, reader.bytes.length, depth)
    reader.bytes = bytes
  }

  private messageMember(plan: Plan, field: PlanField, from: number, to: number, depth: number): void {
    const { writer } = this
    const inner = field.plan(this.plans)
    if (field.isInline) {
      this.members(inner, from, to, depth + 1)
      return
    }
    writer.raw(field.prefix)
    if (depth === 0 && plan.isKind && field.jsonName === 'metadata' && inner.name === OBJECT_META) {
      writer.byte(OPEN_BRACE)
      this.revisionOffset = writer.length
      this.members(this.keepsResourceVersion ? inner : this.plans.metadataPlan, from, to, 1)
      writer.close(this.revisionOffset, CLOSE_BRACE)
    } else if (inner.form === 'items' && from === to) {
      // A Go slice has no nil elements.
      if (field.omitsEmpty) {
        writer.length -= field.prefix.length
        return
      }
      writer.raw(NULL)
    } else this.message(inner, from, to, depth + 1)
    writer.byte(COMMA)
  }

  private message(plan: Plan, from: number, to: number, depth: number): void {
    const { writer } = this
    if (plan.form === 'object') {
      writer.byte(OPEN_BRACE)
      const open = writer.length
      this.members(plan, from, to, depth)
      writer.close(open, CLOSE_BRACE)
      return
    }
    const { places } = this
    const base = places.find(plan, from, to, depth)
    // When the message has two fields, the second one is used if it is set.
    const last = plan.fields.length - 1
    const slot = places.first(base, last) === -1 ? 0 : last
    this.bareField(plan.fields[slot]!, places.first(base, slot), places.last(base, slot), to, depth)
    places.free(base)
  }

  /** Writes a field's value in place of the message that contains it. */
  private bareField(field: PlanField, first: number, last: number, end: number, depth: number): void {
    const { reader, writer } = this
    if (field.label === 'repeated') {
      if (first === -1) writer.raw(EMPTY_ARRAY)
      else this.elements(field, first, last, end, depth)
    } else if (first === -1) writer.raw(field.label === 'pointer' ? NULL : field.zero)
    else {
      reader.pos = last
      reader.readTag(end)
      this.value(field, end, depth, false)
    }
  }

  private repeated(field: PlanField, first: number, last: number, end: number, depth: number): void {
    const { writer } = this
    if (first === -1) {
      this.constant(field, NULL)
      return
    }
    const before = writer.length
    writer.raw(field.prefix)
    // A packed occurrence can be empty, so the array may still have no numbers.
    if (this.elements(field, first, last, end, depth) || !field.omitsEmpty) writer.byte(COMMA)
    else writer.length = before
  }

  /** Writes the elements. Returns whether there are any. */
  private elements(field: PlanField, first: number, last: number, end: number, depth: number): boolean {
    const { reader, writer } = this
    writer.byte(OPEN_BRACKET)
    const open = writer.length
    reader.pos = first
    while (reader.pos <= last) {
      const tag = reader.readTag(end)
      if (tag >>> 3 !== field.number) {
        reader.skip(tag & 7, end)
        continue
      }
      if ((tag & 7) === field.wireType) {
        this.value(field, end, depth, false)
        writer.byte(COMMA)
        continue
      }
      const length = reader.readLength(end)
      const stop = reader.pos + length
      while (reader.pos < stop) {
        this.value(field, stop, depth, false)
        writer.byte(COMMA)
      }
    }
    const hasAny = writer.length > open
    writer.close(open, CLOSE_BRACKET)
    return hasAny
  }

  private map(field: PlanField, first: number, last: number, end: number, depth: number): void {
    const { writer } = this
    if (first === -1) {
      this.constant(field, NULL)
      return
    }
    writer.raw(field.prefix)
    writer.byte(OPEN_BRACE)
    const open = writer.length
    if (field.keyType === 'string' && this.entries.isSorted(field, first, last, end)) {
      this.reader.pos = first
      for (
        let entryEnd = this.entries.next(field, last, end);
        entryEnd !== -1;
        entryEnd = this.entries.next(field, last, end)
      ) {
        writer.string(this.reader.bytes, this.entries.keyStart, this.entries.keyEnd)
        this.mapValue(field, entryEnd, depth)
      }
    } else this.unsortedMap(field, first, last, end, depth)
    writer.close(open, CLOSE_BRACE)
    writer.byte(COMMA)
  }

  private unsortedMap(field: PlanField, first: number, last: number, end: number, depth: number): void {
    const { reader, writer } = this
    reader.pos = first
    for (const [key, entry] of this.entries.sorted(field, last, end)) {
      if (field.keyType === 'string') writer.string(reader.bytes, entry.keyStart, entry.keyEnd)
      else writer.ascii(JSON.stringify(key))
      this.entries.valueAt = entry.valueAt
      this.mapValue(field, entry.end, depth)
    }
  }

  /** Writes an entry of a map after its key. */
  private mapValue(field: PlanField, entryEnd: number, depth: number): void {
    const { reader, writer } = this
    writer.byte(COLON)
    if (this.entries.valueAt !== -1) {
      reader.pos = this.entries.valueAt
      this.value(field, entryEnd, depth, false)
    } else if (field.type === 'message') this.message(field.plan(this.plans), 0, 0, depth + 1)
    else writer.raw(field.type === 'bytes' ? EMPTY_STRING : field.zero)
    writer.byte(COMMA)
    reader.pos = entryEnd
  }

  /**
   * Writes the value at `reader.pos` and moves past it. Returns false, with nothing written, when the value is empty
   * and `omitsEmpty`.
   */
  private value(field: PlanField, end: number, depth: number, omitsEmpty: boolean): boolean {
    const { reader, writer } = this
    if (field.wireType !== LENGTH && field.label !== 'map') return writeNumber(field, reader, writer, end, omitsEmpty)
    if (field.label === 'map' && WIRE_TYPES[field.type] !== LENGTH)
      return writeNumber(field, reader, writer, end, false)
    const length = reader.readLength(end)
    const start = reader.pos
    const stop = start + length
    switch (field.type) {
      case 'string':
        if (length === 0 && omitsEmpty) return false
        writer.string(reader.bytes, start, stop)
        break
      case 'message': {
        const plan = field.plan(this.plans)
        if (plan.name === CLAIM && field.jsonName === 'volumeClaimTemplates') this.claim(plan, start, stop, depth + 1)
        else this.message(plan, start, stop, depth + 1)
        break
      }
      case 'bytes':
        if (length === 0 && omitsEmpty) return false
        writer.base64(reader.bytes, start, stop)
        break
      case 'time':
      case 'microtime':
        if (!this.special.time(start, stop, field.type === 'microtime', omitsEmpty && field.omitsZero)) return false
        break
      case 'quantity':
        this.special.quantity(start, stop)
        break
      case 'intorstring':
        this.special.intOrString(start, stop)
        break
      case 'json':
        this.embedded(start, stop, depth)
        break
      default:
        this.special.duration(start, stop)
    }
    reader.pos = stop
    return true
  }

  /** Writes RawExtension, FieldsV1 or JSON, whose bytes are either JSON or another envelope. */
  private embedded(start: number, stop: number, depth: number): void {
    const { reader, writer } = this
    const from = this.special.embeddedStart(start, stop)
    const to = reader.pos
    if (from === to) {
      writer.raw(NULL)
      return
    }
    const { bytes } = reader
    const inner = bytes.subarray(from, to)
    if (!isProtobuf(inner)) {
      // Compact the JSON because an event is one line, and check it because one bad value must not spoil a whole
      // list. The API server keeps numbers of any size here.
      const json = compactJson(inner, 'any')
      if (json === null) throw new CodecError('malformed', 'embedded JSON is not valid, or nested too deeply', from)
      writer.ensure(json.length)
      writer.length += json.copy(writer.bytes, writer.length)
      return
    }
    if (depth >= MAX_MESSAGE_DEPTH) throw new CodecError('too-deep', `it nests deeper than ${MAX_MESSAGE_DEPTH}`, from)
    const { apiVersion, kind, rawStart, rawEnd } = openEnvelope(inner)
    reader.bytes = inner
    this.object(apiVersion, kind, rawStart, rawEnd, depth + 1)
    reader.bytes = bytes
  }

  /**
   * Writes a volume claim template of a StatefulSet. API servers add kind and apiVersion when they convert it, although
   * protobuf has no place for them.
   */
  private claim(plan: Plan, start: number, stop: number, depth: number): void {
    const { writer } = this
    writer.byte(OPEN_BRACE)
    const open = writer.length
    if (this.addsDefaults) writer.raw(TYPE_META_OF_CLAIM)
    this.members(plan, start, stop, depth)
    writer.close(open, CLOSE_BRACE)
  }
}

const decoder = new Decoder()

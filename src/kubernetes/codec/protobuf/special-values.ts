/**
 * Reads the messages whose JSON is a string or a number: times, durations, quantities and IntOrString. All their
 * fields are known, so they are read without a schema.
 */
import { CodecError } from './codec-error.js'
import type { JsonWriter } from './json-writer.js'
import { writeSigned32 } from './number-values.js'
import { ZERO_TIME_SECONDS, formatDuration, formatMicroTime, formatTime } from './scalars.js'
import { VARINT, type WireReader } from './wire.js'

const NULL = Buffer.from('null', 'latin1')
const ZERO_QUANTITY = Buffer.from('"0"', 'latin1')
const QUOTE = 0x22

export class SpecialValues {
  /** The number of unknown fields in these messages since it was last set to 0. */
  unknownFields = 0
  private lastSeconds = Number.NaN
  private lastTime = ''

  constructor(
    private readonly reader: WireReader,
    private readonly writer: JsonWriter,
  ) {}

  /**
   * Reads meta/v1 Time and MicroTime: a message of seconds and nanoseconds. An empty one is Go's zero time.
   *
   * @returns false for a zero time that was omitted because of `omitsZero`.
   */
  time(start: number, stop: number, isMicro: boolean, omitsZero: boolean): boolean {
    const { reader, writer } = this
    let seconds = 0
    let nanos = 0
    reader.pos = start
    while (reader.pos < stop) {
      const tag = reader.readTag(stop)
      const low = this.varintOf(tag, stop)
      if (tag >>> 3 === 1) seconds = (reader.high | 0) * 4_294_967_296 + low
      else if (tag >>> 3 === 2) nanos = low | 0
    }
    if (start === stop || (seconds === ZERO_TIME_SECONDS && !(isMicro && nanos !== 0))) {
      if (!omitsZero) writer.raw(NULL)
      return !omitsZero
    }
    writer.byte(QUOTE)
    if (isMicro) writer.ascii(formatMicroTime(seconds, nanos))
    else {
      // An object has many times but few different seconds, so the last text is reused.
      if (seconds !== this.lastSeconds) {
        this.lastTime = formatTime(seconds)
        this.lastSeconds = seconds
      }
      writer.ascii(this.lastTime)
    }
    writer.byte(QUOTE)
    return true
  }

  /** Returns the lower half of a number in one of the small messages, 0 for an unknown field. */
  private varintOf(tag: number, end: number): number {
    const { reader } = this
    if ((tag & 7) === VARINT) return reader.readVarint(end)
    if (tag >>> 3 <= 2) throw new CodecError('wire-type', `a number has wire type ${tag & 7}`, reader.pos)
    this.unknownFields++
    reader.skip(tag & 7, end)
    return 0
  }

  /** Go writes quantities in canonical form, so the stored text is the JSON text. An absent text means zero. */
  quantity(start: number, stop: number): void {
    const { reader, writer } = this
    const from = this.firstField(start, stop, 'a quantity')
    if (from === reader.pos) writer.raw(ZERO_QUANTITY)
    else writer.string(reader.bytes, from, reader.pos)
  }

  /** Returns where the bytes of a RawExtension, FieldsV1 or JSON start. They end at `reader.pos`, and may be empty. */
  embeddedStart(start: number, stop: number): number {
    return this.firstField(start, stop, 'embedded JSON')
  }

  intOrString(start: number, stop: number): void {
    const { reader, writer } = this
    let type = 0
    let number = 0
    let from = 0
    let to = 0
    reader.pos = start
    while (reader.pos < stop) {
      const tag = reader.readTag(stop)
      if (tag === 0x1a) {
        const length = reader.readLength(stop)
        from = reader.pos
        to = from + length
        reader.pos = to
      } else {
        const low = this.varintOf(tag, stop)
        if (tag >>> 3 === 1) type = low
        else if (tag >>> 3 === 2) number = low | 0
      }
    }
    if (type === 0) writeSigned32(writer, number)
    else if (type === 1) writer.string(reader.bytes, from, to)
    else throw new CodecError('malformed', `an IntOrString of type ${type}`, start)
  }

  duration(start: number, stop: number): void {
    const { reader, writer } = this
    let nanoseconds = 0n
    reader.pos = start
    while (reader.pos < stop) {
      const tag = reader.readTag(stop)
      const low = this.varintOf(tag, stop)
      if (tag >>> 3 === 1) nanoseconds = BigInt.asIntN(64, (BigInt(reader.high) << 32n) | BigInt(low))
    }
    writer.raw(Buffer.from(JSON.stringify(formatDuration(nanoseconds)), 'utf8'))
  }

  /**
   * Returns where field 1, which is text or bytes, starts. The field ends at `reader.pos`, and is empty when absent.
   */
  private firstField(start: number, stop: number, what: string): number {
    const { reader } = this
    let from = 0
    let to = 0
    reader.pos = start
    while (reader.pos < stop) {
      const tag = reader.readTag(stop)
      if (tag === 0x0a) {
        const length = reader.readLength(stop)
        from = reader.pos
        to = from + length
        reader.pos = to
      } else if (tag >>> 3 === 1) {
        throw new CodecError('wire-type', `${what} has wire type ${tag & 7}`, reader.pos)
      } else {
        this.unknownFields++
        reader.skip(tag & 7, stop)
      }
    }
    reader.pos = to
    return from
  }
}

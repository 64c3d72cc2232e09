/**
 * Writes numbers and booleans from the wire as JSON text, with all their digits. 64-bit integers are JSON numbers, as
 * everywhere in Kubernetes.
 */
import type { JsonWriter } from './json-writer.js'
import type { PlanField } from './plan.js'
import { formatDouble, formatFloat } from './scalars.js'
import type { ScalarType } from './schema.js'
import type { WireReader } from './wire.js'

const TRUE = Buffer.from('true', 'latin1')
const FALSE = Buffer.from('false', 'latin1')
const MINUS = 0x2d

/** Writes the number at `reader.pos`. Returns false, with nothing written, when it is zero and `omitsEmpty`. */
export function writeNumber(
  field: PlanField,
  reader: WireReader,
  writer: JsonWriter,
  end: number,
  omitsEmpty: boolean,
): boolean {
  const { type } = field
  if (type === 'bool') {
    const isTrue = reader.readVarint(end) !== 0 || reader.high !== 0
    if (omitsEmpty && !isTrue) return false
    writer.raw(isTrue ? TRUE : FALSE)
    return true
  }
  if (type === 'enum') {
    const value = reader.readVarint(end) | 0
    if (omitsEmpty && value === 0) return false
    writer.raw(Buffer.from(JSON.stringify(field.enumNames?.get(value) ?? value), 'utf8'))
    return true
  }
  const before = writer.length
  writeScalar(type as ScalarType, reader, writer, end)
  // Every zero is written as the one digit 0, except the double -0. Go treats both as empty.
  const isZero = writer.bytes[writer.length - 1] === 0x30 && writer.length - before <= 2
  if (!omitsEmpty || !isZero || (writer.length - before === 2 && writer.bytes[before] !== MINUS)) return true
  writer.length = before
  return false
}

/** Writes a scalar, including booleans but not enums. */
export function writeScalar(type: ScalarType, reader: WireReader, writer: JsonWriter, end: number): void {
  switch (type) {
    case 'int32':
      writeSigned32(writer, reader.readVarint(end) | 0)
      return
    case 'int64': {
      const low = reader.readVarint(end)
      writer.integer(low, reader.high, true)
      return
    }
    case 'bool':
      writer.raw(reader.readVarint(end) !== 0 || reader.high !== 0 ? TRUE : FALSE)
      return
    case 'uint32':
      writer.unsigned(reader.readVarint(end))
      return
    case 'uint64': {
      const low = reader.readVarint(end)
      writer.integer(low, reader.high, false)
      return
    }
    case 'sint32': {
      const zigzag = reader.readVarint(end)
      writeSigned32(writer, (zigzag >>> 1) ^ -(zigzag & 1))
      return
    }
    case 'sint64': {
      const low = reader.readVarint(end)
      const { high } = reader
      const sign = -(low & 1)
      writer.integer((((low >>> 1) | (high << 31)) ^ sign) >>> 0, ((high >>> 1) ^ sign) >>> 0, true)
      return
    }
    case 'fixed32':
      writer.unsigned(reader.readFixed32(end))
      return
    case 'sfixed32':
      writeSigned32(writer, reader.readFixed32(end) | 0)
      return
    case 'fixed64':
    case 'sfixed64': {
      const low = reader.readFixed64(end)
      writer.integer(low, reader.high, type === 'sfixed64')
      return
    }
    case 'float': {
      const at = reader.pos
      reader.readFixed32(end)
      writer.ascii(formatFloat(reader.bytes.readFloatLE(at)))
      return
    }
    default: {
      const at = reader.pos
      reader.readFixed64(end)
      writer.ascii(formatDouble(reader.bytes.readDoubleLE(at)))
    }
  }
}

export function writeSigned32(writer: JsonWriter, value: number): void {
  if (value < 0) writer.byte(MINUS)
  writer.unsigned(Math.abs(value))
}

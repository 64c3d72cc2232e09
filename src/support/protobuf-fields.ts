/** Reads and writes small protobuf messages field by field. */
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'

/**
 * Reads each field with the function for its number, which must consume the value. Fields without a function are
 * skipped.
 *
 * @throws Error for malformed bytes.
 */
export function readFields(bytes: Uint8Array, fields: Readonly<Record<number, (reader: BinaryReader) => void>>): void {
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    const read = fields[number]
    if (read === undefined) reader.skip(wireType, number)
    else read(reader)
  }
}

/** A message is the bytes that `writeFields` returned for it. */
type FieldValue = string | Uint8Array | number | bigint | boolean

/**
 * Writes fields by their numbers. A number becomes a 64-bit integer, a list a repeated field, and an undefined field is
 * left out.
 */
export function writeFields(
  fields: Readonly<Record<number, FieldValue | readonly Uint8Array[] | undefined>>,
): Uint8Array {
  const writer = new BinaryWriter()
  for (const [name, given] of Object.entries(fields)) {
    const number = Number(name)
    for (const value of Array.isArray(given) ? (given as readonly Uint8Array[]) : [given as FieldValue | undefined]) {
      if (typeof value === 'string') writer.tag(number, WireType.LengthDelimited).string(value)
      else if (typeof value === 'boolean') writer.tag(number, WireType.Varint).bool(value)
      else if (typeof value === 'object') writer.tag(number, WireType.LengthDelimited).bytes(value)
      else if (value !== undefined) writer.tag(number, WireType.Varint).int64(value)
    }
  }
  return writer.finish()
}

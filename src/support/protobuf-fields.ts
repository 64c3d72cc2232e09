/** Reads small protobuf messages field by field. */
import { BinaryReader } from '@bufbuild/protobuf/wire'

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

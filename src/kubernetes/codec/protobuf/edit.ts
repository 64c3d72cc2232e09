/**
 * Changes single fields of an encoded message at wire level, by a path of field numbers. Every other byte stays
 * unchanged, so fields unknown to any schema are kept. An edit takes microseconds. It is meant for a few fields of a
 * few kinds.
 */
import { LENGTH, lengthField, WireReader } from './wire.js'

const reader = new WireReader()

/** Returns the contents of every length-delimited field at a path. @throws CodecError */
export function contentsAt(message: Buffer, path: readonly number[]): readonly Buffer[] {
  let messages: readonly Buffer[] = [message]
  for (const number of path) {
    messages = messages.flatMap((each) => fieldsOf(each, number).map(({ from, to }) => each.subarray(from, to)))
  }
  return messages
}

/**
 * Appends a field to the message at the preceding path, which is created if missing. The appended field wins, because
 * decoders use the last of duplicate fields and of duplicate map entries.
 * @throws CodecError
 */
export function appendAt(message: Buffer, path: readonly number[], content: Buffer): Buffer {
  const [number = 0, ...rest] = path
  if (rest.length === 0) return Buffer.concat([message, lengthField(number, content)])
  const last = fieldsOf(message, number).at(-1)
  const inner = last === undefined ? Buffer.alloc(0) : message.subarray(last.from, last.to)
  const changed = lengthField(number, appendAt(inner, rest, content))
  const { tagAt, to } = last ?? { tagAt: message.length, to: message.length }
  return Buffer.concat([message.subarray(0, tagAt), changed, message.subarray(to)])
}

/** Removes every length-delimited field at a path. @throws CodecError */
export function removeAt(message: Buffer, path: readonly number[]): Buffer {
  const [number = 0, ...rest] = path
  const parts: Buffer[] = []
  let end = 0
  for (const { tagAt, from, to } of fieldsOf(message, number)) {
    parts.push(message.subarray(end, tagAt))
    if (rest.length > 0) {
      parts.push(lengthField(number, removeAt(message.subarray(from, to), rest)))
    }
    end = to
  }
  return Buffer.concat([...parts, message.subarray(end)])
}

interface FieldPlace {
  readonly tagAt: number
  readonly from: number
  readonly to: number
}

function fieldsOf(message: Buffer, number: number): FieldPlace[] {
  const found: FieldPlace[] = []
  reader.bytes = message
  reader.pos = 0
  while (reader.pos < message.length) {
    const tagAt = reader.pos
    const tag = reader.readTag(message.length)
    if (tag !== ((number << 3) | LENGTH)) {
      reader.skip(tag & 7, message.length)
      continue
    }
    const to = reader.readLength(message.length) + reader.pos
    found.push({ tagAt, from: reader.pos, to })
    reader.pos = to
  }
  return found
}

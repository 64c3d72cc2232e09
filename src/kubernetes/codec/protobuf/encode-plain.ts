/**
 * Writes a plain object as protobuf, using the table of messages: for documents such as those of discovery, which are
 * never stored.
 */
import { encodeEnvelope } from './resource-version.js'
import { MessageWriter } from './message-writer.js'
import type { Field, Message, Schema } from './schema.js'

type Members = Readonly<Record<string, unknown>>

/**
 * Returns the object in its envelope. Members that are not pointers are written even when they are empty, as Go does.
 *
 * @param value has the members of its JSON.
 * @throws RangeError when the table has no such kind, or the kind a field that no document has (a map, a time).
 */
export function encodePlain(schema: Schema, apiVersion: string, kind: string, value: Members): Buffer {
  const message = schema.messageOfKind(apiVersion, kind)
  if (message === undefined) throw new RangeError(`there is no message for ${kind} of ${apiVersion}`)
  const raw = messageOf(schema, message, value).finish()
  return encodeEnvelope(apiVersion, kind, raw.length, (out, offset) => offset + raw.copy(out, offset))
}

function messageOf(schema: Schema, message: Message, value: unknown): MessageWriter {
  const members = message.form === 'items' ? { [message.fields[0]?.jsonName ?? '']: value } : (value as Members)
  const writer = new MessageWriter()
  for (const field of [...message.fields].sort((a, b) => a.number - b.number)) {
    const member = members[field.jsonName]
    if (field.label === 'repeated')
      for (const item of (member as readonly unknown[] | undefined) ?? []) write(schema, writer, field, item)
    else if (field.label === 'value' || member !== undefined) write(schema, writer, field, member)
  }
  return writer
}

function write(
  schema: Schema,
  writer: MessageWriter,
  { number, type, label, messageName }: Field,
  value: unknown,
): void {
  const message = type === 'message' ? schema.message(messageName) : undefined
  if (message !== undefined) writer.message(number, messageOf(schema, message, value ?? {}))
  else if (label !== 'map' && type === 'string') writer.text(number, typeof value === 'string' ? value : '')
  else if (label !== 'map' && (type === 'bool' || type === 'int32' || type === 'int64'))
    writer.integer(number, Number(value ?? 0))
  else throw new RangeError(`a field of type ${label} ${type} is not written`)
}

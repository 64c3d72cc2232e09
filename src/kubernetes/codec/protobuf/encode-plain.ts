/**
 * Writes a plain object as protobuf, using the table of messages: for documents such as those of discovery, which are
 * never stored.
 */
import { encodeEnvelope } from './resource-version.js'
import { MessageWriter } from './message-writer.js'
import { encodeObjectMeta } from './object-meta.js'
import type { Field, Message, Schema } from './schema.js'

type Members = Readonly<Record<string, unknown>>

const META_PACKAGE = 'k8s.io.apimachinery.pkg.apis.meta.v1'

/**
 * Returns the object in its envelope. Members that are not pointers are written even when they are empty, as Go does.
 *
 * @param document has the members of its JSON. Without an apiVersion it is of `v1`, and its envelope has none either.
 * @throws RangeError when the table has no such kind, or the kind a field that no document has (a map, a time).
 */
export function encodePlain(schema: Schema, document: Members): Buffer {
  const { kind, apiVersion = '' } = document as { readonly kind: string; readonly apiVersion?: string }
  const raw = contentOf(schema, apiVersion === '' ? 'v1' : apiVersion, kind, document).finish()
  return encodeEnvelope(apiVersion, kind, raw.length, (out, offset) => offset + raw.copy(out, offset))
}

function contentOf(schema: Schema, apiVersion: string, kind: string, document: Members): MessageWriter {
  const message = schema.messageOfKind(apiVersion, kind)
  if (message !== undefined) return messageOf(schema, message, document)
  // The table has no lists of objects: every one consists of these two fields.
  const item = kind.endsWith('List') ? schema.messageOfKind(apiVersion, kind.slice(0, -'List'.length)) : undefined
  const metadata = schema.message(`${META_PACKAGE}.ListMeta`)
  if (item === undefined || metadata === undefined) {
    throw new RangeError(`there is no message for ${kind} of ${apiVersion}`)
  }
  const list = new MessageWriter().message(1, messageOf(schema, metadata, document['metadata'] ?? {}))
  for (const one of document['items'] as readonly unknown[]) list.message(2, messageOf(schema, item, one))
  return list
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
  if (messageName === `${META_PACKAGE}.ObjectMeta`) {
    writer.bytes(number, encodeObjectMeta(value, ''))
    return
  }
  const message = type === 'message' ? schema.message(messageName) : undefined
  if (message !== undefined) writer.message(number, messageOf(schema, message, value ?? {}))
  else if (label !== 'map' && type === 'string') writer.text(number, typeof value === 'string' ? value : '')
  else if (label !== 'map' && (type === 'bool' || type === 'int32' || type === 'int64'))
    writer.integer(number, Number(value ?? 0))
  else throw new RangeError(`a field of type ${label} ${type} is not written`)
}

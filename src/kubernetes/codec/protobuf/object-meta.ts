/**
 * Writes ObjectMeta as protobuf from the `metadata` of an object stored as JSON. Its schema is the same for every kind,
 * so metadata clients get protobuf of custom resources as well. Fields have the order and zero values that Go writes,
 * so that the bytes are those of an API server. A member of another type than the schema says is dropped.
 *
 * Source: kubernetes/apimachinery, pkg/apis/meta/v1/generated.proto.
 */
import { MessageWriter } from './message-writer.js'

type Members = Readonly<Record<string, unknown>>

/** @param metadata parsed. @param resourceVersion replaces the stored one. */
export function encodeObjectMeta(metadata: unknown, resourceVersion: string): Buffer {
  const meta = membersOf(metadata)
  const message = new MessageWriter()
    .text(1, textOf(meta['name']))
    .text(2, textOf(meta['generateName']))
    .text(3, textOf(meta['namespace']))
    .text(4, textOf(meta['selfLink']))
    .text(5, textOf(meta['uid']))
    .text(6, resourceVersion)
    .integer(7, integerOf(meta['generation']) ?? 0)
    .message(8, time(meta['creationTimestamp']) ?? new MessageWriter())
  const deleted = time(meta['deletionTimestamp'])
  if (deleted !== null) message.message(9, deleted)
  const grace = integerOf(meta['deletionGracePeriodSeconds'])
  if (grace !== null) message.integer(10, grace)
  addEntries(message, 11, meta['labels'])
  addEntries(message, 12, meta['annotations'])
  for (const owner of listOf(meta['ownerReferences'])) message.message(13, ownerReference(membersOf(owner)))
  for (const finalizer of listOf(meta['finalizers'])) message.text(14, textOf(finalizer))
  for (const entry of listOf(meta['managedFields'])) message.message(17, managedFields(membersOf(entry)))
  return message.finish()
}

function ownerReference(owner: Members): MessageWriter {
  const message = new MessageWriter()
    .text(1, textOf(owner['kind']))
    .text(3, textOf(owner['name']))
    .text(4, textOf(owner['uid']))
    .text(5, textOf(owner['apiVersion']))
  const { controller, blockOwnerDeletion } = owner
  if (typeof controller === 'boolean') message.integer(6, Number(controller))
  if (typeof blockOwnerDeletion === 'boolean') message.integer(7, Number(blockOwnerDeletion))
  return message
}

function managedFields(entry: Members): MessageWriter {
  const message = new MessageWriter()
    .text(1, textOf(entry['manager']))
    .text(2, textOf(entry['operation']))
    .text(3, textOf(entry['apiVersion']))
  const at = time(entry['time'])
  if (at !== null) message.message(4, at)
  message.text(6, textOf(entry['fieldsType']))
  const { fieldsV1 } = entry
  if (typeof fieldsV1 === 'object' && fieldsV1 !== null)
    message.message(7, new MessageWriter().text(1, JSON.stringify(fieldsV1)))
  return message.text(8, textOf(entry['subresource']))
}

/** Go sorts the keys of a map. */
function addEntries(message: MessageWriter, fieldNumber: number, entries: unknown): void {
  for (const [key, value] of Object.entries(membersOf(entries)).sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (typeof value === 'string') message.message(fieldNumber, new MessageWriter().text(1, key).text(2, value))
  }
}

/** Returns a Time, which has whole seconds; null if there is none. */
function time(text: unknown): MessageWriter | null {
  const milliseconds = typeof text === 'string' ? Date.parse(text) : NaN
  if (Number.isNaN(milliseconds)) return null
  return new MessageWriter().integer(1, Math.floor(milliseconds / 1_000)).integer(2, 0)
}

function membersOf(value: unknown): Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : {}
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function integerOf(value: unknown): number | null {
  return Number.isSafeInteger(value) ? (value as number) : null
}

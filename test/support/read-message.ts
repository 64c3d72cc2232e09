/** Reads protobuf with a third-party decoder. */
import { createFileRegistry, fromBinary } from '@bufbuild/protobuf'
import { reflect } from '@bufbuild/protobuf/reflect'
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'
import { kubernetesDescriptors } from './protobuf-data.js'

export const messages = createFileRegistry(fromBinary(FileDescriptorSetSchema, kubernetesDescriptors()))

/** A message as plain values by proto field name; only fields that are set. */
export function readMessage(typeName: string, bytes: Buffer): Record<string, unknown> {
  const descriptor = messages.getMessage(typeName)!
  return plain(reflect(descriptor, fromBinary(descriptor, bytes))) as Record<string, unknown>
}

function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value)
  if (value === null || typeof value !== 'object') return value
  const reflected = value as {
    desc?: { fields: readonly { name: string }[] }
    isSet?(field: unknown): boolean
    get?(field: unknown): unknown
    entries?(): Iterable<[unknown, unknown]>
  } & Iterable<unknown>
  if (reflected.desc?.fields !== undefined) {
    const set = reflected.desc.fields.filter((field) => reflected.isSet!(field))
    return Object.fromEntries(set.map((field) => [field.name, plain(reflected.get!(field))]))
  }
  const items = [...reflected]
  return items.every((item) => Array.isArray(item))
    ? Object.fromEntries((items as [string, unknown][]).map(([key, item]) => [key, plain(item)]))
    : items.map(plain)
}

/**
 * Encodes the responses of etcd's protocol. Values are not copied: a response is a list of parts.
 *
 * Source: etcd api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto, which define the field numbers.
 */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { keyToBytes } from '../engine/model/event.js'
import type { StoredObject } from '../engine/model/stored-object.js'
import { bufferOf } from '../support/buffer-of.js'

/** The header of every response, without its revision. All are decimal text. */
export interface HeaderIdentity {
  readonly clusterId: string
  readonly memberId: string
  readonly raftTerm: string
}

export function encodeHeader({ clusterId, memberId, raftTerm }: HeaderIdentity, revision: number): Uint8Array {
  const writer = new BinaryWriter()
  writer.tag(1, WireType.Varint).uint64(clusterId).tag(2, WireType.Varint).uint64(memberId)
  if (revision !== 0) writer.tag(3, WireType.Varint).int64(revision)
  return writer.tag(4, WireType.Varint).uint64(raftTerm).finish()
}

/** Returns a length-delimited field with these parts. */
export function field(number: number, parts: readonly Uint8Array[]): Uint8Array[] {
  return [new BinaryWriter().tag(number, WireType.LengthDelimited).uint32(lengthOf(parts)).finish(), ...parts]
}

/** Returns the value exactly as etcd has it. */
export function rawValue({ raw, bytes }: StoredObject): Buffer {
  return raw ?? bytes
}

/** Returns the parts of a `KeyValue`. */
export function keyValueParts(object: StoredObject, withValue: boolean, withLease = true): Uint8Array[] {
  const { createRevision, modRevision, version, leaseId } = object
  const head = new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(keyToBytes(object.key))
  head.tag(2, WireType.Varint).int64(createRevision).tag(3, WireType.Varint).int64(modRevision)
  head.tag(4, WireType.Varint).int64(version)
  const value = withValue ? rawValue(object) : null
  const hasLease = withLease && leaseId !== '0'
  if (value === null || value.length === 0) {
    if (hasLease) head.tag(6, WireType.Varint).int64(leaseId)
    return [head.finish()]
  }
  const parts: Uint8Array[] = [head.tag(5, WireType.LengthDelimited).uint32(value.length).finish(), value]
  if (hasLease) parts.push(new BinaryWriter().tag(6, WireType.Varint).int64(leaseId).finish())
  return parts
}

/** Returns the parts of the fields after the key-values of a RangeResponse. */
export function rangeEnd(more: boolean, count: number): Uint8Array {
  const writer = new BinaryWriter()
  if (more) writer.tag(3, WireType.Varint).bool(true)
  if (count > 0) writer.tag(4, WireType.Varint).int64(count)
  return writer.finish()
}

/** Returns a MemberListResponse with this server as the only member. */
export function memberListResponse(header: Uint8Array, memberId: string, name: string, url: string): Uint8Array[] {
  const member = new BinaryWriter().tag(1, WireType.Varint).uint64(memberId)
  member.tag(2, WireType.LengthDelimited).string(name).tag(4, WireType.LengthDelimited).string(url)
  return [...field(1, [header]), ...field(2, [member.finish()])]
}

export function lengthOf(parts: readonly Uint8Array[]): number {
  let length = 0
  for (const part of parts) length += part.length
  return length
}

export function joinedParts(parts: readonly Uint8Array[]): Buffer {
  return bufferOf(Buffer.concat(parts))
}

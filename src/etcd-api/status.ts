/**
 * etcd's status as this server reports it: for its only member, and with the lower of two versions, because clients
 * decide by it which features they use.
 */
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { readFields } from '../support/protobuf-fields.js'
import { encodeHeader, field, type HeaderIdentity } from './responses.js'
import { safeInteger } from './requests.js'

/** The release of etcd whose API this server has. */
const API_VERSION = '3.7.0'

const HEADER = 1
const VERSION = 2
const LEADER = 4

/** Returns the fields of a StatusResponse, with this server's member and version in place of etcd's. */
export function statusAsMember(response: Uint8Array, identity: HeaderIdentity): Uint8Array[] {
  let revision = 0
  let version = ''
  let hasLeader = false
  readFields(response, {
    [HEADER]: (reader) => readFields(reader.bytes(), { 3: (header) => (revision = safeInteger(header)) }),
    [VERSION]: (reader) => (version = reader.string()),
    [LEADER]: (reader) => (hasLeader = BigInt(reader.uint64()) !== 0n),
  })
  const own = new BinaryWriter().tag(VERSION, WireType.LengthDelimited).string(lowerVersion(version, API_VERSION))
  if (hasLeader) own.tag(LEADER, WireType.Varint).uint64(identity.memberId)
  const others = fieldsExcept(response, new Set([HEADER, VERSION, LEADER]))
  return [...field(HEADER, [encodeHeader(identity, revision)]), own.finish(), ...others]
}

/** Returns the other fields of a message, as they are. */
export function fieldsExcept(message: Uint8Array, left: ReadonlySet<number>): Uint8Array[] {
  const reader = new BinaryReader(message)
  const parts: Uint8Array[] = []
  while (reader.pos < reader.len) {
    const start = reader.pos
    const [number, wireType] = reader.tag()
    reader.skip(wireType, number)
    if (!left.has(number)) parts.push(message.subarray(start, reader.pos))
  }
  return parts
}

function lowerVersion(one: string, other: string): string {
  const numbers = (text: string): readonly number[] => text.split(/[.-]/, 3).map(Number)
  const [a, b] = [numbers(one), numbers(other)]
  const at = a.findIndex((number, i) => number !== b[i])
  return at === -1 || a[at]! < b[at]! ? one : other
}

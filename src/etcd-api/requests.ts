/**
 * Decodes the requests of etcd's protocol.
 *
 * Source: etcd api/etcdserverpb/rpc.proto, which defines the field numbers.
 */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { type Key, keyFromBytes } from '../engine/model/event.js'
import { RpcStatus } from '../engine/upstream/etcd/rpc-status.js'
import { bufferOf } from '../support/buffer-of.js'
import { emptyKey, EtcdError, invalidSortOption } from './etcd-error.js'
import { type KeyRange, keyRange } from './key-range.js'

export interface RangeRequest {
  readonly range: KeyRange
  readonly limit: number
  /** 0 or less for the current one. */
  readonly revision: number
  readonly sortOrder: number
  readonly sortTarget: number
  readonly serializable: boolean
  readonly keysOnly: boolean
  readonly countOnly: boolean
  /** 0 for no bound, as in the following three. */
  readonly minModRevision: number
  readonly maxModRevision: number
  readonly minCreateRevision: number
  readonly maxCreateRevision: number
}

export const SORT_ORDER = { none: 0, ascending: 1, descending: 2 } as const
export const SORT_TARGET = { key: 0, version: 1, create: 2, mod: 3, value: 4 } as const

type Read = (reader: BinaryReader) => void

/** The fields of a message by their numbers, and by how they are encoded. */
interface Fields {
  readonly lengths?: Readonly<Record<number, Read>>
  readonly varints?: Readonly<Record<number, Read>>
  /** Numbers that may also come packed. */
  readonly either?: Readonly<Record<number, (reader: BinaryReader, isPacked: boolean) => void>>
}

/**
 * Reads a message as etcd will read it, so that what is authorized here is what is then done. A field in another
 * encoding than its own would be skipped by etcd, so it is an error here.
 * @throws EtcdError as Go's gRPC for a message that cannot be read.
 */
export function decode(bytes: Uint8Array, { lengths = {}, varints = {}, either = {} }: Fields): void {
  try {
    const reader = new BinaryReader(bytes)
    while (reader.pos < reader.len) {
      const [number, wireType] = reader.tag()
      const read = lengths[number] ?? varints[number]
      const isPacked = wireType === WireType.LengthDelimited
      if (either[number] !== undefined && (isPacked || wireType === WireType.Varint)) either[number](reader, isPacked)
      else if (read === undefined) reader.skip(wireType, number)
      else if (wireType === (lengths[number] === undefined ? WireType.Varint : WireType.LengthDelimited)) read(reader)
      else throw malformed()
    }
  } catch (error) {
    throw error instanceof EtcdError ? error : malformed(error)
  }
}

export function malformed(cause?: unknown): EtcdError {
  return new EtcdError(RpcStatus.INTERNAL, 'grpc: error unmarshalling request', { cause })
}

/** No revision or limit beyond what a number holds differs from the largest one. */
export function safeInteger(reader: BinaryReader): number {
  const value = BigInt(reader.int64())
  const limit = BigInt(Number.MAX_SAFE_INTEGER)
  return Number(value > limit ? limit : value < -limit ? -limit : value)
}

export function keyIn(reader: BinaryReader): Key {
  return keyFromBytes(bufferOf(reader.bytes()))
}

/** A request for everything in its range. */
export const NO_OPTIONS: Omit<RangeRequest, 'range'> = {
  limit: 0,
  revision: 0,
  sortOrder: 0,
  sortTarget: 0,
  serializable: false,
  keysOnly: false,
  countOnly: false,
  minModRevision: 0,
  maxModRevision: 0,
  minCreateRevision: 0,
  maxCreateRevision: 0,
}

/** @throws EtcdError for a request that etcd refuses before it looks at permissions. */
export function decodeRange(bytes: Uint8Array): RangeRequest {
  let key = '' as Key
  let rangeEnd = '' as Key
  const request: { -readonly [Option in keyof typeof NO_OPTIONS]: (typeof NO_OPTIONS)[Option] } = { ...NO_OPTIONS }
  decode(bytes, {
    lengths: { 1: (reader) => (key = keyIn(reader)), 2: (reader) => (rangeEnd = keyIn(reader)) },
    varints: {
      3: (reader) => (request.limit = safeInteger(reader)),
      4: (reader) => (request.revision = safeInteger(reader)),
      5: (reader) => (request.sortOrder = reader.int32()),
      6: (reader) => (request.sortTarget = reader.int32()),
      7: (reader) => (request.serializable = reader.bool()),
      8: (reader) => (request.keysOnly = reader.bool()),
      9: (reader) => (request.countOnly = reader.bool()),
      10: (reader) => (request.minModRevision = safeInteger(reader)),
      11: (reader) => (request.maxModRevision = safeInteger(reader)),
      12: (reader) => (request.minCreateRevision = safeInteger(reader)),
      13: (reader) => (request.maxCreateRevision = safeInteger(reader)),
    },
  })
  if (key === '') throw emptyKey()
  const isKnown = (value: number, known: object): boolean => Object.values(known).includes(value)
  if (!isKnown(request.sortOrder, SORT_ORDER) || !isKnown(request.sortTarget, SORT_TARGET)) throw invalidSortOption()
  return { ...request, range: keyRange(key, rangeEnd) }
}

/**
 * Encodes requests, and decodes infrequent responses, field by field with protobuf-es's wire reader and writer.
 * Generated code was rejected because it would contain etcd's whole schema for the dozen fields used here.
 *
 * Source: etcd api/etcdserverpb/rpc.proto, which defines the field numbers.
 */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { keyToBytes, type Key, type KeyValue } from '../../model/event.js'
import { toRevision, type Revision } from '../../model/revision.js'
import { UpstreamError, type Compare, type WriteOperation } from '../upstream.js'
import { readFields, writeFields } from '../../../support/protobuf-fields.js'
import { rangeDecoding } from './data-messages.js'
import { bufferOf } from '../../../support/buffer-of.js'

export const paths = {
  range: '/etcdserverpb.KV/Range',
  rangeStream: '/etcdserverpb.KV/RangeStream',
  txn: '/etcdserverpb.KV/Txn',
  watch: '/etcdserverpb.Watch/Watch',
  leaseGrant: '/etcdserverpb.Lease/LeaseGrant',
  leaseRevoke: '/etcdserverpb.Lease/LeaseRevoke',
  leaseTimeToLive: '/etcdserverpb.Lease/LeaseTimeToLive',
  authenticate: '/etcdserverpb.Auth/Authenticate',
  status: '/etcdserverpb.Maintenance/Status',
} as const

export interface RangeRequest {
  readonly key: Key
  /** Exclusive; absent for a single key. */
  readonly rangeEnd?: Key
  readonly limit?: number
  readonly revision?: Revision
  readonly keysOnly?: boolean
  readonly countOnly?: boolean
}

/** `serializable` is never set, because no caller can use a read that may be older than a completed write. */
export function encodeRangeRequest(request: RangeRequest): Uint8Array {
  return writeFields({
    1: wireKey(request.key),
    2: request.rangeEnd === undefined ? undefined : keyToBytes(request.rangeEnd),
    3: request.limit || undefined,
    4: request.revision || undefined,
    8: request.keysOnly || undefined,
    9: request.countOnly || undefined,
  })
}

/**
 * Asks for progress notifications. Does not ask for previous values, because the store has them.
 *
 * @param isFragmented whether etcd may split a large response. etcd (3.4 to 3.7) takes time quadratic in the number of
 * events to split it, so 200,000 deletes in one transaction would never arrive.
 */
export function encodeWatchCreate(key: Key, rangeEnd: Key, startRevision: Revision, isFragmented: boolean): Uint8Array {
  const range = { 1: wireKey(key), 2: keyToBytes(rangeEnd), 3: startRevision }
  return writeFields({ 1: writeFields({ ...range, 4: true, 8: isFragmented || undefined }) })
}

export function encodeWatchProgressRequest(): Uint8Array {
  return writeFields({ 3: new Uint8Array(0) })
}

/** If a comparison fails, the transaction instead reads every compared key, in the order of `compares`. */
export function encodeTxnRequest(compares: readonly Compare[], operations: readonly WriteOperation[]): Uint8Array {
  const parts: Uint8Array[] = []
  for (const { key, modRevision } of compares) {
    // result EQUAL is the default 0, target MOD is 2
    parts.push(writeFields({ 1: writeFields({ 2: 2, 3: wireKey(key), 6: modRevision }) }))
  }
  for (const operation of operations) {
    const key = writeFields({ 1: wireKey(operation.key) })
    if (operation.type === 'put') {
      const { value, leaseId } = operation
      const lease = writeFields({ 3: leaseId === undefined ? undefined : BigInt(leaseId) })
      parts.push(...nested(2, nested(2, [key, ...nested(2, [value]), lease])))
    } else parts.push(writeFields({ 2: writeFields({ 3: key }) }))
  }
  for (const { key } of compares) {
    parts.push(writeFields({ 3: writeFields({ 1: writeFields({ 1: wireKey(key) }) }) }))
  }
  return Buffer.concat(parts)
}

/**
 * Returns the parts of a field that contains `parts`. They are not joined, so that a value of megabytes is copied only
 * once and not once per enclosing message.
 */
function nested(field: number, parts: readonly Uint8Array[]): Uint8Array[] {
  let length = 0
  for (const part of parts) length += part.length
  return [new BinaryWriter().tag(field, WireType.LengthDelimited).uint32(length).finish(), ...parts]
}

export interface TxnResponse {
  readonly revision: Revision
  readonly succeeded: boolean
  /** The results of the reads among the executed operations, in order. */
  readonly found: readonly (KeyValue | null)[]
}

/** @throws UpstreamError 'protocol' */
export function decodeTxnResponse(message: Buffer): TxnResponse {
  let revision = 0
  let succeeded = false
  const found: (KeyValue | null)[] = []
  decode(message, {
    1: (reader) => (revision = decodeHeader(reader.bytes()).revision),
    2: (reader) => (succeeded = reader.bool()),
    3: (reader) =>
      decode(reader.bytes(), {
        1: (inner) => found.push(rangeDecoding(bufferOf(inner.bytes())).whole().keyValues[0] ?? null),
      }),
  })
  return { revision: revision as Revision, succeeded, found }
}

/** @param leaseId decimal text. */
export function encodeLeaseGrantRequest(ttlSeconds: number, leaseId: string): Uint8Array {
  return writeFields({ 1: ttlSeconds, 2: BigInt(leaseId) })
}

export function encodeLeaseRevokeRequest(leaseId: string): Uint8Array {
  return writeFields({ 1: BigInt(leaseId) })
}

/** Also requests the keys of the lease. */
export function encodeLeaseTimeToLiveRequest(leaseId: string): Uint8Array {
  return writeFields({ 1: BigInt(leaseId), 2: true })
}

/** Returns whether the lease is alive and has no keys. @throws UpstreamError 'protocol' */
export function decodeIsEmptyLease(message: Buffer): boolean {
  let secondsLeft = 0
  let keys = 0
  decode(message, {
    3: (reader) => (secondsLeft = Number(reader.int64())),
    5: (reader) => (keys += reader.bytes().length > 0 ? 1 : 0),
  })
  return secondsLeft >= 0 && keys === 0
}

/** Returns the lease's id as decimal text. @throws UpstreamError 'protocol' */
export function decodeLeaseGrantResponse(message: Buffer): string {
  let id = '0'
  decode(message, { 2: (reader) => (id = String(reader.int64())) })
  return id
}

export function encodeAuthenticateRequest(user: string, password: string): Uint8Array {
  return writeFields({ 1: user, 2: password })
}

/** @throws UpstreamError 'protocol' */
export function decodeAuthenticateResponse(message: Buffer): string {
  let token = ''
  decode(message, { 2: (reader) => (token = reader.string()) })
  return token
}

export interface StatusResponse {
  readonly clusterId: string
  readonly revision: Revision
  readonly version: string
}

export function encodeStatusRequest(): Uint8Array {
  return new Uint8Array(0)
}

/** @throws UpstreamError 'protocol' */
export function decodeStatusResponse(message: Buffer): StatusResponse {
  let header = { clusterId: '0', revision: 0 as Revision }
  let version = ''
  decode(message, {
    1: (reader) => (header = decodeHeader(reader.bytes())),
    2: (reader) => (version = reader.string()),
  })
  return { ...header, version }
}

function decodeHeader(bytes: Uint8Array): { clusterId: string; revision: Revision } {
  let clusterId = '0'
  let revision = '0'
  decode(bytes, {
    1: (reader) => (clusterId = String(reader.uint64())),
    3: (reader) => (revision = String(reader.int64())),
  })
  return { clusterId, revision: toRevision(revision) }
}

/** @throws UpstreamError 'protocol' */
function decode(...message: Parameters<typeof readFields>): void {
  try {
    readFields(...message)
  } catch (error) {
    if (error instanceof UpstreamError) throw error
    throw new UpstreamError('protocol', 'malformed message from etcd', { cause: error })
  }
}

/** etcd has no empty key. Its smallest key is a single zero byte. */
function wireKey(key: Key): Buffer {
  return keyToBytes(key === '' ? ('\0' as Key) : key)
}

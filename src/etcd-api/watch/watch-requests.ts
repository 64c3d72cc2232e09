/** Decodes the requests of a watch stream. Source: etcd api/etcdserverpb/rpc.proto. */
import { BinaryReader } from '@bufbuild/protobuf/wire'
import type { Key } from '../../engine/model/event.js'
import { type KeyRange, keyRange } from '../key-range.js'
import { decode, keyIn, malformed, safeInteger } from '../requests.js'

export interface WatchCreate {
  readonly range: KeyRange
  /** 0 for the next revision. */
  readonly startRevision: number
  readonly progressNotify: boolean
  readonly noPuts: boolean
  readonly noDeletes: boolean
  readonly prevKv: boolean
  /** 0 lets the server choose. */
  readonly watchId: number
  readonly isFragmented: boolean
}

export type WatchRequest =
  /** `bytes` is the create as it came. It may be large, and no watch keeps it. */
  | { readonly kind: 'create'; readonly create: WatchCreate; readonly bytes: Uint8Array }
  | { readonly kind: 'cancel'; readonly watchId: number }
  | { readonly kind: 'progress' | 'none' }

const NO_PUTS = 0
const NO_DELETES = 1

/** @throws EtcdError */
export function decodeWatchRequest(message: Uint8Array): WatchRequest {
  const found: WatchRequest[] = []
  decode(message, {
    lengths: {
      1: (reader) => found.push(decodeCreate(reader.bytes())),
      2: (reader) => found.push(decodeCancel(reader.bytes())),
      3: (reader) => {
        reader.bytes()
        found.push({ kind: 'progress' })
      },
    },
  })
  // Some versions of etcd merge two requests in one message, others take the last.
  if (found.length > 1) throw malformed()
  return found[0] ?? { kind: 'none' }
}

function decodeCancel(bytes: Uint8Array): WatchRequest {
  let watchId = 0
  decode(bytes, { varints: { 1: (reader) => (watchId = safeInteger(reader)) } })
  return { kind: 'cancel', watchId }
}

function decodeCreate(bytes: Uint8Array): WatchRequest {
  let key = '' as Key
  let rangeEnd = '' as Key
  let [noPuts, noDeletes] = [false, false]
  const create = { startRevision: 0, progressNotify: false, prevKv: false, watchId: 0, isFragmented: false }
  const filter = (reader: BinaryReader): void => {
    const value = reader.int32()
    if (value === NO_PUTS) noPuts = true
    if (value === NO_DELETES) noDeletes = true
  }
  decode(bytes, {
    lengths: { 1: (reader) => (key = keyIn(reader)), 2: (reader) => (rangeEnd = keyIn(reader)) },
    varints: {
      3: (reader) => (create.startRevision = safeInteger(reader)),
      4: (reader) => (create.progressNotify = reader.bool()),
      6: (reader) => (create.prevKv = reader.bool()),
      7: (reader) => (create.watchId = safeInteger(reader)),
      8: (reader) => (create.isFragmented = reader.bool()),
    },
    // Packed, or one by one.
    either: {
      5: (reader, isPacked) => {
        if (!isPacked) return filter(reader)
        const packed = new BinaryReader(reader.bytes())
        while (packed.pos < packed.len) filter(packed)
      },
    },
  })
  // etcd has no empty key: its smallest key is a zero byte.
  const range = keyRange(key === '' ? ('\0' as Key) : key, rangeEnd)
  return { kind: 'create', create: { ...create, range, noPuts, noDeletes }, bytes }
}

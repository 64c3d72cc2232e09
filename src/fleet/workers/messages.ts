/**
 * The messages and requests between the primary and its workers over a `Link`. The primary gives each feed a number,
 * the same for all workers, so that a batch is encoded only once, however many workers there are.
 */
import type { Batch, Key, KeyValue } from '../../engine/model/event.js'
import type { ConsistencyReport } from '../../engine/feed/consistency-report.js'
import type { ReplaceReason } from '../../engine/model/feed-sink.js'
import type { Resource } from '../../engine/model/resource.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Draw, SemaphoreName } from '../../engine/model/shared-limits.js'
import type {
  Compare,
  Page,
  ReadOptions,
  UpstreamStatus,
  WriteOperation,
  WriteResult,
} from '../../engine/upstream/upstream.js'
import type { ByteWriter } from '../byte-codec.js'
import { batchBytes, PAGE_BYTES, writeBatches } from '../key-value-codec.js'
import { encodeFrame } from './link.js'

export type FeedMessage =
  /** `page` messages follow, each with a page in its frame's body, and then a `commit`. */
  | { readonly kind: 'replace'; readonly feed: number; readonly revision: Revision; readonly reason: ReplaceReason }
  | { readonly kind: 'page' | 'commit'; readonly feed: number }
  /** The batches are in the frame's body. */
  | { readonly kind: 'batches'; readonly feed: number }
  | { readonly kind: 'progress'; readonly feed: number; readonly revision: Revision }
  | { readonly kind: 'synced'; readonly feed: number; readonly trustsProgress: boolean }
  /** @param atMs by the machine's clock, which all processes share. @param validMs infinite if it does not expire. */
  | { readonly kind: 'confirmed'; readonly feed: number; readonly atMs: number; readonly validMs: number }
  | { readonly kind: 'disconnected' | 'refused'; readonly feed: number; readonly reason: string }

export type LimitMessage =
  | { readonly kind: 'spent'; readonly identity: string; readonly waitMs: number }
  | { readonly kind: 'suspect'; readonly client: string }

export type ToWorker =
  | FeedMessage
  | LimitMessage
  | { readonly kind: 'subscribed'; readonly feed: number; readonly prefix: Key }
  | { readonly kind: 'pong'; readonly isProof: boolean }

export type LimitReport =
  | { readonly kind: 'hold'; readonly slot: number; readonly name: SemaphoreName; readonly identity: string }
  | { readonly kind: 'leave'; readonly slot: number }
  | { readonly kind: 'spend'; readonly identity: string; readonly bytes: number }
  | { readonly kind: 'resets'; readonly network: string; readonly resets: number }

export type ToPrimary =
  | LimitReport
  | { readonly kind: 'subscribe'; readonly resource: Resource }
  | { readonly kind: 'unsubscribe' | 'requestProgress'; readonly prefix: Key }
  | { readonly kind: 'ping'; readonly isProof: boolean }
  | { readonly kind: 'started' }

/** Why a limit refused a request. */
export interface Refusal {
  readonly message: string
  readonly retryAfterSeconds: number
}

/** Calls of the upstream, mostly for writes, and for reads that no cache answers. */
export type UpstreamMethods = {
  readPage(options: Omit<ReadOptions, 'signal'>): Page
  readStored(key: Key, at: { readonly revision?: Revision }): KeyValue | null
  storedRevision(): Revision
  upstreamStatus(): UpstreamStatus
  write(compares: readonly Compare[], operations: readonly WriteOperation[]): WriteResult
  grantLease(ttlSeconds: number): string
  dropLease(leaseId: string): void
}

export type PrimaryMethods = UpstreamMethods & {
  currentRevision(prefix: Key): Revision
  /** The response's key-values are the state. @returns its revision. */
  readState(prefix: Key, revision: Revision | null): Revision
  readKey(prefix: Key, key: Key): KeyValue | null
  /** The metrics of all processes as one scrape. */
  metrics(): string
  /** The statuses of all processes, the primary's first. */
  status(): readonly unknown[]
  /** Compares what the primary watches with etcd. */
  checkConsistency(): ConsistencyReport
  /** Takes a slot, until the worker reports that it is free. */
  enter(slot: number, name: SemaphoreName, identity: string): Refusal | null
  /** @returns the number of requests granted, at least one. */
  drawRequests(identity: string, draw: Draw): number | Refusal
}

/** Each response is about this worker only. */
export type WorkerMethods = {
  /** @returns JSON. */
  metrics(): string
  status(): unknown
}

/** Packs whole batches into frames of about `PAGE_BYTES`. */
export function* batchFrames(feed: number, batches: readonly Batch[]): Generator<Buffer, void, void> {
  let first = 0
  let bytes = 0
  for (let i = 0; i < batches.length; i++) {
    bytes += batchBytes(batches[i]!)
    if (bytes < PAGE_BYTES && i < batches.length - 1) continue
    const packed = batches.slice(first, i + 1)
    yield feedFrame({ kind: 'batches', feed }, (writer) => writeBatches(writer, packed), bytes + 16)
    first = i + 1
    bytes = 0
  }
}

export function feedFrame(message: FeedMessage, writeBody?: (writer: ByteWriter) => void, expectedBytes = 0): Buffer {
  return encodeFrame(message, writeBody, expectedBytes)
}

/**
 * The messages and requests between the primary and its workers over a `Link`. The primary gives each feed a number,
 * the same for all workers, so that a batch is encoded only once, however many workers there are.
 */
import { partsOf } from '../../support/turns.js'
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
  SourceProblems,
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
  | { readonly kind: 'seeking'; readonly feed: number; readonly isSeeking: boolean }
  /** `page` and `earlier-batches` messages follow, and then an `earlier-commit`. */
  | { readonly kind: 'earlier'; readonly feed: number; readonly after: Revision; readonly until: Revision }
  | { readonly kind: 'earlier-batches' | 'earlier-commit'; readonly feed: number }
  /** The batches are in the frame's body. */
  | { readonly kind: 'batches'; readonly feed: number }
  | { readonly kind: 'progress'; readonly feed: number; readonly revision: Revision }
  | { readonly kind: 'synced'; readonly feed: number; readonly trustsProgress: boolean }
  /** @param atMs by the machine's clock, which all processes share. @param validMs infinite if it does not expire. */
  | { readonly kind: 'confirmed'; readonly feed: number; readonly atMs: number; readonly validMs: number }
  | { readonly kind: 'disconnected' | 'refused'; readonly feed: number; readonly reason: string }

export type ToWorker =
  | FeedMessage
  | { readonly kind: 'suspect'; readonly client: string }
  | { readonly kind: 'subscribed'; readonly feed: number; readonly source: string }
  | { readonly kind: 'pong'; readonly isProof: boolean; readonly problems: SourceProblems }

export type LimitReport =
  | { readonly kind: 'hold'; readonly slot: number; readonly name: SemaphoreName; readonly identity: string }
  | { readonly kind: 'leave'; readonly slot: number }
  | { readonly kind: 'resets'; readonly network: string; readonly resets: number }

export type ToPrimary =
  | LimitReport
  | { readonly kind: 'subscribe'; readonly resource: Resource }
  | { readonly kind: 'unsubscribe' | 'requestProgress'; readonly source: string }
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
  currentRevision(source: string): Revision
  /** The response's key-values are the state. @returns its revision. */
  readState(source: string, revision: Revision | null): Revision
  readKey(source: string, key: Key): KeyValue | null
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

/**
 * Returns the same text for resources that one feed of the primary can serve: those of one prefix and, if another
 * server shows them, in one form.
 */
export function feedSource({ etcdPrefix, form }: Resource): string {
  return form === undefined ? etcdPrefix : JSON.stringify([etcdPrefix, form])
}

/** The approximate size of a frame without batches. */
const FRAME_BYTES = 16

/** Packs whole batches into frames of about `PAGE_BYTES`. */
export function* batchFrames(
  feed: number,
  batches: readonly Batch[],
  kind: 'batches' | 'earlier-batches' = 'batches',
): Generator<Buffer, void, void> {
  for (const packed of partsOf(batches, batchBytes, PAGE_BYTES)) {
    const bytes = packed.reduce((sum, batch) => sum + batchBytes(batch), FRAME_BYTES)
    yield feedFrame({ kind, feed }, (writer) => writeBatches(writer, packed), bytes)
  }
}

export function feedFrame(message: FeedMessage, writeBody?: (writer: ByteWriter) => void, expectedBytes = 0): Buffer {
  return encodeFrame(message, writeBody, expectedBytes)
}

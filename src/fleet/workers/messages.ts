/**
 * The messages between primary and workers. The primary gives each feed a number, the same for all workers, so that a
 * batch is encoded once however many workers there are.
 *
 *     worker → primary   subscribe, unsubscribe, request-progress, ask, cancel, collected, started,
 *                        enter, hold, leave, draw-requests, spend-bytes, resets
 *     primary → worker   hello, subscribed, replace … page … commit, batches, progress, synced, confirmed,
 *     disconnected,
 *                        refused, answer, collect, drain, entered, drawn, spent, suspect-network
 */
import type { Batch, KeyValue } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import { UpstreamError } from '../../engine/upstream/upstream.js'
import type { ReplaceReason } from '../../engine/model/feed-sink.js'
import { batchBytes, BatchCodec, keyValueBytes, writeFailure } from '../key-value-codec.js'
import { type FrameReader, FrameWriter } from './frames.js'
import { errorMessage } from '../../support/error-message.js'

export const ToWorker = {
  hello: 1,
  subscribed: 2,
  replace: 3,
  page: 4,
  commit: 5,
  batches: 6,
  progress: 7,
  synced: 8,
  disconnected: 9,
  refused: 10,
  answer: 11,
  collect: 12,
  drain: 13,
  confirmed: 14,
  entered: 15,
  drawn: 16,
  spent: 17,
  suspectNetwork: 18,
} as const

export const ToPrimary = {
  subscribe: 1,
  unsubscribe: 2,
  requestProgress: 3,
  ask: 4,
  cancel: 5,
  collected: 6,
  started: 7,
  enter: 8,
  hold: 9,
  leave: 10,
  drawRequests: 11,
  spendBytes: 12,
  resets: 13,
} as const

/** A worker's requests: the first three concern one feed, the others the primary's upstream or the primary itself. */
export const Question = {
  currentRevision: 1,
  readState: 2,
  readKey: 3,
  upstream: 4,
  metrics: 5,
  checkConsistency: 6,
  status: 7,
  /** Requests nothing: any answer is a sign of life. */
  ping: 8,
} as const

/** The texts that the primary collects from its workers. */
export const Collection = {
  metrics: 1,
  status: 2,
} as const
export type CollectionKind = (typeof Collection)[keyof typeof Collection]

export const Answer = {
  failed: 0,
  revision: 1,
  /** Some keys of a state; another page follows. */
  page: 2,
  /** The last page of a state. */
  lastPage: 3,
  keyValue: 4,
  nothing: 5,
  text: 6,
} as const

const REASONS: readonly ReplaceReason[] = ['initial', 'gap', 'coalesce', 'history-changed']
const BATCHES = new BatchCodec({ put: 0, delete: 1 })
/**
 * The size at which batches and pages are split: a few of the socket's buffers, so that a long state does not hold up
 * live frames.
 */
export const PAGE_BYTES = 256 * 1024

export function replaceFrame(feed: number, revision: Revision, reason: ReplaceReason): Buffer {
  return new FrameWriter(ToWorker.replace).count(feed).number(revision).byte(REASONS.indexOf(reason)).done()
}

export function readReplace(reader: FrameReader): { readonly revision: Revision; readonly reason: ReplaceReason } {
  const revision = reader.number() as Revision
  const reason = REASONS[reader.byte()]
  if (reason === undefined) throw new RangeError('no such reason of a replacement')
  return { revision, reason }
}

/** Packs whole batches into frames of about `PAGE_BYTES`. */
export function* batchFrames(feed: number, batches: readonly Batch[]): Generator<Buffer, void, void> {
  let first = 0
  let bytes = 0
  for (let i = 0; i < batches.length; i++) {
    bytes += batchBytes(batches[i]!)
    if (bytes < PAGE_BYTES && i < batches.length - 1) continue
    const writer = new FrameWriter(ToWorker.batches, bytes + 16).count(feed).count(i + 1 - first)
    for (let j = first; j <= i; j++) BATCHES.write(writer, batches[j]!)
    yield writer.done()
    first = i + 1
    bytes = 0
  }
}

export function readBatches(reader: FrameReader): Batch[] {
  const batches: Batch[] = []
  for (let left = reader.count(); left > 0; left--) batches.push(BATCHES.read(reader))
  return batches
}

/** Splits key-values into pages of about `PAGE_BYTES`. */
export function* pagesOf(keyValues: Iterable<KeyValue>): Generator<readonly KeyValue[], void, void> {
  let page: KeyValue[] = []
  let bytes = 0
  for (const keyValue of keyValues) {
    page.push(keyValue)
    bytes += keyValueBytes(keyValue)
    if (bytes < PAGE_BYTES) continue
    yield page
    page = []
    bytes = 0
  }
  if (page.length > 0) yield page
}

/** Encodes an error for the worker. Anything but an `UpstreamError` is a bug of the primary, and arrives as `unavailable`. */
export function failureFrame(id: number, error: unknown): Buffer {
  const writer = new FrameWriter(ToWorker.answer).count(id).byte(Answer.failed)
  writeFailure(writer, error instanceof UpstreamError ? error : new UpstreamError('unavailable', errorMessage(error)))
  return writer.done()
}

/** A sink that knows its position, and what feeds it: the stream, or etcd itself while NATS is unreachable. */
import type { FeedSink, Replacement, ReplaceReason } from '../../engine/model/feed-sink.js'
import { HistoryFingerprint } from '../../engine/feed/history-fingerprint.js'
import type { Batch } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'

export class PlacedSink implements FeedSink {
  /** The sink's position; null before the first state. */
  place: { readonly settled: Revision; readonly position: Revision } | null = null
  /** The last batch since the content was replaced; null if there is none. */
  lastBatch: Batch | null = null
  /** How often the content was replaced. */
  replacements = 0
  /** Whether etcd has replaced the content since the stream's chain began. */
  isRelisted = false
  /** The etcd that feeds the sink; null while the stream does. */
  etcd: { readonly clusterId: string | null } | null = null
  #fingerprint = new HistoryFingerprint()

  constructor(private readonly sink: FeedSink) {}

  get isAwaited(): boolean {
    return this.sink.isAwaited === true
  }

  /** Returns the fingerprint by which a feed that continues here recognizes the history. */
  fingerprint(): HistoryFingerprint {
    return HistoryFingerprint.recalled(this.#fingerprint)
  }

  replace(revision: Revision, reason: ReplaceReason): Replacement {
    const replacement = this.sink.replace(revision, reason)
    const fingerprint = new HistoryFingerprint()
    return {
      add: (keyValues) => {
        fingerprint.listed(keyValues)
        replacement.add(keyValues)
      },
      commit: () => {
        this.#fingerprint = fingerprint
        this.place = { settled: revision, position: revision }
        this.lastBatch = null
        this.replacements++
        this.isRelisted = this.etcd !== null
        replacement.commit()
      },
      abort: () => replacement.abort(),
    }
  }

  apply(batches: readonly Batch[]): void {
    const last = batches.at(-1)
    if (last === undefined) return
    this.#fingerprint.applied(batches)
    this.place = { settled: last.revision, position: last.revision }
    this.lastBatch = last
    this.sink.apply(batches)
  }

  progress(revision: Revision): void {
    if (this.place !== null) this.place = { settled: this.place.settled, position: revision }
    this.sink.progress(revision)
  }

  synced(): void {
    this.sink.synced()
  }

  disconnected(reason: string): void {
    this.sink.disconnected(reason)
  }

  confirmed(ageMs: number, validMs: number): void {
    this.sink.confirmed?.(ageMs, validMs)
  }

  refused(reason: string, isLasting: boolean): void {
    this.sink.refused(reason, isLasting)
  }
}

/** A watch of a stream, wherever its events come from. */
import type { EtcdError } from '../etcd-error.js'

export interface StreamWatch {
  /** Ends the watch without a word. */
  close(): void
  /** The stream is full: nothing may be sent until `resume`. */
  block(): void
  resume(): void
  /**
   * Asks for the revision up to which everything has been sent. Resolves to null while that is not known, or when the
   * watch waits for a future revision.
   */
  position(): Promise<number | null>
  /** Whether a cache feeds it, so that it ends when the caches' watches are drained. */
  readonly isCached: boolean
}

/** The stream, as its watches see it. */
export interface WatchSink {
  readonly isFull: boolean
  /**
   * Sends one message. @param fields the fields between the header and the events. @returns false when the stream is
   * full, or over.
   */
  send(fields: Uint8Array, revision: number, events: Uint8Array): boolean
  /** Sends a message with its own header. */
  pass(parts: readonly Uint8Array[]): boolean
  /** Forgets a watch that has ended, and frees what it held. */
  remove(watchId: number): void
  fail(error: EtcdError): void
  /** Resets a stream whose client has stopped reading. */
  destroy(): void
  readonly pendingBytes: number
}

/**
 * The interface between a group and an encoding, which turns objects, bookmarks and errors into bytes. The dialect
 * supplies one encoder per negotiated encoding and transform; the broadcast knows nothing about JSON, Tables or
 * protobuf.
 */
import type { Scratch } from '../../support/scratch.js'
import type { Bookmark } from './bookmark.js'
import type { Revision } from './revision.js'
import type { StoredObject } from './stored-object.js'

/** An error as a watcher receives it. */
export interface Failure {
  readonly body: Buffer
  /** Whether the client's position caused the error, so that it must begin again without one. */
  readonly mustRestart: boolean
  /** undefined leaves the delay to the client. */
  readonly retryAfterSeconds: number | undefined
}

/** An event of one object. */
export interface Change {
  readonly revision: Revision
  /** null if the object was deleted. */
  readonly object: StoredObject | null
  /** null if the object was created. */
  readonly previous: StoredObject | null
}

export interface BodyEncoder {
  /** Unique per encoding, transform and projection; part of a group's key. */
  readonly key: string
  /** The version of the resource in which objects are written. */
  readonly schemaVersion: string
  /**
   * Encodes the object with `revision` as its resourceVersion. Returns null if the object cannot be read, after
   * counting and logging that.
   * @param scratch optional memory for the bytes.
   * @throws when the stream cannot continue in this encoding. Its watchers end with that error.
   */
  encode(object: StoredObject, revision: Revision, scratch?: Scratch): Buffer | null
  /**
   * Encodes a change with both versions of the object, for an encoding that shows the previous one or has its own form
   * for deletions. If present, it takes the place of `encode` for events. Returns null to leave the event out.
   */
  readonly encodeChange?: (change: Change) => Buffer | null
  /**
   * Encodes the first object sent to a watcher. null if the first object needs no other encoding; in a Table, it comes
   * with the columns.
   */
  readonly encodeFirst: ((object: StoredObject, revision: Revision) => Buffer | null) | null
  /** Whether both versions look the same to a watcher; null unless the encoder projects objects. */
  readonly isSame: ((older: StoredObject, newer: StoredObject) => boolean) | null
  bookmark(bookmark: Bookmark): Buffer
  /** Encodes an error that ends a watcher: one of `errors.ts`, or the one with which its transport ended it. */
  failure(error: Error): Failure
}

/**
 * The interface between a group and an encoding, which turns objects, bookmarks and errors into bytes. The dialect
 * supplies one encoder per negotiated encoding and transform; the broadcast knows nothing about JSON, Tables or
 * protobuf.
 */
import type { Scratch } from '../../support/scratch.js'
import type { Bookmark } from './bookmark.js'
import type { Revision } from './revision.js'
import type { Status } from './status.js'
import type { StoredObject } from './stored-object.js'

export interface BodyEncoder {
  /** Unique per encoding, transform and projection; part of a group's key. */
  readonly key: string
  /** The version of the resource in which objects are written. */
  readonly apiVersion: string
  /**
   * Encodes the object with `revision` as its resourceVersion. Returns null if the object cannot be read, after
   * counting and logging that.
   * @param scratch optional memory for the bytes.
   * @throws StatusError when the stream cannot continue in this encoding. Its watchers end with that error.
   */
  encode(object: StoredObject, revision: Revision, scratch?: Scratch): Buffer | null
  /**
   * Encodes the first object sent to a watcher. null if the first object needs no other encoding; in a Table, it comes
   * with the columns.
   */
  readonly encodeFirst: ((object: StoredObject, revision: Revision) => Buffer | null) | null
  /** Whether both versions look the same to a watcher; null unless the encoder projects objects. */
  readonly isSame: ((older: StoredObject, newer: StoredObject) => boolean) | null
  bookmark(bookmark: Bookmark): Buffer
  status(status: Status): Buffer
}

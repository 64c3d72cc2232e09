/**
 * The interface between a group and an encoding: objects, bookmarks and errors as bytes. The dialect supplies one
 * encoder per negotiated encoding and transform; the broadcast knows nothing of JSON, Tables or protobuf.
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
   * Encodes the object with `revision` as its resourceVersion. Returns null if it cannot be read, which has been
   * counted and logged.
   * @param scratch optional memory for the bytes.
   * @throws StatusError when the stream cannot continue in this encoding: its watchers end with that error.
   */
  encode(object: StoredObject, revision: Revision, scratch?: Scratch): Buffer | null
  /** Encodes the first object sent to a watcher, if that differs (a Table's columns); otherwise null. */
  readonly encodeFirst: ((object: StoredObject, revision: Revision) => Buffer | null) | null
  /** Only for projections: whether both versions look the same to a watcher. */
  readonly isSame: ((older: StoredObject, newer: StoredObject) => boolean) | null
  bookmark(bookmark: Bookmark): Buffer
  status(status: Status): Buffer
}

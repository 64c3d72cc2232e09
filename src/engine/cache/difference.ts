/**
 * Turns a gap into events (`--on-gap=coalesce`), so that level-triggered watchers stay connected. The events are the
 * difference between two states. Puts have their own mod revisions, and deletes have the newer state's revision. An
 * object that was deleted and created again in between becomes a put preceded by a delete. The delete has the revision
 * just before the put's. It cannot have happened later, and clients would drop a second event of one key at one
 * revision as a repetition.
 */
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { StoredObject } from '../model/stored-object.js'
import { CacheBatch, CacheEvent } from './cache-batch.js'
import type { Snapshot } from './store.js'
import { getOrMake } from '../../support/memo.js'

export interface DifferenceOptions {
  readonly prefix: Key
  readonly receivedAtMs: number
  /**
   * Called for objects whose creation revision the source does not report (version 0). By default, no such object
   * counts as recreated.
   */
  readonly identityOf?: ((object: StoredObject) => string) | undefined
}

/** Returns batches in ascending order, all above `older.revision`. */
export function differenceBatches(older: Snapshot, newer: Snapshot, options: DifferenceOptions): CacheBatch[] {
  const { prefix, receivedAtMs, identityOf = () => '' } = options
  const byRevision = new Map<Revision, CacheEvent[]>()
  const add = (event: CacheEvent): void => {
    getOrMake(byRevision, event.revision, () => []).push(event)
  }
  for (const object of newer.objects(prefix)) {
    const previous = older.get(object.key) ?? null
    if (previous?.modRevision === object.modRevision) continue
    // A value that became servable only through a change on our side keeps its mod revision, which may not be above the
    // older state's revision.
    const revision = object.modRevision > older.revision ? object.modRevision : newer.revision
    if (previous !== null && isRecreated(previous, object, identityOf)) {
      add(new CacheEvent(Math.max(revision - 1, older.revision + 1) as Revision, null, previous))
      add(new CacheEvent(revision, object, null))
    } else add(new CacheEvent(revision, object, previous))
  }
  for (const previous of older.objects(prefix)) {
    if (newer.get(previous.key) === undefined) add(new CacheEvent(newer.revision, null, previous))
  }
  return [...byRevision]
    .sort(([a], [b]) => a - b)
    .map(([revision, events]) => new CacheBatch(revision, events, receivedAtMs))
}

function isRecreated(
  previous: StoredObject,
  object: StoredObject,
  identityOf: (object: StoredObject) => string,
): boolean {
  if (object.version > 0) return previous.createRevision !== object.createRevision
  try {
    return identityOf(previous) !== identityOf(object)
  } catch {
    // An object without a readable identity may be another one, and a watcher of its shard gets the error.
    return true
  }
}

/** A cache as the consistency check compares it with etcd. */
import type { CheckedCache, CheckedKey } from '../model/checked-cache.js'
import type { Key } from '../model/event.js'
import { type Revision, ZERO_REVISION } from '../model/revision.js'
import { type Ingest, type StoredObject, isUnservable } from '../model/stored-object.js'
import type { WatchCache } from './watch-cache.js'

/** @param ingest as the cache reads values. */
export function checkedCache(cache: WatchCache, ingest: Ingest): CheckedCache {
  return {
    get revision() {
      return cache.revision
    },
    stateAt(revision) {
      if (revision !== cache.revision || revision === ZERO_REVISION) return null
      const unservable = [...cache.contents.unservable]
        .map(([key, modRevision]) => ({ key, modRevision }))
        .sort((a, b) => (a.key < b.key ? -1 : 1))
      return merged(cache.snapshot().objects(cache.prefix), unservable)
    },
    comparable(keyValue) {
      const object = ingest(keyValue)
      return isUnservable(object) ? null : comparedValue(object)
    },
  }
}

/** Returns an object's bytes and, if fields were left out, the checksum of the whole value. */
function comparedValue({ bytes, wholeChecksum }: StoredObject): Buffer {
  return wholeChecksum === 0 ? bytes : Buffer.concat([bytes, Buffer.from(String(wholeChecksum))])
}

/** Merges two lists that are sorted by key. */
function* merged(
  objects: Iterable<StoredObject>,
  others: readonly { readonly key: Key; readonly modRevision: Revision }[],
): Generator<CheckedKey, void, void> {
  let at = 0
  for (const object of objects) {
    const { key, modRevision } = object
    while (at < others.length && others[at]!.key < key) yield others[at++]!
    yield {
      key,
      modRevision,
      get value() {
        return comparedValue(object)
      },
    }
  }
  while (at < others.length) yield others[at++]!
}

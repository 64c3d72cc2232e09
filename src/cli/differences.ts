/** Finds what changed between the objects reported so far and the whole state that a server sends after a gap. */
import { isEqualTree } from '../client/equal-trees.js'
import type { BytesObject } from '../client/reflector/bytes-codec.js'
import type { Change } from '../client/reflector/object-codec.js'

export type Difference<T> = Pick<Change<T>, 'type' | 'key' | 'object'>

/** Returns the differences by key, deletions first; a deletion has the last known object. */
export function differences<T>(
  known: ReadonlyMap<string, T>,
  now: ReadonlyMap<string, T>,
  isSame: (a: T, b: T) => boolean,
): readonly Difference<T>[] {
  const changes: Difference<T>[] = []
  for (const [key, object] of known) if (!now.has(key)) changes.push({ type: 'DELETED', key, object })
  for (const [key, object] of now) {
    const before = known.get(key)
    if (before !== undefined && isSame(before, object)) continue
    changes.push({ type: before === undefined ? 'ADDED' : 'MODIFIED', key, object })
  }
  return changes
}

/**
 * Whether both are the same version of the same object. The contents are compared too, because an etcd restored from a
 * backup reuses revisions for different contents.
 */
export function isSameObject(a: BytesObject, b: BytesObject): boolean {
  if (a.resourceVersion !== b.resourceVersion) return false
  return Buffer.compare(a.bytes, b.bytes) === 0 || isEqualTree(contentOf(a), contentOf(b))
}

/** Returns the content without `kind` and `apiVersion`, which list items lack. */
function contentOf({ bytes }: BytesObject): unknown {
  const {
    kind: _kind,
    apiVersion: _version,
    ...rest
  } = JSON.parse(Buffer.from(bytes).toString('utf8')) as Record<string, unknown>
  return rest
}

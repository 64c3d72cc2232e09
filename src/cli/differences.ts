/** Finds what changed between the objects reported so far and the whole state that a server sends after a gap. */
import type { ChangeType } from '../client/reflector/object-codec.js'

export interface Change<T> {
  readonly type: ChangeType
  readonly key: string
  readonly object: T
}

/** Returns the differences by key, deletions first; a deletion has the last known object. */
export function differences<T extends { readonly resourceVersion: string }>(
  known: ReadonlyMap<string, T>,
  now: ReadonlyMap<string, T>,
): readonly Change<T>[] {
  const changes: Change<T>[] = []
  for (const [key, object] of known) if (!now.has(key)) changes.push({ type: 'DELETED', key, object })
  for (const [key, object] of now) {
    const before = known.get(key)
    if (before?.resourceVersion === object.resourceVersion) continue
    changes.push({ type: before === undefined ? 'ADDED' : 'MODIFIED', key, object })
  }
  return changes
}

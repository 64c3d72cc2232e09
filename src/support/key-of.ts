/**
 * Builds cache keys that cannot omit a parameter. Everything that determines the bytes of a response is in one record,
 * and the key has a part for each member of the record's type. If a member is added without a part for the key, the
 * code does not compile.
 */

/** Returns the part of the key for each member of a record. Members with equal parts must lead to equal responses. */
export type KeyParts<R> = { readonly [Member in keyof R]-?: (value: R[Member]) => string | number | null }

/**
 * Returns the key of a record. The parts are quoted, so that no string chosen by a client can look like the boundary
 * between two parts.
 */
export function keyOf<R extends object>(parts: KeyParts<R>, record: R): string {
  const key: (string | number | null)[] = []
  for (const member in parts) key.push(parts[member](record[member]))
  return JSON.stringify(key)
}

/**
 * Cache keys that cannot forget a parameter. Everything that determines the bytes of a response is one record; its key
 * has a part for each member of the record's type, so adding a member without saying how it counts does not compile.
 */

/** How each member of a record counts in its key: equal parts must mean equal behaviour. */
export type KeyParts<R> = { readonly [Member in keyof R]-?: (value: R[Member]) => string | number | null }

/** The parts are quoted, so that no string chosen by a client can look like the boundary between two of them. */
export function keyOf<R extends object>(parts: KeyParts<R>, record: R): string {
  const key: (string | number | null)[] = []
  for (const member in parts) key.push(parts[member](record[member]))
  return JSON.stringify(key)
}

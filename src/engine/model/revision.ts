/** etcd's cluster-wide counter, which orders all changes. */
export type Revision = number & { readonly __brand: 'Revision' }

/** The revision before any other; etcd's first revision is 1. */
export const ZERO_REVISION = 0 as Revision

/** @throws RangeError when the value is negative, not an integer or above 2^53 - 1. */
export function toRevision(value: number | bigint | string): Revision {
  const n = Number(value)
  if (!Number.isSafeInteger(n) || n < 0) throw new RangeError(`revision ${value} is not an integer in [0, 2^53)`)
  return n as Revision
}

export function nextRevision(revision: Revision): Revision {
  return (revision + 1) as Revision
}

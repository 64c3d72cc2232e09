/**
 * etcd's cluster-wide counter, and the only place where it becomes Kubernetes' opaque `resourceVersion` string or comes
 * back from one. etcd counts to 2^63; a JavaScript number is exact to 2^53, so every way in is checked and nothing is
 * ever rounded.
 */
import { BadRequestError } from './status.js'

export type Revision = number & { readonly __brand: 'Revision' }

/** Before any write: etcd's own first revision is 1. */
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

/** Unset and '0' mean different things to list and watch, so those handlers decide first. @throws BadRequestError */
export function parseResourceVersion(text: string): Revision {
  const n = /^[1-9]\d*$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(n)) {
    throw new BadRequestError(
      `invalid resource version: ${JSON.stringify(text.slice(0, 64))} is not a positive integer`,
    )
  }
  return n as Revision
}

export function formatResourceVersion(revision: Revision): string {
  return String(revision)
}

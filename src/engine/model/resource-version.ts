/**
 * The only place where etcd's revision becomes Kubernetes' opaque `resourceVersion` string or comes back from one. etcd
 * counts to 2^63; a JavaScript number is exact to 2^53, so every way in is checked and nothing is ever rounded.
 */
import type { Revision } from './revision.js'
import { BadRequestError } from './status.js'

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

/**
 * The only place that converts between etcd's revision and Kubernetes' opaque `resourceVersion` string. etcd counts up
 * to 2^63, but JavaScript numbers are exact only up to 2^53, so every conversion is checked and nothing is ever
 * rounded.
 */
import type { Revision } from '../../engine/model/revision.js'
import { BadRequestError } from './status.js'

/**
 * Call this only for a set resourceVersion other than '0': list and watch treat those two cases differently.
 * @throws BadRequestError
 */
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

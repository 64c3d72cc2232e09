/** The names in NATS: each resource of a cluster has one stream, snapshots, a lease and three subjects. */
import { createHash } from 'node:crypto'
import type { Resource } from '../../engine/model/resource.js'

export interface Names {
  readonly stream: string
  /** The stream's only subject. */
  readonly log: string
  /** The subject for requests to the publisher. */
  readonly requests: string
  /** The subject of the publisher's statuses. */
  readonly status: string
  /** The bucket of leases, snapshots and their indexes. */
  readonly bucket: string
  readonly leaseKey: string
  readonly indexKey: string
  /** @param madeAtMs the time by the publisher's clock, so that a retaken snapshot has a different name. */
  snapshot(epoch: number, revision: number, madeAtMs: number): string
}

/** @param cluster chosen by the operator: letters, digits, `-` and `_`. */
export function namesOf(cluster: string, { plural, group, etcdPrefix }: Resource): Names {
  // Resources of the same name may have different prefixes in two configurations, and must not share a stream.
  const digest = createHash('sha256').update(etcdPrefix, 'latin1').digest('hex').slice(0, 8)
  const name = `${plural}${group === '' ? '' : `_${group}`}`.replaceAll(/[^A-Za-z0-9_-]/g, '_')
  const token = `${name}_${digest}`
  return {
    stream: `DISTRIBUTARY_${cluster}_${token}`,
    log: `distributary.${cluster}.${token}.log`,
    requests: `distributary.${cluster}.${token}.ask`,
    status: `distributary.${cluster}.${token}.status`,
    bucket: `DISTRIBUTARY_${cluster}`,
    leaseKey: `lease.${token}`,
    indexKey: `snapshots.${token}`,
    snapshot: (epoch, revision, madeAtMs) => `${token}/${epoch}-${revision}-${madeAtMs.toString(36)}`,
  }
}

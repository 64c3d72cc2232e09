/** The names in NATS: each resource of a cluster has one stream, snapshots, a lease and three subjects. */
import { createHash } from 'node:crypto'
import type { Resource } from '../../engine/model/resource.js'

export type Names = Readonly<ReturnType<typeof namesOf>>

/** @param cluster chosen by the operator: letters, digits, `-` and `_`. */
export function namesOf(cluster: string, { plural, group, etcdPrefix, stripped = [] }: Resource) {
  // Resources of the same name may have different prefixes in two configurations, or other fields, and must not share a
  // stream: clients go from one replica to another.
  const identity = [etcdPrefix, ...stripped].join('\0')
  const digest = createHash('sha256').update(identity, 'latin1').digest('hex').slice(0, 8)
  const name = `${plural}${group === '' ? '' : `_${group}`}`.replaceAll(/[^A-Za-z0-9_-]/g, '_')
  const token = `${name}_${digest}`
  return {
    stream: `DISTRIBUTARY_${cluster}_${token}`,
    /** The stream's only subject. */
    log: `distributary.${cluster}.${token}.log`,
    /** The subject for requests to the publisher. */
    requests: `distributary.${cluster}.${token}.ask`,
    /** The subject of the publisher's statuses. */
    status: `distributary.${cluster}.${token}.status`,
    /** The bucket of leases, snapshots and their indexes. */
    bucket: `DISTRIBUTARY_${cluster}`,
    leaseKey: `lease.${token}`,
    indexKey: `snapshots.${token}`,
    /** @param madeAtMs the time by the publisher's clock, so that a retaken snapshot has a different name. */
    snapshot: (epoch: number, revision: number, madeAtMs: number): string =>
      `${token}/${epoch}-${revision}-${madeAtMs.toString(36)}`,
  }
}

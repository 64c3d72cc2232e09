/**
 * Converts EndpointSlice of discovery.k8s.io/v1beta1 (and v1alpha1) to and from v1. In v1 the zone is a separate member
 * instead of a topology key, the host name is dropped from the topology when it equals the node's name, and the rest is
 * `deprecatedTopology`.
 */
import { isEmptyRecord, type JsonRecord, record, recordAt, recordsAt } from '../json-tree.js'

const ZONE = 'topology.kubernetes.io/zone'
const HOSTNAME = 'kubernetes.io/hostname'

export function toV1(slice: JsonRecord): void {
  for (const endpoint of recordsAt(slice, 'endpoints')) {
    const topology = recordAt(endpoint, 'topology') ?? record()
    delete endpoint['topology']
    if (topology[ZONE] !== undefined) endpoint['zone'] = topology[ZONE]
    delete topology[ZONE]
    if (topology[HOSTNAME] === endpoint['nodeName']) delete topology[HOSTNAME]
    if (!isEmptyRecord(topology)) endpoint['deprecatedTopology'] = topology
  }
}

export function toV1beta1(slice: JsonRecord): void {
  for (const endpoint of recordsAt(slice, 'endpoints')) {
    const { zone, nodeName } = endpoint
    const topology = recordAt(endpoint, 'deprecatedTopology') ?? record()
    if (zone !== undefined) topology[ZONE] = zone
    if (nodeName !== undefined) topology[HOSTNAME] ??= nodeName
    delete endpoint['deprecatedTopology']
    delete endpoint['zone']
    if (!isEmptyRecord(topology)) endpoint['topology'] = topology
  }
}

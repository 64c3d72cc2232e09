/**
 * Converts EndpointSlice of discovery.k8s.io/v1beta1 (and v1alpha1) to and from v1. In v1 the zone is a separate member
 * instead of a topology key, the host name is dropped from the topology when it equals the node's name, and the rest is
 * `deprecatedTopology`.
 */
import { JsonObject } from './json-object.js'

const ZONE = 'topology.kubernetes.io/zone'
const HOSTNAME = 'kubernetes.io/hostname'
const V1_MEMBERS = [
  'addresses',
  'conditions',
  'hostname',
  'targetRef',
  'deprecatedTopology',
  'nodeName',
  'zone',
  'hints',
]
const V1BETA1_MEMBERS = ['addresses', 'conditions', 'hostname', 'targetRef', 'topology', 'nodeName', 'hints']

export function toV1(slice: JsonObject): JsonObject {
  return slice.changeEach('endpoints', (endpoint) => {
    const topology = endpoint.object('topology')
    endpoint.delete('topology')
    if (topology !== null) {
      endpoint.setIfAny('zone', topology.get(ZONE))
      topology.delete(ZONE)
      const isNodeName = endpoint.has('nodeName') && endpoint.text('nodeName') === topology.text(HOSTNAME)
      if (isNodeName) topology.delete(HOSTNAME)
      if (topology.names().length > 0) endpoint.set('deprecatedTopology', topology)
    }
    return ordered(endpoint, V1_MEMBERS)
  })
}

export function toV1beta1(slice: JsonObject): JsonObject {
  return slice.changeEach('endpoints', (endpoint) => {
    const topology = endpoint.object('deprecatedTopology') ?? JsonObject.empty()
    topology.setIfAny(ZONE, endpoint.get('zone'))
    if (!topology.has(HOSTNAME)) topology.setIfAny(HOSTNAME, endpoint.get('nodeName'))
    endpoint.delete('deprecatedTopology').delete('zone')
    if (topology.names().length > 0) endpoint.set('topology', ordered(topology, topology.names().toSorted()))
    return ordered(endpoint, V1BETA1_MEMBERS)
  })
}

/** Puts members in the order of the struct, unknown ones after them. */
function ordered(object: JsonObject, names: readonly string[]): JsonObject {
  const result = JsonObject.empty()
  for (const name of names) result.setIfAny(name, object.get(name))
  for (const name of object.names()) if (!result.has(name)) result.setIfAny(name, object.get(name))
  return result
}

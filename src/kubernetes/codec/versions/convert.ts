/**
 * Converts a built-in kind from one version to another, on JSON, as an API server converts between the version in
 * etcd and the version that a client requests. A pair that is not listed here is not available.
 *
 * Numbers keep their exact text. Where the versions differ only in name, only the apiVersion changes.
 */
import { eachMember } from '../../../support/json-members.js'
import { encodeJsonTree, isRecord, type JsonRecord, readJsonTree } from '../json-tree.js'
import * as definition from './custom-resource-definition.js'
import * as devices from './devices.js'
import * as slice from './endpoint-slice.js'
import * as event from './event.js'
import * as autoscaler from './horizontal-pod-autoscaler.js'
import * as ingress from './ingress.js'
import { renamedVersions } from './renamed-kinds.js'
import * as small from './small-differences.js'
import { MAX_JSON_DEPTH } from '../../model/limits.js'

/** Changes the given object. */
type Conversion = (object: JsonRecord) => void

const CONVERSIONS = new Map<string, Conversion>()

function add(kind: string, from: string, to: string, conversion: Conversion): void {
  CONVERSIONS.set(`${kind} ${from} ${to}`, conversion)
}

add('CustomResourceDefinition', 'apiextensions.k8s.io/v1beta1', 'apiextensions.k8s.io/v1', definition.toV1)
for (const group of ['networking.k8s.io', 'extensions']) {
  add('Ingress', `${group}/v1beta1`, 'networking.k8s.io/v1', ingress.toV1)
  add('Ingress', 'networking.k8s.io/v1', `${group}/v1beta1`, ingress.toV1beta1)
}
add('Ingress', 'extensions/v1beta1', 'networking.k8s.io/v1beta1', () => {})
add('Ingress', 'networking.k8s.io/v1beta1', 'extensions/v1beta1', () => {})
for (const version of ['v1', 'v1beta1']) {
  add('Event', 'v1', `events.k8s.io/${version}`, event.toEventsGroup)
  add('Event', `events.k8s.io/${version}`, 'v1', event.toCore)
}
add('Event', 'events.k8s.io/v1beta1', 'events.k8s.io/v1', event.sameGroup)
add('Event', 'events.k8s.io/v1', 'events.k8s.io/v1beta1', event.sameGroup)
add('EndpointSlice', 'discovery.k8s.io/v1beta1', 'discovery.k8s.io/v1', slice.toV1)
add('EndpointSlice', 'discovery.k8s.io/v1alpha1', 'discovery.k8s.io/v1', slice.toV1)
add('EndpointSlice', 'discovery.k8s.io/v1', 'discovery.k8s.io/v1beta1', slice.toV1beta1)
for (const version of ['v2', 'v2beta2']) {
  add('HorizontalPodAutoscaler', 'autoscaling/v1', `autoscaling/${version}`, autoscaler.toV2)
  add('HorizontalPodAutoscaler', `autoscaling/${version}`, 'autoscaling/v1', autoscaler.toV1)
}
add('PodDisruptionBudget', 'policy/v1beta1', 'policy/v1', small.disruptionBudgetToV1)
add('PodDisruptionBudget', 'policy/v1', 'policy/v1beta1', small.disruptionBudgetToV1beta1)
add('CertificateSigningRequest', 'certificates.k8s.io/v1beta1', 'certificates.k8s.io/v1', small.signingRequestToV1)
add('PodCertificateRequest', 'certificates.k8s.io/v1beta1', 'certificates.k8s.io/v1', small.podCertificateToV1)
add('PodCertificateRequest', 'certificates.k8s.io/v1', 'certificates.k8s.io/v1beta1', small.podCertificateToV1beta1)
for (const version of ['v1', 'v1beta1']) {
  add('RuntimeClass', 'node.k8s.io/v1alpha1', `node.k8s.io/${version}`, small.runtimeClassFromV1alpha1)
}
for (const newer of ['v1', 'v1beta2']) {
  const group = 'resource.k8s.io'
  add('ResourceClaim', `${group}/v1beta1`, `${group}/${newer}`, devices.claimFromV1beta1)
  add('ResourceClaim', `${group}/${newer}`, `${group}/v1beta1`, devices.claimToV1beta1)
  add('ResourceClaimTemplate', `${group}/v1beta1`, `${group}/${newer}`, devices.templateFromV1beta1)
  add('ResourceClaimTemplate', `${group}/${newer}`, `${group}/v1beta1`, devices.templateToV1beta1)
  add('ResourceSlice', `${group}/v1beta1`, `${group}/${newer}`, devices.sliceFromV1beta1)
  add('ResourceSlice', `${group}/${newer}`, `${group}/v1beta1`, devices.sliceToV1beta1)
}
{
  const group = 'flowcontrol.apiserver.k8s.io'
  const kind = 'PriorityLevelConfiguration'
  const shares = ['assuredConcurrencyShares', 'nominalConcurrencyShares'] as const
  for (const older of ['v1beta1', 'v1beta2']) {
    for (const newer of ['v1beta3', 'v1']) {
      add(kind, `${group}/${older}`, `${group}/${newer}`, small.renameShares(shares[0], shares[1]))
      add(kind, `${group}/${newer}`, `${group}/${older}`, small.renameShares(shares[1], shares[0]))
    }
  }
  add(kind, `${group}/v1beta3`, `${group}/v1`, small.priorityLevelFromV1beta3)
  add(kind, `${group}/v1`, `${group}/v1beta3`, small.priorityLevelToV1beta3)
}

/**
 * Returns the object in the other version.
 *
 * @param json valid JSON of an object, with or without `metadata.resourceVersion`. Pass the result to `scanObject` to
 * find where the resourceVersion goes.
 * @returns the same bytes when the versions are the same; null when there is no conversion.
 */
export function convert(json: Buffer, fromApiVersion: string, toApiVersion: string, kind: string): Buffer | null {
  if (fromApiVersion === toApiVersion) return json
  const conversion = CONVERSIONS.get(`${kind} ${fromApiVersion} ${toApiVersion}`)
  if (conversion === undefined) {
    return hasSameMessage(fromApiVersion, toApiVersion, kind) ? withApiVersion(json, toApiVersion) : null
  }
  const object = readJsonTree(json, MAX_JSON_DEPTH, UNREAD)
  if (!isRecord(object)) return null
  conversion(object)
  object['apiVersion'] = toApiVersion
  return encodeJsonTree(object)
}

/** Members that no conversion reads. They can be most of an object. */
const UNREAD: ReadonlySet<string> = new Set([
  'openAPIV3Schema',
  'managedFields',
  'involvedObject',
  'regarding',
  'source',
  'deprecatedSource',
])

/** Replaces the apiVersion of an object that has one. */
export function withApiVersion(json: Buffer, apiVersion: string): Buffer {
  let [start, end] = [json.length, json.length]
  eachMember(json, 0, (name, from, to) => {
    if (name === 'apiVersion') [start, end] = [from, to]
    return true
  })
  return Buffer.concat([json.subarray(0, start), Buffer.from(JSON.stringify(apiVersion)), json.subarray(end)])
}

export function canConvert(fromApiVersion: string, toApiVersion: string, kind: string): boolean {
  return (
    fromApiVersion === toApiVersion ||
    CONVERSIONS.has(`${kind} ${fromApiVersion} ${toApiVersion}`) ||
    hasSameMessage(fromApiVersion, toApiVersion, kind)
  )
}

/**
 * Whether the two versions differ only in name, in protobuf as well. If so, `withResourceVersion(value, rv,
 * toApiVersion)` converts a stored protobuf object. Any other conversion of a protobuf object gives JSON.
 */
export function hasSameMessage(fromApiVersion: string, toApiVersion: string, kind: string): boolean {
  return fromApiVersion === toApiVersion || renamedVersions(fromApiVersion, kind).includes(toApiVersion)
}

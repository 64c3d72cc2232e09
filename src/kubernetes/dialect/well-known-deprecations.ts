/**
 * Deprecated built-in versions, and the API server's warnings about them. The table covers everything that can be
 * served here, even if the release that deprecated it is newer than the one `/version` names: the text says when.
 *
 * Source: the lifecycle methods of k8s.io/api 0.37.
 */
import { apiVersion, type Resource } from '../../engine/model/resource.js'

interface Deprecation {
  /** The minor version of the release 1.N that deprecated it. */
  readonly since: number
  /** The minor version of the release that no longer serves it; undefined if none is planned. */
  readonly removed?: number
  /** The apiVersion and the kind to use instead. */
  readonly use?: string
}

const FLOW_CONTROL: Readonly<Record<string, Omit<Deprecation, 'use'> & { readonly by: string }>> = {
  v1beta1: { since: 23, removed: 26, by: 'v1beta3' },
  v1beta2: { since: 26, removed: 29, by: 'v1beta3' },
  v1beta3: { since: 29, removed: 32, by: 'v1' },
}

/** Versions that were deprecated as a whole when their successor came, or three releases after they did. */
const PREVIEWS: readonly (readonly [apiVersion: string, kinds: readonly string[], since: number, use?: string])[] = [
  ['certificates.k8s.io/v1beta1', ['ClusterTrustBundle', 'PodCertificateRequest'], 37, 'certificates.k8s.io/v1'],
  [
    'admissionregistration.k8s.io/v1beta1',
    ['MutatingAdmissionPolicy', 'MutatingAdmissionPolicyBinding'],
    37,
    'admissionregistration.k8s.io/v1',
  ],
  ['admissionregistration.k8s.io/v1alpha1', ['MutatingAdmissionPolicy', 'MutatingAdmissionPolicyBinding'], 35],
  ['coordination.k8s.io/v1beta1', ['LeaseCandidate'], 36],
  ['coordination.k8s.io/v1alpha2', ['LeaseCandidate'], 35],
  ['resource.k8s.io/v1beta2', ['DeviceClass', 'ResourceClaim', 'ResourceClaimTemplate', 'ResourceSlice'], 36],
  ['resource.k8s.io/v1beta1', ['DeviceClass', 'ResourceClaim', 'ResourceClaimTemplate', 'ResourceSlice'], 35],
  ['resource.k8s.io/v1alpha3', ['DeviceTaintRule'], 36],
  ['storagemigration.k8s.io/v1beta1', ['StorageVersionMigration'], 37, 'storagemigration.k8s.io/v1'],
]

const DEPRECATIONS: Readonly<Record<string, Deprecation>> = {
  'v1 Endpoints': { since: 33, use: 'discovery.k8s.io/v1 EndpointSlice' },
  'batch/v1beta1 CronJob': { since: 21, removed: 25, use: 'batch/v1 CronJob' },
  'discovery.k8s.io/v1beta1 EndpointSlice': { since: 21, removed: 25, use: 'discovery.k8s.io/v1 EndpointSlice' },
  'networking.k8s.io/v1beta1 Ingress': { since: 19, removed: 22, use: 'networking.k8s.io/v1 Ingress' },
  'policy/v1beta1 PodDisruptionBudget': { since: 21, removed: 25, use: 'policy/v1 PodDisruptionBudget' },
  ...Object.fromEntries(
    Object.entries(FLOW_CONTROL).flatMap(([version, { by, ...releases }]) =>
      ['FlowSchema', 'PriorityLevelConfiguration'].map((kind) => [
        `flowcontrol.apiserver.k8s.io/${version} ${kind}`,
        { ...releases, use: `flowcontrol.apiserver.k8s.io/${by} ${kind}` },
      ]),
    ),
  ),
  ...Object.fromEntries(
    PREVIEWS.flatMap(([version, kinds, since, by]) =>
      kinds.map((kind) => [
        `${version} ${kind}`,
        { since, removed: since + 3, ...(by === undefined ? {} : { use: `${by} ${kind}` }) },
      ]),
    ),
  ),
}

/** Returns the text of the warning; null if the version is not deprecated. */
export function wellKnownDeprecation(resource: Pick<Resource, 'group' | 'version' | 'kind'>): string | null {
  const type = `${apiVersion(resource)} ${resource.kind}`
  if (!Object.hasOwn(DEPRECATIONS, type)) return null
  const { since, removed, use } = DEPRECATIONS[type]!
  const unavailable = removed === undefined ? '' : `, unavailable in v1.${removed}+`
  return `${type} is deprecated in v1.${since}+${unavailable}${use === undefined ? '' : `; use ${use}`}`
}

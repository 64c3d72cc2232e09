/**
 * Which built-in resources have the subresources status, scale and eviction, and which can only be read. Other subresources (logs, exec, bindings,
 * tokens) exist only in a kube-apiserver; see `unserved-subresources.ts`.
 *
 * Source: the API reference of Kubernetes.
 */
import { type Resource, resourceId } from '../../engine/model/resource.js'
import type { ScalePaths, Subresources } from './resource-registry.js'

const WITH_STATUS: ReadonlySet<string> = new Set([
  'namespaces',
  'nodes',
  'persistentvolumeclaims',
  'persistentvolumes',
  'pods',
  'replicationcontrollers',
  'resourcequotas',
  'services',
  'apiservices.apiregistration.k8s.io',
  'certificatesigningrequests.certificates.k8s.io',
  'podcertificaterequests.certificates.k8s.io',
  'cronjobs.batch',
  'compositepodgroups.scheduling.k8s.io',
  'csinodes.storage.k8s.io',
  'customresourcedefinitions.apiextensions.k8s.io',
  'daemonsets.apps',
  'deployments.apps',
  'devicetaintrules.resource.k8s.io',
  'evictionrequests.lifecycle.k8s.io',
  'evictions.lifecycle.k8s.io',
  'flowschemas.flowcontrol.apiserver.k8s.io',
  'horizontalpodautoscalers.autoscaling',
  'ingresses.networking.k8s.io',
  'jobs.batch',
  'poddisruptionbudgets.policy',
  'podgroups.scheduling.k8s.io',
  'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io',
  'replicasets.apps',
  'resourceclaims.resource.k8s.io',
  'resourcepoolstatusrequests.resource.k8s.io',
  'servicecidrs.networking.k8s.io',
  'statefulsets.apps',
  'storageversionmigrations.storagemigration.k8s.io',
  'storageversions.internal.apiserver.k8s.io',
  'validatingadmissionpolicies.admissionregistration.k8s.io',
  'volumeattachments.storage.k8s.io',
])

const SCALED: ReadonlySet<string> = new Set([
  'replicationcontrollers',
  'deployments.apps',
  'replicasets.apps',
  'statefulsets.apps',
])

const READ_ONLY: Readonly<Record<string, readonly string[]>> = {
  pods: ['ephemeralcontainers', 'resize'],
  'certificatesigningrequests.certificates.k8s.io': ['approval'],
}

/** The type of the object posted to evict a pod. */
export const EVICTION = { group: 'policy', version: 'v1', kind: 'Eviction' } as const

const REPLICAS: ScalePaths = {
  specReplicas: ['spec', 'replicas'],
  statusReplicas: ['status', 'replicas'],
  selector: ['spec', 'selector'],
  isBuiltIn: true,
}

export function wellKnownSubresources(resource: Pick<Resource, 'group' | 'plural'>): Subresources {
  const id = resourceId(resource)
  return {
    status: WITH_STATUS.has(id),
    scale: SCALED.has(id) ? REPLICAS : null,
    eviction: id === 'pods',
    readOnly: Object.hasOwn(READ_ONLY, id) ? READ_ONLY[id]! : [],
  }
}

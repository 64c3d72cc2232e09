/**
 * Kinds whose versions differ only in name. Their members have the same meaning and the same field numbers on the
 * wire, so changing the apiVersion is the whole conversion, both in JSON and in protobuf. The list comes from
 * comparing the messages of `protobuf/kubernetes-schema.txt` with each other, version by version, and a test repeats
 * the comparison.
 */
export const RENAMED: readonly (readonly [kinds: readonly string[], apiVersions: readonly string[]])[] = [
  [['Lease'], ['coordination.k8s.io/v1', 'coordination.k8s.io/v1beta1']],
  [['CronJob'], ['batch/v1', 'batch/v1beta1', 'batch/v2alpha1']],
  [['RuntimeClass'], ['node.k8s.io/v1', 'node.k8s.io/v1beta1']],
  [['PriorityClass'], ['scheduling.k8s.io/v1', 'scheduling.k8s.io/v1beta1', 'scheduling.k8s.io/v1alpha1']],
  [
    ['StorageClass', 'CSIDriver', 'CSINode'],
    ['storage.k8s.io/v1', 'storage.k8s.io/v1beta1'],
  ],
  [
    ['VolumeAttachment', 'CSIStorageCapacity', 'VolumeAttributesClass'],
    ['storage.k8s.io/v1', 'storage.k8s.io/v1beta1', 'storage.k8s.io/v1alpha1'],
  ],
  [
    ['IngressClass', 'ServiceCIDR'],
    ['networking.k8s.io/v1', 'networking.k8s.io/v1beta1'],
  ],
  [['IPAddress'], ['networking.k8s.io/v1', 'networking.k8s.io/v1beta1', 'networking.k8s.io/v1alpha1']],
  [['NetworkPolicy'], ['networking.k8s.io/v1', 'extensions/v1beta1']],
  [
    ['Role', 'ClusterRole', 'RoleBinding', 'ClusterRoleBinding'],
    ['rbac.authorization.k8s.io/v1', 'rbac.authorization.k8s.io/v1beta1'],
  ],
  [
    ['FlowSchema'],
    [
      'flowcontrol.apiserver.k8s.io/v1',
      'flowcontrol.apiserver.k8s.io/v1beta3',
      'flowcontrol.apiserver.k8s.io/v1beta2',
      'flowcontrol.apiserver.k8s.io/v1beta1',
    ],
  ],
  [['PriorityLevelConfiguration'], ['flowcontrol.apiserver.k8s.io/v1beta2', 'flowcontrol.apiserver.k8s.io/v1beta1']],
  [
    ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration'],
    ['admissionregistration.k8s.io/v1', 'admissionregistration.k8s.io/v1beta1'],
  ],
  [
    [
      'MutatingAdmissionPolicy',
      'MutatingAdmissionPolicyBinding',
      'ValidatingAdmissionPolicy',
      'ValidatingAdmissionPolicyBinding',
    ],
    [
      'admissionregistration.k8s.io/v1',
      'admissionregistration.k8s.io/v1beta1',
      'admissionregistration.k8s.io/v1alpha1',
    ],
  ],
  [['ControllerRevision'], ['apps/v1', 'apps/v1beta2', 'apps/v1beta1']],
  [
    ['Deployment', 'DaemonSet', 'ReplicaSet', 'StatefulSet'],
    ['apps/v1', 'apps/v1beta2'],
  ],
  [['HorizontalPodAutoscaler'], ['autoscaling/v2', 'autoscaling/v2beta2']],
  [['APIService'], ['apiregistration.k8s.io/v1', 'apiregistration.k8s.io/v1beta1']],
  [['ClusterTrustBundle'], ['certificates.k8s.io/v1', 'certificates.k8s.io/v1beta1', 'certificates.k8s.io/v1alpha1']],
  [
    ['ResourceClaim', 'ResourceClaimTemplate', 'ResourceSlice'],
    ['resource.k8s.io/v1', 'resource.k8s.io/v1beta2'],
  ],
  [['DeviceTaintRule'], ['resource.k8s.io/v1', 'resource.k8s.io/v1beta2', 'resource.k8s.io/v1alpha3']],
  [
    ['Workload', 'PodGroup'],
    ['scheduling.k8s.io/v1beta1', 'scheduling.k8s.io/v1alpha3'],
  ],
  [['DeviceClass'], ['resource.k8s.io/v1', 'resource.k8s.io/v1beta2', 'resource.k8s.io/v1beta1']],
  [['LeaseCandidate'], ['coordination.k8s.io/v1beta1', 'coordination.k8s.io/v1alpha2']],
  [['StorageVersionMigration'], ['storagemigration.k8s.io/v1', 'storagemigration.k8s.io/v1beta1']],
]

const SETS = new Map<string, readonly string[]>()
for (const [kinds, apiVersions] of RENAMED) {
  for (const kind of kinds) for (const apiVersion of apiVersions) SETS.set(`${apiVersion} ${kind}`, apiVersions)
}

/**
 * Returns every apiVersion under which this kind is the same object, including the given one; empty for a kind not
 * listed.
 */
export function renamedVersions(apiVersion: string, kind: string): readonly string[] {
  return SETS.get(`${apiVersion} ${kind}`) ?? []
}

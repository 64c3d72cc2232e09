/**
 * Kinds whose versions differ only in name. Their members have the same meaning and the same field numbers on the
 * wire, so changing the apiVersion is the whole conversion, both in JSON and in protobuf. The list comes from
 * comparing the messages of `protobuf/kubernetes-schema.txt` with each other, version by version, and a test repeats
 * the comparison.
 */
const OF_A_GROUP: readonly (readonly [group: string, versions: string, kinds: string])[] = [
  ['coordination.k8s.io', 'v1 v1beta1', 'Lease'],
  ['batch', 'v1 v1beta1 v2alpha1', 'CronJob'],
  ['node.k8s.io', 'v1 v1beta1', 'RuntimeClass'],
  ['scheduling.k8s.io', 'v1 v1beta1 v1alpha1', 'PriorityClass'],
  ['storage.k8s.io', 'v1 v1beta1', 'StorageClass CSIDriver CSINode'],
  ['storage.k8s.io', 'v1 v1beta1 v1alpha1', 'VolumeAttachment CSIStorageCapacity VolumeAttributesClass'],
  ['networking.k8s.io', 'v1 v1beta1', 'IngressClass ServiceCIDR'],
  ['networking.k8s.io', 'v1 v1beta1 v1alpha1', 'IPAddress'],
  ['rbac.authorization.k8s.io', 'v1 v1beta1', 'Role ClusterRole RoleBinding ClusterRoleBinding'],
  ['flowcontrol.apiserver.k8s.io', 'v1 v1beta3 v1beta2 v1beta1', 'FlowSchema'],
  ['flowcontrol.apiserver.k8s.io', 'v1beta2 v1beta1', 'PriorityLevelConfiguration'],
  ['admissionregistration.k8s.io', 'v1 v1beta1', 'MutatingWebhookConfiguration ValidatingWebhookConfiguration'],
  ['admissionregistration.k8s.io', 'v1 v1beta1 v1alpha1', 'MutatingAdmissionPolicy MutatingAdmissionPolicyBinding'],
  ['admissionregistration.k8s.io', 'v1 v1beta1 v1alpha1', 'ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding'],
  ['apps', 'v1 v1beta2 v1beta1', 'ControllerRevision'],
  ['apps', 'v1 v1beta2', 'Deployment DaemonSet ReplicaSet StatefulSet'],
  ['autoscaling', 'v2 v2beta2', 'HorizontalPodAutoscaler'],
  ['apiregistration.k8s.io', 'v1 v1beta1', 'APIService'],
  ['certificates.k8s.io', 'v1 v1beta1 v1alpha1', 'ClusterTrustBundle'],
  ['resource.k8s.io', 'v1 v1beta2', 'ResourceClaim ResourceClaimTemplate ResourceSlice'],
  ['resource.k8s.io', 'v1 v1beta2 v1alpha3', 'DeviceTaintRule'],
  ['scheduling.k8s.io', 'v1beta1 v1alpha3', 'Workload PodGroup'],
  ['resource.k8s.io', 'v1 v1beta2 v1beta1', 'DeviceClass'],
  ['coordination.k8s.io', 'v1beta1 v1alpha2', 'LeaseCandidate'],
  ['storagemigration.k8s.io', 'v1 v1beta1', 'StorageVersionMigration'],
]

/** All kinds with their apiVersions. */
export const RENAMED: readonly (readonly [kinds: readonly string[], apiVersions: readonly string[]])[] = [
  [['NetworkPolicy'], ['networking.k8s.io/v1', 'extensions/v1beta1']],
  ...OF_A_GROUP.map(
    ([group, versions, kinds]) =>
      [kinds.split(' '), versions.split(' ').map((version) => `${group}/${version}`)] as const,
  ),
]

const SETS = new Map(
  RENAMED.flatMap(([kinds, apiVersions]) =>
    kinds.flatMap((kind) => apiVersions.map((apiVersion) => [`${apiVersion} ${kind}`, apiVersions] as const)),
  ),
)

/**
 * Returns every apiVersion under which this kind is the same object, including the given one; empty for a kind not
 * listed.
 */
export function renamedVersions(apiVersion: string, kind: string): readonly string[] {
  return SETS.get(`${apiVersion} ${kind}`) ?? []
}

/**
 * The API server's defaults for the built-in kinds: the data of `built-in-defaults.ts`, by message. Messages are named
 * as in `kubernetes/codec/protobuf/kubernetes-schema.txt`, without `k8s.io.api.`; `a|b` means two versions with the
 * same defaults. The rows of a message are applied in order, and the rows of an object before those of the objects in
 * it.
 *
 * Some defaults are omitted, because they need arithmetic or a clock and no client depends on them: quantities are not
 * rounded, the requests of a whole pod are not summed over its containers, a negative grace period does not become 1,
 * `podIP` and `podIPs` are not derived from each other, and a device taint gets no time.
 *
 * Source: the API reference of Kubernetes 1.37, and its `pkg/apis/<group>/<version>/defaults.go`. The tests compare
 * every row with the answers of these functions (`test/data/kubernetes-defaults`).
 */

/** A condition on a path that starts at the message's object. '', [] and false count as absent. */
export type Condition =
  | { readonly path: string; readonly values: readonly string[] }
  | { readonly path: string; readonly isThere: boolean }
  | { readonly hasOnly: string }

export type DefaultValue =
  | string
  | number
  | boolean
  | { readonly literal: unknown }
  /** Both paths start at the innermost list item on the way, or at the object if there is no list. */
  | { readonly copyOf: string }
  | { readonly missingKeysOf: string }
  | { readonly pullPolicyOf: string }
  /** The member is removed because it has no meaning there. */
  | { readonly isRemoved: true }

/**
 * `path` names the member, with `[]` for each item of a list; `value` is its default; the row applies only when all
 * conditions after it hold.
 */
export type DefaultRow = readonly [path: string, value: DefaultValue, ...when: readonly Condition[]]

const is = (path: string, ...values: readonly string[]): Condition => ({ path, values })
const has = (path: string): Condition => ({ path, isThere: true })
const lacks = (path: string): Condition => ({ path, isThere: false })
const copyOf = (path: string): DefaultRow[1] => ({ copyOf: path })
const missingKeysOf = (path: string): DefaultRow[1] => ({ missingKeysOf: path })
const literal = (json: unknown): DefaultRow[1] => ({ literal: json })
const empty = (): DefaultRow[1] => literal({})

const FILE_MODE = 0o644
const RBAC = 'rbac.authorization.k8s.io'

const ROLLING_DEPLOYMENT: readonly DefaultRow[] = [
  ['replicas', 1],
  ['strategy.type', 'RollingUpdate'],
  ['strategy.rollingUpdate.maxUnavailable', '25%', is('strategy.type', 'RollingUpdate')],
  ['strategy.rollingUpdate.maxSurge', '25%', is('strategy.type', 'RollingUpdate')],
  ['revisionHistoryLimit', 10],
  ['progressDeadlineSeconds', 600],
]

const CONTAINER: readonly DefaultRow[] = [
  ['imagePullPolicy', { pullPolicyOf: 'image' }],
  ['terminationMessagePath', '/dev/termination-log'],
  ['terminationMessagePolicy', 'File'],
]

const WEBHOOK: readonly DefaultRow[] = [
  ['failurePolicy', 'Fail'],
  ['matchPolicy', 'Equivalent'],
  ['namespaceSelector', empty()],
  ['objectSelector', empty()],
  ['timeoutSeconds', 10],
]

const RBD: readonly DefaultRow[] = [
  ['pool', 'rbd'],
  ['user', 'admin'],
  ['keyring', '/etc/ceph/keyring'],
]

const DEVICE_REQUEST: readonly DefaultRow[] = [
  ['allocationMode', 'ExactCount'],
  ['count', 1, is('allocationMode', 'ExactCount')],
]

const CONTAINER_LISTS = ['spec.containers[]', 'spec.initContainers[]']

export const DEFAULT_FACTS: Readonly<Record<string, readonly DefaultRow[]>> = {
  // Pods and the parts of pod templates.
  'core.v1.Pod': [
    ...CONTAINER_LISTS.map((list): DefaultRow => [`${list}.resources.requests`, missingKeysOf('resources.limits')]),
    ['spec.enableServiceLinks', true],
    ...CONTAINER_LISTS.map((list): DefaultRow => [
      `${list}.ports[].hostPort`,
      copyOf('containerPort'),
      has('spec.hostNetwork'),
    ]),
  ],
  'core.v1.PodSpec': [
    ['dnsPolicy', 'ClusterFirst'],
    ['restartPolicy', 'Always'],
    ['securityContext', empty()],
    ['terminationGracePeriodSeconds', 30],
    ['schedulerName', 'default-scheduler'],
    // The old name of the account is kept in step with the new one, which wins.
    ['serviceAccountName', copyOf('serviceAccount')],
    ['serviceAccount', { isRemoved: true }, has('serviceAccountName')],
    ['serviceAccount', copyOf('serviceAccountName')],
  ],
  'core.v1.Container': CONTAINER,
  'core.v1.EphemeralContainerCommon': CONTAINER,
  'core.v1.ContainerPort': [['protocol', 'TCP']],
  'core.v1.Probe': [
    ['timeoutSeconds', 1],
    ['periodSeconds', 10],
    ['successThreshold', 1],
    ['failureThreshold', 3],
  ],
  'core.v1.HTTPGetAction': [
    ['path', '/'],
    ['scheme', 'HTTP'],
  ],
  'core.v1.GRPCAction': [['service', '']],
  'core.v1.ObjectFieldSelector': [['apiVersion', 'v1']],
  'core.v1.FileKeySelector': [['optional', false]],
  'core.v1.Volume': [['emptyDir', empty(), { hasOnly: 'name' }]],
  'core.v1.ImageVolumeSource': [['pullPolicy', { pullPolicyOf: 'reference' }]],
  'core.v1.SecretVolumeSource': [['defaultMode', FILE_MODE]],
  'core.v1.ConfigMapVolumeSource': [['defaultMode', FILE_MODE]],
  'core.v1.DownwardAPIVolumeSource': [['defaultMode', FILE_MODE]],
  'core.v1.ProjectedVolumeSource': [['defaultMode', FILE_MODE]],
  'core.v1.ServiceAccountTokenProjection': [['expirationSeconds', 3600]],
  'core.v1.HostPathVolumeSource': [['type', '']],
  'core.v1.ISCSIVolumeSource': [['iscsiInterface', 'default']],
  'core.v1.ISCSIPersistentVolumeSource': [['iscsiInterface', 'default']],
  'core.v1.RBDVolumeSource': RBD,
  'core.v1.RBDPersistentVolumeSource': RBD,
  'core.v1.AzureDiskVolumeSource': [
    ['cachingMode', 'ReadWrite'],
    ['fsType', 'ext4'],
    ['readOnly', false],
    ['kind', 'Shared'],
  ],
  'core.v1.ScaleIOVolumeSource': [
    ['storageMode', 'ThinProvisioned'],
    ['fsType', 'xfs'],
  ],
  'core.v1.ScaleIOPersistentVolumeSource': [
    ['storageMode', 'ThinProvisioned'],
    ['fsType', 'xfs'],
  ],

  // The rest of the core group.
  'core.v1.ReplicationController': [
    ['spec.selector', copyOf('spec.template.metadata.labels')],
    ['metadata.labels', copyOf('spec.template.metadata.labels')],
    ['spec.replicas', 1],
  ],
  'core.v1.ServiceSpec': [
    ['sessionAffinity', 'None'],
    ['sessionAffinityConfig', { isRemoved: true }, is('sessionAffinity', 'None')],
    ['sessionAffinityConfig.clientIP.timeoutSeconds', 10_800, is('sessionAffinity', 'ClientIP')],
    ['type', 'ClusterIP'],
    ['externalTrafficPolicy', 'Cluster', is('type', 'NodePort', 'LoadBalancer')],
    ['externalTrafficPolicy', 'Cluster', is('type', 'ClusterIP'), has('externalIPs')],
    ['internalTrafficPolicy', 'Cluster', is('type', 'NodePort', 'LoadBalancer', 'ClusterIP')],
    ['allocateLoadBalancerNodePorts', true, is('type', 'LoadBalancer')],
  ],
  'core.v1.ServicePort': [
    ['protocol', 'TCP'],
    ['targetPort', copyOf('port')],
  ],
  'core.v1.LoadBalancerIngress': [['ipMode', 'VIP', has('ip')]],
  'core.v1.EndpointPort': [['protocol', 'TCP']],
  'core.v1.Secret': [['type', 'Opaque']],
  'core.v1.Namespace': [['status.phase', 'Active']],
  'core.v1.NodeStatus': [['allocatable', copyOf('capacity')]],
  'core.v1.PersistentVolume': [
    ['status.phase', 'Pending'],
    ['spec.persistentVolumeReclaimPolicy', 'Retain'],
    ['spec.volumeMode', 'Filesystem'],
  ],
  'core.v1.PersistentVolumeClaim': [['status.phase', 'Pending']],
  'core.v1.PersistentVolumeClaimSpec': [['volumeMode', 'Filesystem']],
  'core.v1.LimitRangeItem': [
    ['default', missingKeysOf('max'), is('type', 'Container')],
    ['defaultRequest', missingKeysOf('default'), is('type', 'Container')],
    ['defaultRequest', missingKeysOf('min'), is('type', 'Container')],
  ],

  // Workloads.
  'apps.v1.DeploymentSpec': ROLLING_DEPLOYMENT,
  'apps.v1.ReplicaSetSpec': [['replicas', 1]],
  'apps.v1.DaemonSetSpec': [
    ['updateStrategy.type', 'RollingUpdate'],
    ['updateStrategy.rollingUpdate.maxUnavailable', 1, is('updateStrategy.type', 'RollingUpdate')],
    ['updateStrategy.rollingUpdate.maxSurge', 0, is('updateStrategy.type', 'RollingUpdate')],
    ['revisionHistoryLimit', 10],
  ],
  'apps.v1.StatefulSetSpec': [
    ['podManagementPolicy', 'OrderedReady'],
    ['updateStrategy.rollingUpdate', empty(), lacks('updateStrategy.type')],
    ['updateStrategy.type', 'RollingUpdate'],
    [
      'updateStrategy.rollingUpdate.partition',
      0,
      is('updateStrategy.type', 'RollingUpdate'),
      has('updateStrategy.rollingUpdate'),
    ],
    [
      'updateStrategy.rollingUpdate.maxUnavailable',
      1,
      is('updateStrategy.type', 'RollingUpdate'),
      has('updateStrategy.rollingUpdate'),
    ],
    ['persistentVolumeClaimRetentionPolicy.whenDeleted', 'Retain'],
    ['persistentVolumeClaimRetentionPolicy.whenScaled', 'Retain'],
    ['replicas', 1],
    ['revisionHistoryLimit', 10],
  ],
  'batch.v1.Job': [
    ['spec.completions', 1, lacks('spec.parallelism')],
    ['spec.parallelism', 1],
    ['spec.backoffLimit', 0x7fff_ffff, has('spec.backoffLimitPerIndex')],
    ['spec.backoffLimit', 6],
    ['metadata.labels', copyOf('spec.template.metadata.labels')],
    ['spec.completionMode', 'NonIndexed'],
    ['spec.suspend', false],
    ['spec.podReplacementPolicy', 'Failed', has('spec.podFailurePolicy')],
    ['spec.podReplacementPolicy', 'TerminatingOrFailed'],
    ['spec.manualSelector', false],
  ],
  'batch.v1.PodFailurePolicyOnPodConditionsPattern': [['status', 'True']],
  'batch.v1|v1beta1.CronJobSpec': [
    ['concurrencyPolicy', 'Allow'],
    ['suspend', false],
    ['successfulJobsHistoryLimit', 3],
    ['failedJobsHistoryLimit', 1],
  ],
  'autoscaling.v1.HorizontalPodAutoscaler': [['spec.minReplicas', 1]],
  'autoscaling.v2.HorizontalPodAutoscalerSpec': [
    ['minReplicas', 1],
    [
      'metrics',
      literal([
        { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } },
      ]),
    ],
  ],
  'autoscaling.v2.HorizontalPodAutoscalerBehavior': [
    ['scaleUp.stabilizationWindowSeconds', 0],
    ['scaleUp.selectPolicy', 'Max'],
    [
      'scaleUp.policies',
      literal([
        { type: 'Pods', value: 4, periodSeconds: 15 },
        { type: 'Percent', value: 100, periodSeconds: 15 },
      ]),
    ],
    ['scaleDown.selectPolicy', 'Max'],
    ['scaleDown.policies', literal([{ type: 'Percent', value: 100, periodSeconds: 15 }])],
  ],

  // Networking.
  'networking.v1.NetworkPolicyPort': [['protocol', 'TCP']],
  'networking.v1.NetworkPolicySpec': [
    ['policyTypes', literal(['Ingress', 'Egress']), has('egress')],
    ['policyTypes', literal(['Ingress'])],
  ],
  'networking.v1.IngressClassParametersReference': [['scope', 'Cluster']],
  'discovery.v1|v1beta1.EndpointPort': [
    ['name', ''],
    ['protocol', 'TCP'],
  ],

  // Storage, scheduling and access control.
  'storage.v1.StorageClass': [
    ['reclaimPolicy', 'Delete'],
    ['volumeBindingMode', 'Immediate'],
  ],
  'storage.v1.CSIDriverSpec': [
    ['attachRequired', true],
    ['podInfoOnMount', false],
    ['storageCapacity', false],
    ['fsGroupPolicy', 'ReadWriteOnceWithFSType'],
    ['volumeLifecycleModes', literal(['Persistent'])],
    ['requiresRepublish', false],
    ['seLinuxMount', false],
    ['preventPodSchedulingIfMissing', false],
  ],
  'scheduling.v1.PriorityClass': [['preemptionPolicy', 'PreemptLowerPriority']],
  'rbac.v1.ClusterRoleBinding': [['roleRef.apiGroup', RBAC]],
  'rbac.v1.RoleBinding': [['roleRef.apiGroup', RBAC]],
  'rbac.v1.Subject': [['apiGroup', RBAC, is('kind', 'User', 'Group')]],

  // The API server's own kinds.
  'admissionregistration.v1.ValidatingWebhook': WEBHOOK,
  'admissionregistration.v1.MutatingWebhook': [...WEBHOOK, ['reinvocationPolicy', 'Never']],
  'admissionregistration.v1.Rule': [['scope', '*']],
  'admissionregistration.v1.ServiceReference': [['port', 443]],
  'admissionregistration.v1.ValidatingAdmissionPolicySpec': [['failurePolicy', 'Fail']],
  'admissionregistration.v1.MutatingAdmissionPolicySpec': [['failurePolicy', 'Fail']],
  'admissionregistration.v1.MatchResources': [
    ['matchPolicy', 'Equivalent'],
    ['namespaceSelector', empty()],
    ['objectSelector', empty()],
  ],
  'certificates.v1.PodCertificateRequestSpec': [['maxExpirationSeconds', 86_400]],
  'flowcontrol.v1.FlowSchemaSpec': [['matchingPrecedence', 1000]],
  'flowcontrol.v1.ExemptPriorityLevelConfiguration': [
    ['nominalConcurrencyShares', 0],
    ['lendablePercent', 0],
  ],
  'flowcontrol.v1.LimitedPriorityLevelConfiguration': [
    ['nominalConcurrencyShares', 30],
    ['lendablePercent', 0],
  ],
  'flowcontrol.v1.QueuingConfiguration': [
    ['handSize', 8],
    ['queues', 64],
    ['queueLengthLimit', 50],
  ],
  'resource.v1.ExactDeviceRequest': DEVICE_REQUEST,
  'resource.v1.DeviceSubRequest': DEVICE_REQUEST,
  'resource.v1.DeviceToleration': [['operator', 'Equal']],
}

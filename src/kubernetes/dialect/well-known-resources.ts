/**
 * The resources that a kube-apiserver keeps in etcd, and their keys. This is data: `declared-resource.ts` (flags and
 * config) decides what is served, and `resource-registry.ts` holds it. Virtual resources (component statuses, bindings,
 * reviews) have no keys and are missing here. The alpha and beta versions are those of Kubernetes 1.37.
 *
 * Built-in kinds have no API group in their key and a few have historic names (`minions`, `services/specs`, `ingress`,
 * `controllers`); CRDs, APIServices and custom resources do have it. Rows have the API server's own order of groups, so
 * that kubectl resolves a short name in the same way (`events` is the core one).
 *
 * Source: Kubernetes' storage-path test data (`test/integration/etcd/data.go`) and default storage factory; the tests
 * compare it with the keys written by a real kube-apiserver.
 */
import { keyFromText } from '../../engine/model/event.js'
import type { Resource } from '../../engine/model/resource.js'

export interface WellKnownResource {
  readonly resource: Resource
  /**
   * `default`: served from the start. `by-name`: only if the operator names it (Secrets). `preview`: an alpha or beta
   * version, which the operator enables by name, as with the API server's `--runtime-config`. `other-version`: a version
   * dropped by current API servers, with the keys of a default row. Its objects are shown in the default's version; the
   * version itself is served only if the operator names it, never because of what is stored: equal flags give equal
   * discovery.
   */
  readonly served: 'default' | 'by-name' | 'preview' | 'other-version'
}

interface Row {
  readonly plural: string
  readonly kind: string
  readonly namespaced: boolean
  readonly shortNames?: readonly string[]
  readonly categories?: readonly string[]
  /** Below the etcd prefix, without slashes at the ends; absent if equal to the plural. */
  readonly path?: string
  readonly served?: WellKnownResource['served']
  /** The version in which Kubernetes 1.37 stores it; that of the first row with its keys when absent. */
  readonly stored?: string
}

type Extras = Omit<Row, 'plural' | 'kind' | 'namespaced'>

const inNamespace = (plural: string, kind: string, extras: Extras = {}): Row => ({
  plural,
  kind,
  namespaced: true,
  ...extras,
})
const inCluster = (plural: string, kind: string, extras: Extras = {}): Row => ({
  plural,
  kind,
  namespaced: false,
  ...extras,
})

const ALL = ['all']
const API_EXTENSIONS = ['api-extensions']
const OTHER = { served: 'other-version' } as const
const PREVIEW = { served: 'preview' } as const

const ROWS: readonly (readonly [group: string, version: string, rows: readonly Row[]])[] = [
  [
    '',
    'v1',
    [
      inNamespace('configmaps', 'ConfigMap', { shortNames: ['cm'] }),
      inNamespace('endpoints', 'Endpoints', { shortNames: ['ep'], path: 'services/endpoints' }),
      inNamespace('events', 'Event', { shortNames: ['ev'] }),
      inNamespace('limitranges', 'LimitRange', { shortNames: ['limits'] }),
      inCluster('namespaces', 'Namespace', { shortNames: ['ns'] }),
      inCluster('nodes', 'Node', { shortNames: ['no'], path: 'minions' }),
      inNamespace('persistentvolumeclaims', 'PersistentVolumeClaim', { shortNames: ['pvc'] }),
      inCluster('persistentvolumes', 'PersistentVolume', { shortNames: ['pv'] }),
      inNamespace('pods', 'Pod', { shortNames: ['po'], categories: ALL }),
      inNamespace('podtemplates', 'PodTemplate'),
      inNamespace('replicationcontrollers', 'ReplicationController', {
        shortNames: ['rc'],
        categories: ALL,
        path: 'controllers',
      }),
      inNamespace('resourcequotas', 'ResourceQuota', { shortNames: ['quota'] }),
      inNamespace('secrets', 'Secret', { served: 'by-name' }),
      inNamespace('serviceaccounts', 'ServiceAccount', { shortNames: ['sa'] }),
      inNamespace('services', 'Service', { shortNames: ['svc'], categories: ALL, path: 'services/specs' }),
    ],
  ],
  [
    'apiregistration.k8s.io',
    'v1',
    [
      inCluster('apiservices', 'APIService', {
        categories: API_EXTENSIONS,
        path: 'apiregistration.k8s.io/apiservices',
      }),
    ],
  ],
  [
    'apps',
    'v1',
    [
      inNamespace('controllerrevisions', 'ControllerRevision'),
      inNamespace('daemonsets', 'DaemonSet', { shortNames: ['ds'], categories: ALL }),
      inNamespace('deployments', 'Deployment', { shortNames: ['deploy'], categories: ALL }),
      inNamespace('replicasets', 'ReplicaSet', { shortNames: ['rs'], categories: ALL }),
      inNamespace('statefulsets', 'StatefulSet', { shortNames: ['sts'], categories: ALL }),
    ],
  ],
  // The same keys as core events, which is how they are stored; kubectl resolves `events` to the core group.
  ['events.k8s.io', 'v1', [inNamespace('events', 'Event', { shortNames: ['ev'] })]],
  [
    'autoscaling',
    'v2',
    [
      inNamespace('horizontalpodautoscalers', 'HorizontalPodAutoscaler', {
        shortNames: ['hpa'],
        categories: ALL,
      }),
    ],
  ],
  [
    'autoscaling',
    'v1',
    [inNamespace('horizontalpodautoscalers', 'HorizontalPodAutoscaler', { shortNames: ['hpa'], categories: ALL })],
  ],
  [
    'batch',
    'v1',
    [
      inNamespace('cronjobs', 'CronJob', { shortNames: ['cj'], categories: ALL }),
      inNamespace('jobs', 'Job', { categories: ALL }),
    ],
  ],
  ['batch', 'v1beta1', [inNamespace('cronjobs', 'CronJob', { shortNames: ['cj'], categories: ALL, ...OTHER })]],
  [
    'certificates.k8s.io',
    'v1',
    [
      inCluster('certificatesigningrequests', 'CertificateSigningRequest', { shortNames: ['csr'] }),
      inCluster('clustertrustbundles', 'ClusterTrustBundle', { stored: 'v1beta1' }),
      inNamespace('podcertificaterequests', 'PodCertificateRequest', { stored: 'v1beta1' }),
    ],
  ],
  [
    'certificates.k8s.io',
    'v1beta1',
    [
      inCluster('clustertrustbundles', 'ClusterTrustBundle', PREVIEW),
      inNamespace('podcertificaterequests', 'PodCertificateRequest', PREVIEW),
    ],
  ],
  [
    'networking.k8s.io',
    'v1',
    [
      inCluster('ingressclasses', 'IngressClass'),
      inNamespace('ingresses', 'Ingress', { shortNames: ['ing'], path: 'ingress' }),
      inCluster('ipaddresses', 'IPAddress', { shortNames: ['ip'] }),
      inNamespace('networkpolicies', 'NetworkPolicy', { shortNames: ['netpol'] }),
      // Its first v1alpha1 had other members.
      inCluster('servicecidrs', 'ServiceCIDR'),
    ],
  ],
  [
    'networking.k8s.io',
    'v1beta1',
    [inNamespace('ingresses', 'Ingress', { shortNames: ['ing'], path: 'ingress', ...OTHER })],
  ],
  ['policy', 'v1', [inNamespace('poddisruptionbudgets', 'PodDisruptionBudget', { shortNames: ['pdb'] })]],
  [
    'policy',
    'v1beta1',
    [inNamespace('poddisruptionbudgets', 'PodDisruptionBudget', { shortNames: ['pdb'], ...OTHER })],
  ],
  [
    'rbac.authorization.k8s.io',
    'v1',
    [
      inCluster('clusterrolebindings', 'ClusterRoleBinding'),
      inCluster('clusterroles', 'ClusterRole'),
      inNamespace('rolebindings', 'RoleBinding'),
      inNamespace('roles', 'Role'),
    ],
  ],
  [
    'storage.k8s.io',
    'v1',
    [
      inCluster('csidrivers', 'CSIDriver'),
      inCluster('csinodes', 'CSINode'),
      inNamespace('csistoragecapacities', 'CSIStorageCapacity'),
      inCluster('storageclasses', 'StorageClass', { shortNames: ['sc'] }),
      inCluster('volumeattachments', 'VolumeAttachment'),
      inCluster('volumeattributesclasses', 'VolumeAttributesClass', { shortNames: ['vac'] }),
    ],
  ],
  [
    'admissionregistration.k8s.io',
    'v1',
    [
      inCluster('mutatingadmissionpolicies', 'MutatingAdmissionPolicy', { categories: API_EXTENSIONS }),
      inCluster('mutatingadmissionpolicybindings', 'MutatingAdmissionPolicyBinding', { categories: API_EXTENSIONS }),
      inCluster('mutatingwebhookconfigurations', 'MutatingWebhookConfiguration', { categories: API_EXTENSIONS }),
      inCluster('validatingadmissionpolicies', 'ValidatingAdmissionPolicy', { categories: API_EXTENSIONS }),
      inCluster('validatingadmissionpolicybindings', 'ValidatingAdmissionPolicyBinding', {
        categories: API_EXTENSIONS,
      }),
      inCluster('validatingwebhookconfigurations', 'ValidatingWebhookConfiguration', { categories: API_EXTENSIONS }),
    ],
  ],
  ...['v1beta1', 'v1alpha1'].map(
    (version) =>
      [
        'admissionregistration.k8s.io',
        version,
        [
          inCluster('mutatingadmissionpolicies', 'MutatingAdmissionPolicy', { categories: API_EXTENSIONS, ...PREVIEW }),
          inCluster('mutatingadmissionpolicybindings', 'MutatingAdmissionPolicyBinding', {
            categories: API_EXTENSIONS,
            ...PREVIEW,
          }),
        ],
      ] as const,
  ),
  [
    'apiextensions.k8s.io',
    'v1',
    [
      // API servers still store it as v1beta1, which has a different shape (crd.ts reads both).
      inCluster('customresourcedefinitions', 'CustomResourceDefinition', {
        shortNames: ['crd', 'crds'],
        categories: API_EXTENSIONS,
        path: 'apiextensions.k8s.io/customresourcedefinitions',
      }),
    ],
  ],
  ['scheduling.k8s.io', 'v1', [inCluster('priorityclasses', 'PriorityClass', { shortNames: ['pc'] })]],
  [
    'scheduling.k8s.io',
    'v1beta1',
    [inNamespace('podgroups', 'PodGroup', PREVIEW), inNamespace('workloads', 'Workload', PREVIEW)],
  ],
  [
    'scheduling.k8s.io',
    'v1alpha3',
    [
      inNamespace('compositepodgroups', 'CompositePodGroup', PREVIEW),
      inNamespace('podgroups', 'PodGroup', PREVIEW),
      inNamespace('workloads', 'Workload', PREVIEW),
    ],
  ],
  ['coordination.k8s.io', 'v1', [inNamespace('leases', 'Lease')]],
  ['coordination.k8s.io', 'v1beta1', [inNamespace('leasecandidates', 'LeaseCandidate', PREVIEW)]],
  ['coordination.k8s.io', 'v1alpha2', [inNamespace('leasecandidates', 'LeaseCandidate', PREVIEW)]],
  ['node.k8s.io', 'v1', [inCluster('runtimeclasses', 'RuntimeClass')]],
  ['discovery.k8s.io', 'v1', [inNamespace('endpointslices', 'EndpointSlice')]],
  ['discovery.k8s.io', 'v1beta1', [inNamespace('endpointslices', 'EndpointSlice', OTHER)]],
  [
    'resource.k8s.io',
    'v1',
    [
      inCluster('deviceclasses', 'DeviceClass'),
      inCluster('devicetaintrules', 'DeviceTaintRule', { stored: 'v1beta2' }),
      inNamespace('resourceclaims', 'ResourceClaim'),
      inNamespace('resourceclaimtemplates', 'ResourceClaimTemplate'),
      inCluster('resourceslices', 'ResourceSlice'),
    ],
  ],
  [
    'resource.k8s.io',
    'v1beta2',
    [
      inCluster('deviceclasses', 'DeviceClass', PREVIEW),
      inCluster('devicetaintrules', 'DeviceTaintRule', PREVIEW),
      inNamespace('resourceclaims', 'ResourceClaim', PREVIEW),
      inNamespace('resourceclaimtemplates', 'ResourceClaimTemplate', PREVIEW),
      inCluster('resourceslices', 'ResourceSlice', PREVIEW),
    ],
  ],
  [
    'resource.k8s.io',
    'v1beta1',
    [
      inCluster('deviceclasses', 'DeviceClass', PREVIEW),
      inNamespace('resourceclaims', 'ResourceClaim', PREVIEW),
      inNamespace('resourceclaimtemplates', 'ResourceClaimTemplate', PREVIEW),
      inCluster('resourceslices', 'ResourceSlice', PREVIEW),
    ],
  ],
  [
    'resource.k8s.io',
    'v1alpha3',
    [
      inCluster('devicetaintrules', 'DeviceTaintRule', PREVIEW),
      inCluster('resourcepoolstatusrequests', 'ResourcePoolStatusRequest', PREVIEW),
    ],
  ],
  [
    'flowcontrol.apiserver.k8s.io',
    'v1',
    [
      inCluster('flowschemas', 'FlowSchema'),
      // v1beta1 and v1beta2 call the shares `assuredConcurrencyShares`.
      inCluster('prioritylevelconfigurations', 'PriorityLevelConfiguration'),
    ],
  ],
  ...['v1beta3', 'v1beta2', 'v1beta1'].map(
    (version) =>
      [
        'flowcontrol.apiserver.k8s.io',
        version,
        [
          inCluster('flowschemas', 'FlowSchema', OTHER),
          inCluster('prioritylevelconfigurations', 'PriorityLevelConfiguration', OTHER),
        ],
      ] as const,
  ),
  ['internal.apiserver.k8s.io', 'v1alpha1', [inCluster('storageversions', 'StorageVersion', PREVIEW)]],
  [
    'storagemigration.k8s.io',
    'v1',
    [inCluster('storageversionmigrations', 'StorageVersionMigration', { stored: 'v1beta1' })],
  ],
  ['storagemigration.k8s.io', 'v1beta1', [inCluster('storageversionmigrations', 'StorageVersionMigration', PREVIEW)]],
  [
    'lifecycle.k8s.io',
    'v1alpha1',
    [inNamespace('evictionrequests', 'EvictionRequest', PREVIEW), inNamespace('evictions', 'Eviction', PREVIEW)],
  ],
]

/** kube-apiserver's own default for `--etcd-prefix`. */
export const DEFAULT_ETCD_PREFIX = '/registry'

/** Begins with one '/' and ends without one: `registry/` and `/registry` are the same, as in the API server. */
export function normalizeEtcdPrefix(prefix: string): string {
  return `/${prefix}`.replace(/\/+/g, '/').replace(/\/$/, '')
}

/** Returns every row, in the order of discovery. @param etcdPrefix the API server's `--etcd-prefix`. */
export function wellKnownResources(etcdPrefix: string = DEFAULT_ETCD_PREFIX): readonly WellKnownResource[] {
  const root = normalizeEtcdPrefix(etcdPrefix)
  return ROWS.flatMap(([group, version, rows]) =>
    rows.map((row) => ({
      resource: {
        group,
        version,
        plural: row.plural,
        singular: row.kind.toLowerCase(),
        kind: row.kind,
        listKind: `${row.kind}List`,
        shortNames: row.shortNames ?? [],
        categories: row.categories ?? [],
        namespaced: row.namespaced,
        etcdPrefix: keyFromText(`${root}/${row.path ?? row.plural}/`),
        holds: 'kubernetes',
      },
      served: row.served ?? 'default',
    })),
  )
}

/** The version in which an API server of 1.37 stores a resource; undefined for one that is not in the table. */
export function storageVersionOf({ group, plural }: Pick<Resource, 'group' | 'plural'>): string | undefined {
  return STORAGE_VERSIONS.get(`${group}/${plural}`)
}

const STORAGE_VERSIONS = new Map<string, string>()
for (const [group, version, rows] of ROWS)
  for (const { plural, stored = version } of rows) {
    const id = `${group}/${plural}`
    if (!STORAGE_VERSIONS.has(id)) STORAGE_VERSIONS.set(id, stored)
  }

/**
 * The rows that a value of the API server's `--runtime-config` enables: `api/all`, `api/beta`, `api/alpha`,
 * `resource.k8s.io/v1beta1`. Empty when it names none.
 */
export function previewsOf(table: readonly WellKnownResource[], name: string): readonly WellKnownResource[] {
  const [group = '', version = ''] = name.split('/')
  return table.filter(({ resource, served }) => {
    if (served !== 'preview') return false
    if (group !== 'api') return resource.group === group && resource.version === version
    return version === 'all' || (/^(alpha|beta)$/.test(version) && resource.version.includes(version))
  })
}

/** `poddisruptionbudgets.v1.policy`, `pods.v1.`: unique in the table. */
export function qualifiedName(resource: Pick<Resource, 'group' | 'version' | 'plural'>): string {
  return `${resource.plural}.${resource.version}.${resource.group}`
}

/**
 * By plural (`secrets`: the first row of that name), `plural.group` (`events.events.k8s.io`: its preferred version) or
 * `plural.version.group` (`cronjobs.v1beta1.batch`).
 */
export function findWellKnown(table: readonly WellKnownResource[], name: string): WellKnownResource | undefined {
  return (
    table.find(({ resource }) => qualifiedName(resource) === name) ??
    table.find(({ resource }) => resource.group !== '' && `${resource.plural}.${resource.group}` === name) ??
    table.find(({ resource }) => resource.plural === name)
  )
}

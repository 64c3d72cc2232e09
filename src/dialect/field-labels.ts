/**
 * Field labels that the API server does not read from a field of the same path, resource by resource: another name, a
 * default for a field that is absent, or the first of several fields that says something.
 *
 * Every other path is read as it is. Source: `ToSelectableFields` and the registered field label conversions of Kubernetes.
 */
import { type Resource, resourceId } from '../model/resource.js'

export interface FieldLabel {
  /** Where the value is read: the first path whose value is not ''. */
  readonly paths: readonly string[]
  /** The value when none of them says anything. */
  readonly otherwise: string
}

export type FieldLabels = ReadonlyMap<string, FieldLabel>

const STATUS_REPLICAS = { 'status.replicas': [['status.replicas'], '0'] } as const

type Table = Readonly<Record<string, readonly [paths: readonly string[], otherwise: string]>>

const TABLES: Readonly<Record<string, Table>> = {
  pods: {
    'spec.host': [['spec.nodeName'], ''],
    'spec.hostNetwork': [['spec.hostNetwork'], 'false'],
    'spec.restartPolicy': [['spec.restartPolicy'], 'Always'],
    'spec.schedulerName': [['spec.schedulerName'], 'default-scheduler'],
    'spec.serviceAccountName': [['spec.serviceAccountName', 'spec.serviceAccount'], ''],
  },
  nodes: { 'spec.unschedulable': [['spec.unschedulable'], 'false'] },
  namespaces: { name: [['metadata.name'], ''], 'status.phase': [['status.phase'], 'Active'] },
  secrets: { type: [['type'], 'Opaque'] },
  services: { 'spec.type': [['spec.type'], 'ClusterIP'] },
  events: { source: [['source.component', 'reportingComponent'], ''] },
  replicationcontrollers: STATUS_REPLICAS,
  'replicasets.apps': STATUS_REPLICAS,
  'jobs.batch': { 'status.successful': [['status.succeeded'], '0'] },
}

const NONE: FieldLabels = new Map()

const LABELS: ReadonlyMap<string, FieldLabels> = new Map(
  Object.entries(TABLES).map(([id, table]) => [
    id,
    new Map(Object.entries(table).map(([label, [paths, otherwise]]) => [label, { paths, otherwise }])),
  ]),
)

export function fieldLabelsOf(resource: Resource): FieldLabels {
  return LABELS.get(resourceId(resource)) ?? NONE
}

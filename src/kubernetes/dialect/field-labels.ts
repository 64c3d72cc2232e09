/**
 * Field labels that the API server does not read from a field of the same path, by resource: a label may have another
 * path, a default for an absent field, or several fields of which the first non-empty one counts.
 *
 * Every other label is read from the path of its name. Source: `ToSelectableFields` and the registered field label
 * conversions of Kubernetes.
 */
import { type Resource, resourceId } from '../../engine/model/resource.js'

export interface FieldLabel {
  /** The paths to read: the first whose value is not '' counts. */
  readonly paths: readonly string[]
  /** The value when all of them are ''. */
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

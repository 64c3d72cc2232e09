/**
 * The field labels that a selector may use, by resource, and where their values are read.
 *
 * Kubernetes' own kinds and custom resources accept the labels that the API server accepts, so that a typo is rejected
 * instead of selecting everything. A declared prefix accepts any scalar path, and so do the others with
 * `--select-any-field`.
 *
 * Source: the field label conversions that Kubernetes 1.37 registers (`AddFieldLabelConversionFunc`), and its
 * `ToSelectableFields`.
 */
import { apiVersion, type Resource, resourceId } from '../../engine/model/resource.js'
import { BadRequestError } from '../../engine/model/status.js'
import type { ServedResource } from './resource-registry.js'

export interface FieldLabel {
  /** The paths to read: the first whose value is not '' counts. */
  readonly paths: readonly string[]
  /** The value when all of them are ''. */
  readonly otherwise: string
}

export interface FieldLabels {
  /**
   * Returns null if the value is at the path of the label's name.
   *
   * @throws BadRequestError when the resource cannot be selected by the label.
   */
  find(label: string): FieldLabel | null
}

type Table = Readonly<Record<string, readonly [paths: readonly string[], otherwise: string]>>

/** Labels whose value is not at the path of their name, or has a default. */
const COMPUTED: Readonly<Record<string, Table>> = {
  pods: {
    'spec.host': [['spec.nodeName'], ''],
    'spec.hostNetwork': [['spec.hostNetwork'], 'false'],
    'spec.restartPolicy': [['spec.restartPolicy'], 'Always'],
    'spec.schedulerName': [['spec.schedulerName'], 'default-scheduler'],
    'spec.serviceAccountName': [['spec.serviceAccountName', 'spec.serviceAccount'], ''],
  },
  nodes: { 'spec.unschedulable': [['spec.unschedulable'], 'false'] },
  namespaces: { 'status.phase': [['status.phase'], 'Active'] },
  secrets: { type: [['type'], 'Opaque'] },
  services: { 'spec.type': [['spec.type'], 'ClusterIP'] },
  events: { source: [['source.component', 'reportingComponent'], ''] },
  replicationcontrollers: { 'status.replicas': [['status.replicas'], '0'] },
  'jobs.batch': { 'status.successful': [['status.succeeded'], '0'] },
}

const OBJECT = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath']
const NAMED = ['metadata.name', 'metadata.namespace']

/** For kinds with their own labels, the complete list: not every one includes the namespace. */
const OWN: Readonly<Record<string, readonly string[]>> = {
  pods: [
    ...NAMED, 'spec.nodeName', 'spec.host', 'spec.restartPolicy', 'spec.schedulerName', 'spec.serviceAccountName', 'spec.hostNetwork',
    'status.phase', 'status.podIP', 'status.podIPs', 'status.nominatedNodeName',
  ],
  nodes: ['metadata.name', 'spec.unschedulable'],
  namespaces: ['metadata.name', 'status.phase'],
  secrets: [...NAMED, 'type'],
  services: [...NAMED, 'spec.clusterIP', 'spec.type'],
  replicationcontrollers: [...NAMED, 'status.replicas'],
  events: [...NAMED, ...OBJECT.map((name) => `involvedObject.${name}`), 'reason', 'reportingComponent', 'source', 'type'],
  'events.events.k8s.io': [...NAMED, ...OBJECT.map((name) => `regarding.${name}`), 'reason', 'reportingController', 'type'],
  'jobs.batch': [...NAMED, 'status.successful'],
  'certificatesigningrequests.certificates.k8s.io': ['metadata.name', 'spec.signerName'],
  'clustertrustbundles.certificates.k8s.io': ['metadata.name', 'spec.signerName'],
  'podcertificaterequests.certificates.k8s.io': ['metadata.name', 'spec.signerName', 'spec.podName', 'spec.nodeName'],
  'resourceslices.resource.k8s.io': ['metadata.name', 'spec.nodeName', 'spec.driver', 'spec.pool.name'],
} // prettier-ignore

export const ANY_FIELD: FieldLabels = { find: () => null }

type Selected = Pick<ServedResource, 'resource' | 'origin' | 'definition' | 'selectableFields'>

const known = new WeakMap<Selected, FieldLabels>()

/** @param isAnySelectable whether Kubernetes' own kinds and custom resources can be selected by any scalar path. */
export function fieldLabelsOf(served: Selected, isAnySelectable: boolean): FieldLabels {
  if (isAnySelectable) return anyOf(served.resource)
  let labels = known.get(served)
  if (labels === undefined) known.set(served, (labels = labelsOf(served)))
  return labels
}

function labelsOf({ resource, origin, definition, selectableFields }: Selected): FieldLabels {
  const any = anyOf(resource)
  // A custom resource of an upstream that does not expose its definitions, so its labels are unknown here.
  if (origin === 'declared' || resource.holds !== 'kubernetes' || (origin === 'custom' && definition === null))
    return any
  const own = origin === 'custom' ? customLabels(resource, selectableFields) : OWN[resourceId(resource)]
  const taken = new Set(own ?? NAMED)
  return {
    find(label) {
      if (!taken.has(label)) throw new BadRequestError(refusal(resource, label, own === undefined))
      return any.find(label)
    },
  }
}

function anyOf(resource: Resource): FieldLabels {
  const computed = COMPUTED[resourceId(resource)]
  if (computed === undefined) return ANY_FIELD
  return {
    find(label) {
      if (!Object.hasOwn(computed, label)) return null
      const [paths, otherwise] = computed[label]!
      return { paths, otherwise }
    },
  }
}

function customLabels({ namespaced }: Resource, selectableFields: readonly string[]): readonly string[] {
  const fields = selectableFields.map((path) => path.replace(/^\./, ''))
  return ['metadata.name', ...(namespaced ? ['metadata.namespace'] : []), ...fields]
}

/** The API server's words, which differ by kind. */
function refusal(resource: Resource, label: string, isDefault: boolean): string {
  const quoted = JSON.stringify(label)
  if (isDefault) return `${quoted} is not a known field selector: only "metadata.name", "metadata.namespace"`
  const id = resourceId(resource)
  if (id === 'jobs.batch') return `field label ${quoted} not supported for Job`
  if (id === 'resourceslices.resource.k8s.io')
    return `field label not supported for ${apiVersion(resource)}, Kind=${resource.kind}: ${label}`
  return `field label not supported: ${label}`
}

/**
 * The fields that one form of a response leaves out: those that the client dropped and, where only metadata is shown,
 * annotations that belong to a version. A version that lacks a member keeps the member's value in an annotation, and
 * metadata has no version.
 *
 * Source: kubernetes 1.37, pkg/apis/{apps/v1,autoscaling}/, which add and drop these annotations.
 */
import { LeftOutFields, MANAGED_FIELDS } from '../../codec/left-out-fields.js'
import { formatFieldPath } from '../../../engine/facts/field-path.js'
import { resourceId, type ApiResource } from '../../model/api-resource.js'

/** What Accept can name. */
export const DROPPED = new LeftOutFields([MANAGED_FIELDS])

interface OfMetadata {
  readonly whole: LeftOutFields
  readonly dropped: LeftOutFields
}

function ofMetadata(...annotations: readonly string[]): OfMetadata {
  const paths = annotations.map((name) => formatFieldPath(['metadata', 'annotations', name]))
  return { whole: new LeftOutFields(paths), dropped: new LeftOutFields([...paths, MANAGED_FIELDS]) }
}

const OF_VERSIONS = new Map([
  ['daemonsets.apps', ofMetadata('deprecated.daemonset.template.generation')],
  [
    'horizontalpodautoscalers.autoscaling',
    ofMetadata(
      ...['conditions', 'metrics', 'current-metrics', 'behavior'].map(
        (name) => `autoscaling.alpha.kubernetes.io/${name}`,
      ),
    ),
  ],
])

/** Returns null if the form leaves out nothing. */
export function leftOutOfForm(resource: ApiResource, isMetadata: boolean, isDropping: boolean): LeftOutFields | null {
  const ofVersions = isMetadata ? OF_VERSIONS.get(resourceId(resource)) : undefined
  if (ofVersions !== undefined) return isDropping ? ofVersions.dropped : ofVersions.whole
  return isDropping ? DROPPED : null
}

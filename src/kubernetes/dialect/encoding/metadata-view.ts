/**
 * The metadata-only view of an object. A version that lacks a member keeps the member's value in an annotation.
 * Metadata has no version, so this view leaves out such annotations.
 *
 * Source: kubernetes 1.37, pkg/apis/{apps/v1,autoscaling}/, which add and drop these annotations.
 */
import { resourceId, type Resource } from '../../../engine/model/resource.js'
import { scanObject } from '../../codec/json-scan.js'
import { encodeJsonTree, isRecord, readJsonTree } from '../../codec/json-tree.js'
import { dropAnnotations } from '../../codec/versions/small-differences.js'
import type { JsonView } from './json-encoder.js'

const OF_VERSIONS: Readonly<Record<string, readonly string[]>> = {
  'daemonsets.apps': ['deprecated.daemonset.template.generation'],
  'horizontalpodautoscalers.autoscaling': ['conditions', 'metrics', 'current-metrics', 'behavior'].map(
    (name) => `autoscaling.alpha.kubernetes.io/${name}`,
  ),
}

/** Whether the metadata is shown exactly as stored. */
export function isMetadataPlain(resource: Resource): boolean {
  return !Object.hasOwn(OF_VERSIONS, resourceId(resource))
}

export function metadataView(resource: Resource, view: JsonView): JsonView {
  if (isMetadataPlain(resource)) return view
  const names = OF_VERSIONS[resourceId(resource)]!
  return (object) => {
    const json = view(object)
    if (json === null || !names.some((name) => json.bytes.includes(name))) return json
    const tree = readJsonTree(json.bytes)
    if (isRecord(tree)) dropAnnotations(tree, names)
    return scanObject(encodeJsonTree(tree))
  }
}

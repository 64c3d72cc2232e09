/**
 * The metadata-only view of an object. Metadata has no version, so it lacks the annotations in which a version keeps
 * what has no member there.
 *
 * Source: kubernetes 1.37, pkg/apis/{apps/v1,autoscaling}/, which add and drop these annotations.
 */
import { resourceId, type Resource } from '../../../engine/model/resource.js'
import { scanObject } from '../../codec/json-scan.js'
import { JsonObject, withoutAnnotations } from '../../codec/versions/json-object.js'
import type { JsonView } from './json-encoder.js'

const OF_VERSIONS: Readonly<Record<string, readonly string[]>> = {
  'daemonsets.apps': ['deprecated.daemonset.template.generation'],
  'horizontalpodautoscalers.autoscaling': ['conditions', 'metrics', 'current-metrics', 'behavior'].map(
    (name) => `autoscaling.alpha.kubernetes.io/${name}`,
  ),
}

/** Whether the stored metadata is what is shown. */
export function isMetadataPlain(resource: Resource): boolean {
  return !Object.hasOwn(OF_VERSIONS, resourceId(resource))
}

export function metadataView(resource: Resource, view: JsonView): JsonView {
  if (isMetadataPlain(resource)) return view
  const names = OF_VERSIONS[resourceId(resource)]!
  return (object) => {
    const json = view(object)
    const root = json === null ? null : JsonObject.parse(json.bytes)
    const annotations = root?.object('metadata')?.object('annotations') ?? null
    if (root === null || !names.some((name) => annotations?.has(name))) return json
    return scanObject(withoutAnnotations(root, names).toBuffer())
  }
}

/** The served resources of Kubernetes' dialect, as requests see them. */
import type { LiveResource as Live, UncachedResource as Uncached } from '../../engine/pipeline/live-resource.js'
import type { ServedResource } from './resource-registry.js'

export type LiveResource = Live<ServedResource>
export type UncachedResource = Uncached<ServedResource>

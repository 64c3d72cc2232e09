/** A served resource as the engine knows it: its names and the keys that hold it. The dialect knows more. */
import type { Key } from './event.js'

export interface Resource {
  /** '' for a resource without a group. */
  readonly group: string
  readonly version: string
  /** The plural name in lower case, as in paths. */
  readonly plural: string
  /**
   * Absolute, and never empty. It ends in '/', because `/registry/pods` would also match `/registry/podsecuritypolicy/`.
   * Only a declared prefix may end in another separator, or be declared exact.
   */
  readonly etcdPrefix: Key
  /** The fields that are left out of every object of this resource, as sorted paths; absent if there are none. */
  readonly stripped?: readonly string[]
  /**
   * The form in which another server shows the objects, as text. Each feed requests one form. Absent if the source
   * stores the objects.
   */
  readonly form?: string
}

/**
 * Returns a name such as `pods` or `deployments.apps`, unique among the served resources of one version. It is used in
 * logs, metrics and flags.
 */
export function resourceId(resource: Pick<Resource, 'group' | 'plural'>): string {
  return resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`
}

/** Returns a version such as `v1` or `apps/v1`, which tells apart the forms in which an object can be written. */
export function schemaVersion(resource: Pick<Resource, 'group' | 'version'>): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`
}

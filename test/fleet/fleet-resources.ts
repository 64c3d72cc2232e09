/** The resources of a fleet scenario: each as its clients name it, and its objects as etcd holds them. */
import { load } from '../../src/server/config/load.js'
import { apiVersion, keyOfName, type Resource } from '../../src/engine/model/resource.js'
import { keyToText } from '../../src/engine/model/event.js'
import { pod } from '../support/pod.js'
import type { Target } from '../support/watch-recorder.js'

export interface FleetResource {
  readonly resource: Resource
  readonly target: Target
  /** Returns the key of an object in etcd. */
  keyOf(name: string): string
  object(name: string, labels: Readonly<Record<string, string>>): object
}

/** The built-in resources, once for each etcd prefix: those of two versions or groups share a publisher. */
export const builtIn: readonly FleetResource[] = byPrefix()

export const pods: FleetResource = {
  ...builtIn.find(({ resource }) => resource.plural === 'pods')!,
  object: (name, labels) => pod(name, { labels }),
}

/** Those of `builtIn` whose objects do not affect what is served. */
export const writable: readonly FleetResource[] = builtIn.filter(
  ({ resource: { kind } }) => kind !== 'CustomResourceDefinition' && kind !== 'APIService',
)

function byPrefix(): FleetResource[] {
  const loaded = load([], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('no configuration')
  const found = new Map<string, FleetResource>()
  for (const { resource } of loaded.config.resources) {
    if (!found.has(resource.etcdPrefix)) found.set(resource.etcdPrefix, asFleetResource(resource))
  }
  return [...found.values()]
}

function asFleetResource(resource: Resource): FleetResource {
  const version = apiVersion(resource)
  const namespace = resource.namespaced ? 'default' : ''
  return {
    resource,
    target: {
      groupVersionPath: resource.group === '' ? `/api/${version}` : `/apis/${version}`,
      plural: resource.plural,
      prefix: resource.etcdPrefix,
    },
    keyOf: (name) => keyToText(keyOfName(resource, { namespace, name })),
    object: (name, labels) => ({
      kind: resource.kind,
      apiVersion: version,
      metadata: { name, ...(resource.namespaced ? { namespace } : {}), uid: `uid-${name}`, labels },
    }),
  }
}

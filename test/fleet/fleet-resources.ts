/** The resources of a fleet scenario: each as its clients name it, and its objects as etcd holds them. */
import { load } from '../../src/server/config/load.js'
import { apiVersion, keyOfName, type ApiResource } from '../../src/kubernetes/model/api-resource.js'
import { keyToText } from '../../src/engine/model/event.js'
import { readDefinition } from '../../src/kubernetes/dialect/crd.js'
import { definitionObject, ESTABLISHED, type JsonObject } from '../support/definition.js'
import { describeJson, type Describe, fingerprintOf } from '../support/history.js'
import { pod } from '../support/pod.js'
import type { Target } from '../support/watch-recorder.js'
import { fromProtobuf, toProtobuf } from '../support/whole-object.js'

export interface FleetResource {
  readonly resource: ApiResource
  readonly target: Target
  /** Returns the key of an object in etcd. The namespace is ignored if objects have none. */
  keyOf(name: string, namespace?: string): string
  object(name: string, labels: Readonly<Record<string, string>>, namespace?: string): object
}

const NAMESPACE = 'default'

/** The built-in resources, once for each etcd prefix: those of two versions or groups share a publisher. */
export const builtIn: readonly FleetResource[] = byPrefix()

export const pods: FleetResource = {
  ...builtIn.find(({ resource }) => resource.plural === 'pods')!,
  object: (name, labels, namespace = NAMESPACE) => pod(name, { labels, namespace }),
}

const sized: JsonObject = { type: 'object', properties: { size: { type: 'integer', default: 3 } } }

/** A definition whose schema has a default, and no other field of the spec. */
const definition = {
  ...definitionObject({
    group: 'example.com',
    plural: 'widgets',
    kind: 'Widget',
    scope: 'Namespaced',
    versions: [{ name: 'v1', storage: true, schema: { type: 'object', properties: { spec: sized } } }],
  }),
  status: ESTABLISHED,
}

/** The definition of `widgets`, by its key in etcd. */
export const widgetDefinition: Readonly<Record<string, object>> = {
  '/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com': definition,
}

/** A custom resource, whose objects have a field that is not served. */
export const widgets: FleetResource = customResource()

function customResource(): FleetResource {
  const reading = readDefinition(definition, '/registry')
  if (reading.kind !== 'defined') throw new Error(reading.reason)
  const custom = asFleetResource(reading.resources[0]!.resource)
  return { ...custom, object: (...of) => ({ ...custom.object(...of), spec: { unknown: true } }) }
}

/** The resources whose objects do not affect what is served. */
export const writable: readonly FleetResource[] = [
  ...builtIn.filter(({ resource: { kind } }) => kind !== 'CustomResourceDefinition' && kind !== 'APIService'),
  widgets,
]

/** The value of an object in etcd, in the form in which an API server stores it. */
export function storedValue({ resource }: FleetResource, object: object): Buffer | object {
  return resource === widgets.resource ? object : toProtobuf(object)
}

/** The phases that API servers fill in when they read an object without one. */
const FILLED_PHASES = new Map([
  ['Namespace', 'Active'],
  ['PersistentVolume', 'Pending'],
  ['PersistentVolumeClaim', 'Pending'],
])

/** How a stored object is served: unchanged, except for what API servers fill in and leave out on reading. */
export const describeServed: Describe = (key, value) => {
  const isProtobuf = value.toString('latin1', 0, 4) === 'k8s\0'
  const object = isProtobuf ? fromProtobuf(value) : describeJson(key, value)?.object
  if (object === undefined) return null
  const served = asServed(object as StoredObject)
  return { object: served, fingerprint: fingerprintOf(served) }
}

function asServed(object: StoredObject): object {
  const { kind, metadata, spec, status } = object
  if (kind === widgets.resource.kind) {
    return { ...object, metadata: { generation: 1, ...metadata }, ...(spec && { spec: { size: spec.size ?? 3 } }) }
  }
  const phase = FILLED_PHASES.get(kind)
  if (phase === undefined) return object
  const { name, labels } = metadata
  const filled = kind === 'Namespace' ? { ...labels, 'kubernetes.io/metadata.name': name } : labels
  return { ...object, metadata: { ...metadata, labels: filled }, status: { phase, ...status } }
}

interface StoredObject {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> }
  readonly spec?: { readonly size?: number }
  readonly status?: object
}

function byPrefix(): FleetResource[] {
  const loaded = load([], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('no configuration')
  const found = new Map<string, FleetResource>()
  for (const { resource } of loaded.config.resources) {
    if (!found.has(resource.etcdPrefix)) found.set(resource.etcdPrefix, asFleetResource(resource))
  }
  return [...found.values()]
}

function asFleetResource(resource: ApiResource): FleetResource {
  const version = apiVersion(resource)
  return {
    resource,
    target: {
      groupVersionPath: resource.group === '' ? `/api/${version}` : `/apis/${version}`,
      plural: resource.plural,
      prefix: resource.etcdPrefix,
    },
    keyOf: (name, namespace = NAMESPACE) => keyToText(keyOfName(resource, { namespace, name })),
    object: (name, labels, namespace = NAMESPACE) => ({
      kind: resource.kind,
      apiVersion: version,
      metadata: { name, ...(resource.namespaced ? { namespace } : {}), uid: `uid-${name}`, labels },
    }),
  }
}

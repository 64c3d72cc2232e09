/**
 * The pods behind one Service, read from its EndpointSlices in the cache. A pod may be in several slices, one for each
 * address family.
 *
 * Source: discovery.k8s.io/v1, EndpointSlice: the label, and what missing conditions mean.
 */
import { getOrMake } from '../../support/memo.js'
import { field, isTrue, listAt, textAt } from '../../support/fields.js'
import { keyOfName, namespacePrefix } from '../../kubernetes/model/api-resource.js'
import type { ObjectNotes, StoredObject } from '../../engine/model/stored-object.js'
import type { LiveResource } from '../../kubernetes/dialect/served-live-resource.js'
import { followResource, type Registrations } from './followed-objects.js'
import type { FindLive, JsonOf } from './node-relations.js'
import type { Endpoint } from './rebalance.js'

export interface ServiceEndpointsOptions {
  readonly namespace: string
  readonly service: string
  readonly registry: Registrations
  readonly find: FindLive
  readonly jsonOf: JsonOf
}

const SERVICE_LABEL = 'kubernetes.io/service-name'

/** @returns a function that returns the pods; null while the EndpointSlices have not been read. */
export function followServiceEndpoints(options: ServiceEndpointsOptions): () => readonly Endpoint[] | null {
  const { namespace, service, registry, jsonOf } = options
  const find = (): LiveResource | undefined => options.find('discovery.k8s.io', 'v1', 'endpointslices')
  let endpoints: readonly Endpoint[] | null = null
  // The slices of all Services change often, and those of one Service rarely.
  const parsed = new WeakMap<ObjectNotes, readonly Endpoint[]>()
  const parse = (live: LiveResource, stored: StoredObject): readonly Endpoint[] => {
    const json = jsonOf(live, stored)
    const slice: unknown = json === null ? null : JSON.parse(json.toString('utf8'))
    return textAt(slice, 'metadata', 'labels', SERVICE_LABEL) === service ? podsOf(slice) : []
  }
  followResource(registry, find, () => {
    endpoints = null
    return { onChange: () => (endpoints = null) }
  })
  return () => {
    const live = find()
    if (live?.cache.readiness.kind !== 'ready') return null
    if (endpoints !== null) return endpoints
    const found: Endpoint[] = []
    for (const stored of live.cache.snapshot().objects(namespacePrefix(live.served.resource, namespace))) {
      // A slice may have more endpoints than a call can have arguments.
      for (const endpoint of getOrMake(parsed, stored.notes, () => parse(live, stored))) found.push(endpoint)
    }
    return (endpoints = merged(found))
  }
}

/** Asked for every second, while a Service seldom changes. */
const nodeLocal = new WeakMap<ObjectNotes, boolean>()

/** Whether the Service sends clients to a pod of their own node; also false while Services are not cached here. */
export function isNodeLocal({ namespace, service: name, find, jsonOf }: ServiceEndpointsOptions): boolean {
  const live = find('', 'v1', 'services')
  const stored = live?.cache.snapshot().get(keyOfName(live.served.resource, { namespace, name }))
  if (live === undefined || stored === undefined) return false
  return getOrMake(nodeLocal, stored.notes, () => hasLocalPolicy(jsonOf(live, stored)))
}

function hasLocalPolicy(json: Buffer | null): boolean {
  const spec = json === null ? null : field(JSON.parse(json.toString('utf8')), 'spec')
  return ['internalTrafficPolicy', 'externalTrafficPolicy'].some((policy) => textAt(spec, policy) === 'Local')
}

function podsOf(slice: unknown): Endpoint[] {
  return listAt(slice, 'endpoints').flatMap((endpoint) => {
    const uid = textAt(endpoint, 'targetRef', 'uid')
    if (uid === '' || textAt(endpoint, 'targetRef', 'kind') !== 'Pod') return []
    const isReady = field(endpoint, 'conditions', 'ready') !== false && !isTrue(endpoint, 'conditions', 'terminating')
    return { uid, owner: ownerOf(textAt(endpoint, 'targetRef', 'name')), isReady }
  })
}

/** `distributary-7c9f` of the pod `distributary-7c9f-x2b4k`: the ReplicaSet or StatefulSet. */
function ownerOf(pod: string): string {
  return pod.slice(0, Math.max(0, pod.lastIndexOf('-')))
}

/** Each pod once; it is ready if all its slices say so. */
function merged(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const byUid = new Map<string, Endpoint>()
  for (const one of endpoints) {
    const isReady = one.isReady && byUid.get(one.uid)?.isReady !== false
    byUid.set(one.uid, { ...one, isReady })
  }
  return [...byUid.values()]
}

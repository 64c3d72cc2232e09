/** The question that an authorizer is asked and its answer. Each mode is one file here; `union-authorizer.ts` puts them in order. */
import { resourceId, type Resource } from '../../model/resource.js'
import type { User } from '../user.js'

/** One request in the API server's terms. */
export interface Attributes {
  /** `get`, `list`, `watch`, `create`…; for a path the method in lower case. */
  readonly verb: string
  readonly isResourceRequest: boolean
  /** The group of a resource request; '' otherwise, and for the core group. */
  readonly group: string
  readonly version: string
  readonly resource: string
  readonly subresource: string
  /** '' for a cluster-scoped resource and for all namespaces: that is a right of its own. */
  readonly namespace: string
  /** '' unless the request is for one object; see `transports/request-attributes.ts` for what names it. */
  readonly name: string
  /** As decoded and normalised once by the router; the one that is routed is the one that is judged. */
  readonly path: string
}

export interface Decision {
  readonly allowed: boolean
  /** For the caller, after the 403's own words; '' when there is nothing to add. */
  readonly reason: string
  /** The rule that decided, for the access log; null when none allowed the request. */
  readonly rule: string | null
}

export interface Authorizer {
  /** @throws ServiceUnavailableError when nobody could decide now. */
  authorize(user: User, attributes: Attributes): Promise<Decision>
  /** The listener is called when earlier answers may no longer hold. @returns a function that removes it. */
  onChange(listener: () => void): () => void
  /** True when answers can change without `onChange`: running watches are then asked about again from time to time. */
  readonly changesSilently: boolean
  close(): void
}

export interface ResourceRequest {
  readonly verb: string
  readonly resource: Pick<Resource, 'group' | 'version' | 'plural'>
  readonly subresource?: string
  readonly namespace: string
  /** In the path. One that only a selector names is set on what comes out, for it must not become a namespace. */
  readonly name: string
  readonly path: string
}

/** A Namespace that the path names is, for its own rights, in itself: a RoleBinding in `a` can grant `get` on it. */
export function resourceAttributes(request: ResourceRequest): Attributes {
  const { group, version, plural } = request.resource
  const isOneNamespace = group === '' && plural === 'namespaces' && request.namespace === ''
  return {
    verb: request.verb,
    isResourceRequest: true,
    group,
    version,
    resource: plural,
    subresource: request.subresource ?? '',
    namespace: isOneNamespace ? request.name : request.namespace,
    name: request.name,
    path: request.path,
  }
}

/** `/metrics`, `/healthz`, discovery. */
export function pathAttributes(method: string, path: string): Attributes {
  const verb = method.toLowerCase()
  return {
    verb,
    isResourceRequest: false,
    group: '',
    version: '',
    resource: '',
    subresource: '',
    namespace: '',
    name: '',
    path,
  }
}

export function attributesKey(a: Attributes): string {
  return a.isResourceRequest
    ? JSON.stringify([a.verb, a.group, a.version, a.resource, a.subresource, a.namespace, a.name])
    : JSON.stringify([a.verb, a.path])
}

/** `deployments.apps`. */
export function attributesResource(attributes: Attributes): string {
  return resourceId({ group: attributes.group, plural: attributes.resource })
}

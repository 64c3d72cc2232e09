/**
 * The interface of an authorizer. Each mode is one file in this folder, and `union-authorizer.ts` puts them in order.
 */
import { resourceId, type ApiResource } from '../../../kubernetes/model/api-resource.js'
import type { User } from '../user.js'

/** One request in the API server's terms. */
export interface Attributes {
  /** `get`, `list`, `watch`, `create`…; for a request that is not for a resource, the method in lower case. */
  readonly verb: string
  readonly isResourceRequest: boolean
  /** The group of a resource request; '' for the core group and for other requests. */
  readonly group: string
  readonly version: string
  readonly resource: string
  readonly subresource: string
  /** '' for a cluster-scoped resource and for all namespaces, which need a separate permission. */
  readonly namespace: string
  /** '' unless the request is for one object; `transports/api/request-attributes.ts` decides what names an object. */
  readonly name: string
  /**
   * The prefix of all requested names, if the request is for a declared prefix (`?prefix=`); absent otherwise. Modes
   * that do not support it judge the whole list or watch.
   */
  readonly namesFrom?: string
  /**
   * The selectors of a list, watch or deletecollection; absent for none. A mode may allow only the part that they
   * select.
   */
  readonly fieldSelector?: readonly SelectorRequirement[]
  readonly labelSelector?: readonly SelectorRequirement[]
  /** The path as the router decoded and normalized it, so that the same path is judged and routed. */
  readonly path: string
}

/** As in a SubjectAccessReview. */
export interface SelectorRequirement {
  readonly key: string
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist'
  readonly values?: readonly string[]
}

export interface Decision {
  readonly allowed: boolean
  /** Whether no further mode is asked, although the request is not allowed. Default: false. */
  readonly denied?: boolean
  /** A message for the caller, appended to the text of the 403; '' when there is nothing to add. */
  readonly reason: string
  /** The rule that decided, for the access log; null when no rule allowed the request. */
  readonly rule: string | null
}

/** Rules over resources and over paths, as a SelfSubjectRulesReview lists them. */
export interface UserRules {
  readonly resourceRules: readonly {
    readonly verbs: readonly string[]
    readonly apiGroups: readonly string[]
    readonly resources: readonly string[]
    readonly resourceNames?: readonly string[]
  }[]
  readonly nonResourceRules: readonly {
    readonly verbs: readonly string[]
    readonly nonResourceURLs: readonly string[]
  }[]
  /** Whether there may be permissions that are not listed. */
  readonly incomplete: boolean
  /** Says why the list is incomplete; absent when there is nothing to say. */
  readonly evaluationError?: string
}

export interface Authorizer {
  /** @throws ServiceUnavailableError when no decision is possible now. */
  authorize(user: User, attributes: Attributes): Promise<Decision>
  /** Lists the permissions of a user in a namespace, including the user's cluster-wide permissions. */
  rulesFor(user: User, namespace: string): Promise<UserRules>
  /** Calls the listener when earlier decisions may no longer hold. @returns a function that removes the listener. */
  onChange(listener: () => void): () => void
  /** Whether decisions can change without a call of `onChange`. Running watches are then checked again periodically. */
  readonly changesSilently: boolean
  close(): void
}

export const EVERY_RULE: UserRules = {
  resourceRules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }],
  nonResourceRules: [{ verbs: ['*'], nonResourceURLs: ['*'] }],
  incomplete: false,
}

export interface ResourceRequest {
  readonly verb: string
  readonly resource: Pick<ApiResource, 'group' | 'version' | 'plural'>
  readonly subresource?: string
  readonly namespace: string
  /**
   * The name in the path. If only a selector gives the name, the caller sets it on the result, because it must not
   * become a namespace.
   */
  readonly name: string
  readonly path: string
}

/**
 * A request for a Namespace counts as being in that namespace, so that a RoleBinding in `a` can grant `get` on `a`
 * itself.
 */
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

/** Returns the attributes of requests such as `/metrics`, `/healthz` and discovery. */
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

function selectorsOf({ fieldSelector, labelSelector }: Attributes): readonly unknown[] {
  return fieldSelector === undefined && labelSelector === undefined ? [] : [fieldSelector ?? [], labelSelector ?? []]
}

export function attributesKey(a: Attributes): string {
  return a.isResourceRequest
    ? JSON.stringify([a.verb, a.group, a.version, a.resource, a.subresource, a.namespace, a.name, ...selectorsOf(a)])
    : JSON.stringify([a.verb, a.path])
}

/** Returns a name such as `deployments.apps`. */
export function attributesResource(attributes: Attributes): string {
  return resourceId({ group: attributes.group, plural: attributes.resource })
}

/**
 * The Node mode: the permissions of a kubelet. A kubelet may read its own node, the pods that run on that node, and the
 * objects that those pods name. Its other permissions are the same for every kubelet. All are the defaults of
 * Kubernetes 1.37.
 *
 * The mode never denies. A request that it cannot decide (a resource that is not served here, a stale cache) is left to
 * the other modes. Some permissions are wider than a kubelet's needs, such as creating nodes and pods, because
 * admission in the API server restricts them. This server has no admission for nodes, so send such writes to the API
 * server.
 *
 * Source: the node authorizer and NodeRules of kubernetes/kubernetes.
 */
import type { User } from '../user.js'
import type { Attributes, Authorizer, Decision } from './authorizer.js'
import { CompiledRule } from './compiled-rule.js'

export type NodeRelative =
  | 'configmaps'
  | 'persistentvolumeclaims'
  | 'persistentvolumes'
  | 'podcertificaterequests'
  | 'pods'
  | 'resourceclaims'
  | 'resourceslices'
  | 'secrets'
  | 'serviceaccounts'
  | 'volumeattachments'

/** Knows which objects belong to which node. */
export interface NodeRelations {
  /**
   * Whether the object belongs to the node, or one of the node's pods names it.
   * @throws ServiceUnavailableError when a cache is stale.
   */
  isRelated(node: string, kind: NodeRelative, namespace: string, name: string): boolean | Promise<boolean>
}

const PREFIX = 'system:node:'
const GROUP = 'system:nodes'
const LEASES = 'kube-node-lease'

const rule = (verbs: string, apiGroups: readonly string[], ...resources: readonly string[]): CompiledRule =>
  new CompiledRule({ verbs: verbs.split(' '), apiGroups, resources, resourceNames: [], nonResourceURLs: [] })

const READ = 'get list watch'

/** Permissions that are the same for all nodes. */
const RULES: readonly CompiledRule[] = [
  rule('create', ['authentication.k8s.io'], 'tokenreviews'),
  rule('create', ['authorization.k8s.io'], 'subjectaccessreviews', 'localsubjectaccessreviews'),
  rule(READ, [''], 'services'),
  rule('create update patch', ['', 'events.k8s.io'], 'events'),
  rule('get', [''], 'endpoints'),
  rule(`create ${READ}`, ['certificates.k8s.io'], 'certificatesigningrequests'),
  rule(READ, ['certificates.k8s.io'], 'clustertrustbundles'),
  rule(READ, ['storage.k8s.io'], 'csidrivers'),
  rule(READ, ['node.k8s.io'], 'runtimeclasses'),
]

/** A decision, or the kind of object that must be related to the node. */
type Judged = Decision | NodeRelative

const ALLOWED: Decision = { allowed: true, reason: '', rule: 'Node' }
const refuse = (reason: string): Decision => ({ allowed: false, reason, rule: null })
const NO_OPINION = refuse('')

export function nodeAuthorizer(relations: NodeRelations): Authorizer {
  return {
    // Relations change as pods come and go.
    changesSilently: true,
    async authorize(user, attributes) {
      const node = nodeOf(user)
      if (node === null) return NO_OPINION
      if (node === '') return refuse(`unknown node for user ${JSON.stringify(user.name)}`)
      const judged = judge(node, attributes)
      if (typeof judged !== 'string') return judged
      if (attributes.name === '') return refuse('No Object name found')
      const isRelated = await relations.isRelated(node, judged, attributes.namespace, attributes.name)
      return isRelated ? ALLOWED : refuse(`no relationship found between node '${node}' and this object`)
    },
    async rulesFor(user) {
      const nothing = { resourceRules: [], nonResourceRules: [] }
      return nodeOf(user) === null
        ? { ...nothing, incomplete: false }
        : { ...nothing, incomplete: true, evaluationError: 'node authorizer does not support user rule resolution' }
    },
    onChange: () => () => {},
    close: () => {},
  }
}

/** Returns null if the user is not a node. */
function nodeOf({ name, groups }: User): string | null {
  return name.startsWith(PREFIX) && groups.includes(GROUP) ? name.slice(PREFIX.length) : null
}

function judge(node: string, attributes: Attributes): Judged {
  if (!attributes.isResourceRequest) return NO_OPINION
  const { group, resource } = attributes
  const name = group === '' ? resource : `${resource}.${group}`
  if (Object.hasOwn(JUDGES, name)) return JUDGES[name]!(attributes, node)
  return RULES.some((one) => one.allows(attributes)) ? ALLOWED : NO_OPINION
}

type Judge = (attributes: Attributes, node: string) => Judged

const JUDGES: Readonly<Record<string, Judge>> = {
  secrets: readOne('secrets'),
  configmaps: readOne('configmaps'),
  persistentvolumeclaims: (attributes) => {
    if (attributes.subresource !== 'status') return getOne('persistentvolumeclaims')(attributes)
    const isUpdate = isOneOf(attributes.verb, 'update patch')
    return isUpdate ? 'persistentvolumeclaims' : refuse('can only get/update/patch this type')
  },
  persistentvolumes: getOne('persistentvolumes'),
  'resourceclaims.resource.k8s.io': getOne('resourceclaims'),
  'volumeattachments.storage.k8s.io': getOne('volumeattachments'),
  serviceaccounts: (attributes) => {
    const { verb, subresource, name } = attributes
    if (verb === 'get' && subresource === '') return readOne('serviceaccounts')(attributes)
    if (verb !== 'create' || name === '') return refuse('can only create tokens for individual service accounts')
    return subresource === 'token' ? 'serviceaccounts' : refuse('can only create token subresource of serviceaccount')
  },
  'leases.coordination.k8s.io': ({ verb, namespace, name }, node) => {
    if (!isOneOf(verb, OWN)) return refuse('can only get, create, update, patch, or delete a node lease')
    if (namespace !== LEASES) return refuse(`can only access leases in the "${LEASES}" system namespace`)
    // The name of the new lease is in its body, which is not visible here.
    if (verb === 'create' || name === node) return ALLOWED
    return refuse('can only access node lease with the same name as the requesting node')
  },
  'csinodes.storage.k8s.io': ({ verb, subresource, name }, node) => {
    if (subresource === 'status') return refuse('CSINode status access requires CSIVolumeHealth feature')
    if (subresource !== '') return refuse('cannot authorize CSINode subresources')
    if (!isOneOf(verb, OWN)) return refuse('can only get, create, update, patch, or delete a CSINode')
    if (verb === 'create' || name === node) return ALLOWED
    return refuse('can only access CSINode with the same name as the requesting node')
  },
  'resourceslices.resource.k8s.io': (attributes, node) => {
    const { verb, subresource } = attributes
    if (subresource !== '') return refuse('cannot authorize ResourceSlice subresources')
    if (verb === 'create') return ALLOWED
    if (isOneOf(verb, 'get update patch delete')) return 'resourceslices'
    if (!isOneOf(verb, 'watch list deletecollection'))
      return refuse(
        'only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection',
      )
    if (selects(attributes, 'spec.nodeName', node)) return ALLOWED
    return refuse('can only list/watch/deletecollection resourceslices with nodeName field selector')
  },
  'podcertificaterequests.certificates.k8s.io': (attributes, node) => {
    const { verb, subresource } = attributes
    if (subresource !== '') return refuse('nodes may not access the status subresource of PodCertificateRequests')
    if (verb === 'create') return ALLOWED
    if (verb === 'get') return 'podcertificaterequests'
    if (!isOneOf(verb, 'list watch')) return refuse(`nodes may not ${verb} podcertificaterequests`)
    if (selects(attributes, 'spec.nodeName', node)) return ALLOWED
    return refuse('can only list/watch podcertificaterequests with nodeName field selector')
  },
  nodes: ({ verb, subresource, name }, node) => {
    if (subresource === 'status') return isOneOf(verb, 'update patch') ? ALLOWED : NO_OPINION
    if (subresource !== '') return NO_OPINION
    if (isOneOf(verb, 'create update patch')) return ALLOWED
    if (!isOneOf(verb, READ)) return NO_OPINION
    if (name === node) return ALLOWED
    const what = name === '' ? 'all nodes' : `'${name}'`
    return refuse(`node '${node}' cannot read ${what}, only its own Node object`)
  },
  pods: (attributes, node) => {
    const { verb, subresource, name } = attributes
    if (subresource === 'status') return isOneOf(verb, 'update patch') ? ALLOWED : NO_OPINION
    if (subresource === 'eviction') return verb === 'create' ? ALLOWED : NO_OPINION
    if (subresource !== '') return NO_OPINION
    if (isOneOf(verb, 'create delete')) return ALLOWED
    if (verb === 'get') return 'pods'
    if (!isOneOf(verb, 'list watch')) return NO_OPINION
    if (selects(attributes, 'spec.nodeName', node)) return ALLOWED
    return name === '' ? refuse('can only list/watch pods with spec.nodeName field selector') : 'pods'
  },
}

/** The verbs that a node may use on the object that has its name. */
const OWN = 'get create update patch delete'

function isOneOf(verb: string, verbs: string): boolean {
  return verbs.split(' ').includes(verb)
}

function getOne(kind: NodeRelative): (attributes: Attributes) => Judged {
  return ({ verb, subresource }) => {
    if (verb !== 'get') return refuse('can only get individual resources of this type')
    return subresource === '' ? kind : refuse('cannot get subresource')
  }
}

function readOne(kind: NodeRelative): (attributes: Attributes) => Judged {
  return ({ verb, subresource, namespace }) => {
    if (!isOneOf(verb, READ)) return refuse('can only read resources of this type')
    if (subresource !== '') return refuse('cannot read subresource')
    return namespace === '' ? refuse('can only read namespaced object of this type') : kind
  }
}

/** Whether the request selects only objects with that value. */
function selects({ fieldSelector = [] }: Attributes, field: string, value: string): boolean {
  return fieldSelector.some(
    ({ key, operator, values = [] }) =>
      key === field && operator === 'In' && values.length === 1 && values[0] === value,
  )
}

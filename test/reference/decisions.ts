/**
 * Asks both servers for permissions with SubjectAccessReviews: for the subjects of Kubernetes' own bindings, for
 * bindings of every shape, and for nodes with pods, claims and secrets of their own and of other nodes.
 */
import { type Answer, type Question, type Server, tryAsk } from './ask.js'
import { eachAtOnce } from './at-once.js'
import type { Difference } from './compare.js'
import type { Served } from './discovered.js'
import type { Random } from './random.js'
import type { Report } from './report.js'
import { get, send, type World } from './world.js'

interface Caller {
  readonly user: string
  readonly groups: readonly string[]
}

interface ResourceAttributes {
  readonly verb: string
  readonly group?: string
  readonly version?: string
  readonly resource: string
  readonly subresource?: string
  readonly namespace?: string
  readonly name?: string
  readonly fieldSelector?: object
  readonly labelSelector?: object
}

type Attributes = { readonly resourceAttributes: ResourceAttributes } | { readonly nonResourceAttributes: object }

const AT_ONCE = 12
const REVIEWS = '/apis/authorization.k8s.io/v1/subjectaccessreviews'
const VERBS = [
  'get',
  'list',
  'watch',
  'create',
  'update',
  'patch',
  'delete',
  'deletecollection',
  'bind',
  'escalate',
  'impersonate',
  'use',
] as const
const PATHS = ['/healthz', '/livez/ping', '/readyz', '/version', '/version/', '/api', '/apis/apps', '/openapi/v2', '/openapi/v3/api/v1', '/metrics', '/logs', '/', '/.well-known/openid-configuration', '/openid/v1/jwks'] as const // prettier-ignore

/** Creates the objects that the decisions depend on. */
export async function fillDecisions(world: World): Promise<void> {
  for (const [path, object] of bindingObjects()) await send(world, 'POST', path, JSON.stringify(object))
  for (const [path, object] of nodeObjects()) await send(world, 'POST', path, JSON.stringify(object))
}

/** Compares `count` decisions for callers of RBAC, and `count` for nodes. */
export async function compareDecisions(
  world: World,
  report: Report,
  random: Random,
  kinds: readonly Served[],
  count: number,
): Promise<void> {
  const callers = await callersOf(world)
  const asked: [Caller, Attributes][] = []
  for (let index = 0; index < count; index++) {
    asked.push([
      random.pick(callers),
      random.chance(0.1) ? pathAttributes(random) : { resourceAttributes: attributesOf(random, kinds) },
    ])
    asked.push([nodeCaller(random), { resourceAttributes: nodeAttributes(random) }])
  }
  await eachAtOnce(asked, AT_ONCE, async ([caller, attributes]) => {
    const body = JSON.stringify({ spec: { ...caller, ...attributes } })
    const question = { method: 'POST', path: REVIEWS, headers: { accept: 'application/json' }, body }
    const [theirs, ours] = await Promise.all([decide(world.theirs, question), decide(world.ours, question)])
    report.add(question, differencesOf(theirs, ours))
  })
}

async function decide(server: Server, question: Question): Promise<Answer> {
  const headers = { ...question.headers, 'content-type': 'application/json' }
  return await tryAsk(server, { ...question, headers }, Buffer.from(question.body ?? ''))
}

function differencesOf(theirs: Answer, ours: Answer): Difference[] {
  const [a, b] = [theirs, ours].map(({ code, body }) => {
    if (code !== 201) return { decision: `${code} ${body.toString().slice(0, 200)}`, reason: '' }
    const { status } = JSON.parse(body.toString()) as {
      status: { allowed: boolean; denied?: boolean; reason?: string }
    }
    return { decision: `allowed: ${status.allowed}, denied: ${status.denied ?? false}`, reason: status.reason ?? '' }
  }) as [{ decision: string; reason: string }, { decision: string; reason: string }]
  if (a.decision !== b.decision)
    return [{ where: 'decision', theirs: `${a.decision} ${a.reason}`, ours: `${b.decision} ${b.reason}` }]
  return a.reason === b.reason ? [] : [{ where: 'reason of a decision', theirs: a.reason, ours: b.reason }]
}

interface Binding {
  readonly metadata: { readonly namespace?: string }
  readonly subjects?: readonly { readonly kind: string; readonly name: string; readonly namespace?: string }[]
}

/** Every subject of every binding, and some that have no binding. */
async function callersOf(world: World): Promise<readonly Caller[]> {
  const callers = new Map<string, Caller>()
  const authenticated = 'system:authenticated'
  for (const plural of ['clusterrolebindings', 'rolebindings']) {
    const { body } = await get(world.theirs, `/apis/rbac.authorization.k8s.io/v1/${plural}`)
    for (const { subjects = [] } of (JSON.parse(body.toString()) as { items: readonly Binding[] }).items)
      for (const { kind, name, namespace = 'default' } of subjects) {
        const account = `system:serviceaccount:${namespace}:${name}`
        const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, authenticated]
        if (kind === 'User') callers.set(name, { user: name, groups: [authenticated] })
        else if (kind === 'Group') callers.set(`group ${name}`, { user: 'somebody', groups: [name, authenticated] })
        else callers.set(account, { user: account, groups })
      }
  }
  callers.set('nobody', { user: 'nobody', groups: [authenticated] })
  callers.set('anonymous', { user: 'system:anonymous', groups: ['system:unauthenticated'] })
  callers.set('no group', { user: 'alice', groups: [] })
  return [...callers.values()]
}

function pathAttributes(random: Random): Attributes {
  return { nonResourceAttributes: { path: random.pick(PATHS), verb: random.pick(['get', 'get', 'head', 'post', '*']) } }
}

function attributesOf(random: Random, kinds: readonly Served[]): ResourceAttributes {
  const { group, version, plural, isNamespaced, subresources } = random.pick(kinds)
  const subresource = random.chance(0.25) && subresources.length > 0 ? random.pick(subresources).name : undefined
  return {
    verb: random.pick(VERBS),
    group,
    version,
    resource: random.chance(0.03) ? '*' : plural,
    ...(subresource === undefined ? {} : { subresource }),
    ...(isNamespaced && random.chance(0.8)
      ? { namespace: random.pick(['default', 'team-a', 'kube-system', 'kube-public']) }
      : {}),
    ...(random.chance(0.4)
      ? { name: random.pick(['web', 'extension-apiserver-authentication', 'kube-root-ca.crt', 'other']) }
      : {}),
  }
}

const RBAC = '/apis/rbac.authorization.k8s.io/v1'
const API = 'rbac.authorization.k8s.io'

/** Bindings of every shape. */
function bindingObjects(): [path: string, object: object][] {
  const role = (kind: string, name: string, rules: readonly object[], more: object = {}): object => ({
    apiVersion: `${API}/v1`,
    kind,
    metadata: { name, ...more },
    rules,
  })
  const binding = (kind: string, name: string, to: string, subjects: readonly object[]): object => ({
    apiVersion: `${API}/v1`,
    kind,
    metadata: { name },
    subjects,
    roleRef: { apiGroup: API, kind: to.startsWith('Role ') ? 'Role' : 'ClusterRole', name: to.replace(/^Role /, '') },
  })
  const user = (name: string): object => ({ apiGroup: API, kind: 'User', name })
  const group = (name: string): object => ({ apiGroup: API, kind: 'Group', name })
  const account = (name: string, namespace: string): object => ({ kind: 'ServiceAccount', name, namespace })
  const aggregated = {
    ...role('ClusterRole', 'judged-aggregate', []),
    aggregationRule: { clusterRoleSelectors: [{ matchLabels: { 'example.com/aggregate': 'true' } }] },
  }
  const team = `${RBAC}/namespaces/team-a`
  return [
    [`${RBAC}/clusterroles`, role('ClusterRole', 'judged-names', [
      { apiGroups: [''], resources: ['configmaps', 'secrets'], resourceNames: ['web', 'kube-root-ca.crt'], verbs: ['get', 'list', 'watch', 'update'] },
      { apiGroups: ['apps'], resources: ['deployments/scale', '*/status'], verbs: ['*'] },
      { nonResourceURLs: ['/healthz', '/openapi/*', '/logs'], verbs: ['get', 'head'] },
    ])],
    [`${RBAC}/clusterroles`, role('ClusterRole', 'judged-everything', [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }])],
    [`${RBAC}/clusterroles`, role('ClusterRole', 'judged-part', [{ apiGroups: ['batch'], resources: ['jobs'], verbs: ['get', 'list'] }], { labels: { 'example.com/aggregate': 'true' } })],
    [`${RBAC}/clusterroles`, aggregated],
    [`${team}/roles`, role('Role', 'judged-team', [{ apiGroups: ['', 'apps'], resources: ['*'], verbs: ['get', 'list', 'watch'] }, { apiGroups: ['batch'], resources: ['jobs'], verbs: ['create'] }])],
    [`${RBAC}/clusterrolebindings`, binding('ClusterRoleBinding', 'judged-names', 'judged-names', [user('alice'), group('readers')])],
    [`${RBAC}/clusterrolebindings`, binding('ClusterRoleBinding', 'judged-everything', 'judged-everything', [account('root', 'team-a')])],
    [`${RBAC}/clusterrolebindings`, binding('ClusterRoleBinding', 'judged-aggregate', 'judged-aggregate', [user('bob')])],
    [`${RBAC}/clusterrolebindings`, binding('ClusterRoleBinding', 'judged-missing', 'judged-nothing', [user('carol')])],
    [`${team}/rolebindings`, binding('RoleBinding', 'judged-team', 'Role judged-team', [user('carol'), group('system:serviceaccounts:team-a')])],
    [`${team}/rolebindings`, binding('RoleBinding', 'judged-admin', 'admin', [user('dave'), account('default', 'team-a')])],
    [`${team}/rolebindings`, binding('RoleBinding', 'judged-view', 'view', [group('viewers')])],
  ]
} // prettier-ignore

export const NODES = ['worker-1', 'worker-2'] as const
export const PLACE = 'nodes-judged'

/**
 * For each node, a pod with secrets, config maps, a claim and a service account; and one of each that no pod
 * references.
 */
function nodeObjects(): [path: string, object: object][] {
  const core = `/api/v1/namespaces/${PLACE}`
  const objects: [string, object][] = [['/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: PLACE } }]]
  const storage = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } }
  for (const name of [...NODES, 'nobody']) {
    objects.push(
      [`${core}/secrets`, { apiVersion: 'v1', kind: 'Secret', metadata: { name } }],
      [`${core}/secrets`, { apiVersion: 'v1', kind: 'Secret', metadata: { name: `${name}-env` } }],
      [`${core}/configmaps`, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } }],
      [`${core}/serviceaccounts`, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name } }],
      [`${core}/persistentvolumeclaims`, { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name }, spec: { ...storage, volumeName: name } }],
      ['/api/v1/persistentvolumes', { apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name }, spec: { accessModes: storage.accessModes, capacity: storage.resources.requests, claimRef: { name, namespace: PLACE }, csi: { driver: 'example.com', volumeHandle: name, nodePublishSecretRef: { name: `${name}-env`, namespace: PLACE }, nodeStageSecretRef: { name: `${name}-stage`, namespace: PLACE }, controllerPublishSecretRef: { name: `${name}-publish`, namespace: PLACE } } } }],
    )
  }
  for (const name of NODES) {
    objects.push(
      ['/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name } }],
      [`${core}/pods`, { apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec: {
        nodeName: name, serviceAccountName: name, imagePullSecrets: [{ name }],
        containers: [{ name: 'main', image: 'example', envFrom: [{ configMapRef: { name } }], env: [{ name: 'A', valueFrom: { secretKeyRef: { name: `${name}-env-1`, key: 'a' } } }, { name: 'B', valueFrom: { configMapKeyRef: { name: `${name}-env-2`, key: 'b' } } }] }],
        initContainers: [{ name: 'first', image: 'example', envFrom: [{ secretRef: { name: `${name}-init` } }] }],
        volumes: [
          { name: 'data', persistentVolumeClaim: { claimName: name } },
          { name: 'scratch', ephemeral: { volumeClaimTemplate: { spec: storage } } },
          { name: 'keys', secret: { secretName: `${name}-volume` } },
          { name: 'all', projected: { sources: [{ secret: { name: `${name}-projected` } }, { configMap: { name: `${name}-projected` } }] } },
          { name: 'driver', csi: { driver: 'example.com', nodePublishSecretRef: { name: `${name}-csi` } } },
        ],
        resourceClaims: [{ name: 'device', resourceClaimName: name }],
      } }],
      [`${core}/pods`, { apiVersion: 'v1', kind: 'Pod', metadata: { name: `${name}-mirror`, annotations: { 'kubernetes.io/config.mirror': 'x' } }, spec: {
        nodeName: name, containers: [{ name: 'main', image: 'example' }],
      } }],
      [`${core}/pods`, { apiVersion: 'v1', kind: 'Pod', metadata: { name: `${name}-waiting` }, spec: {
        containers: [{ name: 'main', image: 'example', envFrom: [{ secretRef: { name: `${name}-waiting` } }] }],
      } }],
      ['/apis/storage.k8s.io/v1/volumeattachments', { apiVersion: 'storage.k8s.io/v1', kind: 'VolumeAttachment', metadata: { name }, spec: { attacher: 'example.com', nodeName: name, source: { persistentVolumeName: name } } }],
      ['/apis/resource.k8s.io/v1/resourceslices', { apiVersion: 'resource.k8s.io/v1', kind: 'ResourceSlice', metadata: { name }, spec: { driver: 'example.com', nodeName: name, pool: { name, generation: 1, resourceSliceCount: 1 } } }],
    )
  }
  return objects
} // prettier-ignore

function nodeCaller(random: Random): Caller {
  const groups = ['system:nodes', 'system:authenticated']
  if (random.chance(0.03)) return { user: `system:node:${NODES[0]}`, groups: ['system:authenticated'] }
  return { user: `system:node:${random.pick([...NODES, ...NODES, 'unknown'])}`, groups }
}

const OF_NODES: readonly (readonly [group: string, resource: string, isNamespaced: boolean, subresources?: readonly string[]])[] = [
  ['', 'secrets', true], ['', 'secrets', true], ['', 'configmaps', true], ['', 'configmaps', true], ['', 'persistentvolumeclaims', true, ['status']],
  ['', 'persistentvolumes', false], ['', 'pods', true, ['status', 'eviction', 'log']], ['', 'pods', true, ['status', 'eviction', 'binding']], ['', 'nodes', false, ['status', 'proxy']],
  ['', 'serviceaccounts', true, ['token']], ['', 'services', true], ['', 'events', true], ['', 'endpoints', true], ['', 'namespaces', false],
  ['coordination.k8s.io', 'leases', true], ['storage.k8s.io', 'csinodes', false], ['storage.k8s.io', 'csidrivers', false], ['storage.k8s.io', 'volumeattachments', false],
  ['node.k8s.io', 'runtimeclasses', false], ['resource.k8s.io', 'resourceslices', false], ['resource.k8s.io', 'resourceclaims', true, ['status']],
  ['certificates.k8s.io', 'certificatesigningrequests', false], ['certificates.k8s.io', 'clustertrustbundles', false], ['certificates.k8s.io', 'podcertificaterequests', true],
  ['authentication.k8s.io', 'tokenreviews', false], ['authorization.k8s.io', 'subjectaccessreviews', false], ['apps', 'deployments', true],
] // prettier-ignore

/** Requests about objects that pods name, or only seem to name. */
const SUFFIXES = ['env-1', 'env-2', 'init', 'volume', 'projected', 'csi', 'scratch', 'stage', 'publish', 'mirror', 'waiting'] // prettier-ignore

function nodeAttributes(random: Random): ResourceAttributes {
  const [group, resource, isNamespaced, subresources = []] = random.pick(OF_NODES)
  const verb = random.pick(['get', 'get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection'])
  const subresource = random.chance(0.3) && subresources.length > 0 ? random.pick(subresources) : undefined
  const node = random.pick([...NODES, 'nobody'])
  const place = resource === 'leases' ? random.pick(['kube-node-lease', PLACE]) : PLACE
  const selector = (key: string): object => {
    if (random.chance(0.3))
      return { rawSelector: random.pick([`${key}=${node}`, `${key}!=${node}`, `a=b,${key}==${node}`, key]) }
    const operator = random.pick(['In', 'In', 'In', 'NotIn', 'Exists'])
    if (operator === 'Exists') return { requirements: [{ key, operator }] }
    return { requirements: [{ key, operator, values: random.chance(0.1) ? [node, 'other'] : [node] }] }
  }
  const isMany = /^(list|watch|deletecollection)$/.test(verb)
  return {
    verb,
    group,
    version: 'v1',
    resource,
    ...(subresource === undefined ? {} : { subresource }),
    ...(isNamespaced && random.chance(isMany ? 0.4 : 0.95) ? { namespace: place } : {}),
    ...(random.chance(isMany ? 0.4 : 0.9)
      ? { name: random.pick([node, node, `${node}-env`, `${node}-${random.pick(SUFFIXES)}`]) }
      : {}),
    ...(isMany && random.chance(0.6)
      ? { fieldSelector: selector(random.pick(['spec.nodeName', 'spec.nodeName', 'metadata.name'])) }
      : {}),
    ...(isMany && random.chance(0.2) ? { labelSelector: { rawSelector: `node in (${node}),!other` } } : {}),
  }
}

/** Relations between options: the defaults that follow from other options, and the rules about combinations. */
import { isIP } from 'node:net'

import { resourceId } from '../../kubernetes/model/api-resource.js'
import { mayBeCustom } from '../../kubernetes/dialect/declared-resource.js'
import type { ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import { formatStripRules, isAnnotation } from '../../kubernetes/dialect/stripped-fields.js'
import { MAX_STRIP_LENGTH } from '../../kubernetes/model/limits.js'
import { wellKnownResources } from '../../kubernetes/dialect/well-known-resources.js'
import { nearestName } from '../../support/nearest-name.js'
import { formatDuration } from './option.js'
import { type GapPolicy, isIssuerUrl } from './options/values.js'
import { options, type OptionName, type OptionValues } from './options.js'

/** The values with every default filled in. */
export interface Completed extends Omit<OptionValues, 'port' | 'securePort' | 'enableWrites' | 'onGap'> {
  /** null means no plain HTTP. */
  readonly port: number | null
  /** null means no TLS. */
  readonly securePort: number | null
  readonly enableWrites: boolean
  readonly onGap: GapPolicy
  /** Whether the in-process store is served, because no upstream was named. */
  readonly embedded: boolean
}

export function complete(values: OptionValues): Completed {
  const embedded = values.etcdServers.length === 0 && values.natsServers.length === 0 && values.upstream === null
  const tls = values.tlsCertFile !== null
  return {
    ...values,
    embedded,
    enableWrites: values.enableWrites ?? (embedded && values.passthrough === null),
    onGap: values.onGap ?? (values.upstream === null ? 'expire' : 'coalesce'),
    port: values.port === undefined ? (tls ? null : 8_001) : values.port,
    securePort: tls ? values.securePort : null,
  }
}

/** 127.0.0.0/8 and ::1. */
export function isLoopback(address: string): boolean {
  return isIP(address) === 4 ? address.startsWith('127.') : address === '::1' || address === '0:0:0:0:0:0:0:1'
}

/**
 * The options that authenticate callers, in no particular order. Anonymous access is not among them, because it
 * identifies no one.
 */
export const AUTHENTICATORS = [
  'clientCaFile',
  'tokenAuthFile',
  'oidcIssuerUrl',
  'serviceAccountIssuer',
  'authenticationKubeconfig',
  'requestheaderClientCaFile',
] as const satisfies readonly OptionName[]

type AuthenticatorValues = Pick<Completed, (typeof AUTHENTICATORS)[number]>

/** Returns the authenticators that are configured. */
export function authenticatorsOf(config: AuthenticatorValues): readonly (typeof AUTHENTICATORS)[number][] {
  return AUTHENTICATORS.filter((name) => config[name] !== null && config[name].length > 0)
}

/** Whether callers are authenticated at all. */
export function hasAuthenticator(config: AuthenticatorValues): boolean {
  return authenticatorsOf(config).length > 0
}

/** Returns the number of processes of a server. With workers, the primary is an additional process. */
export function processesOf(workers: number): number {
  return workers > 1 ? workers + 1 : 1
}

/** The other options on which each of the defaults in `complete` depends. */
const FOLLOWS_FROM: Partial<Readonly<Record<OptionName, readonly OptionName[]>>> = {
  enableWrites: ['etcdServers', 'natsServers', 'upstream', 'passthrough'],
  port: ['tlsCertFile'],
  securePort: ['tlsCertFile'],
  onGap: ['upstream'],
}

type Test = (name: OptionName) => boolean

/** The subject of the rules: the values, and the resources that they name. */
export interface Subject extends Completed {
  /** Whether an option has a value other than its default. */
  readonly isGiven: Test
  /** The resources that are served at the start, with the declared ones. */
  readonly resources: readonly ServedResource[]
  readonly leftOut: readonly string[]
  /** Whether every declaration of a resource was understood. */
  readonly isDeclaredWell: boolean
}

/** Something that holds for a configuration or not, and the options that decide it. */
interface Condition {
  readonly reads: readonly OptionName[]
  /** How a message calls it. */
  readonly name: string
  holds(this: void, c: Subject): boolean
}

/** An option stands for the condition that it is set: to neither false, nor nothing, nor an empty list. */
type Term = OptionName | Condition

type Message = string | readonly string[] | null
type Says = string | ((c: Subject) => Message)

/** Where all of `when` hold, at least one of `needs` must, and none of `excludes` may. */
interface Rule {
  readonly when: readonly Term[]
  readonly needs?: readonly Term[]
  readonly excludes?: readonly Term[]
  /** Further options on which the message depends. */
  readonly reads?: readonly OptionName[]
  /** The message, or a function that looks closer and returns null where nothing is wrong. */
  readonly says: Says
}

const listed = <T>(terms: T | readonly T[]): readonly T[] => (Array.isArray(terms) ? terms : [terms]) as readonly T[]
const reason = (why: string): string => (why === '' ? '' : `: ${why}`)

function needs(when: Term | readonly Term[], needed: Term | readonly Term[], why = ''): Rule {
  const says = `${nameOf(listed(when)[0]!)} needs ${listed(needed).map(nameOf).join(' or ')}${reason(why)}`
  return { when: listed(when), needs: listed(needed), says }
}

function excludes(when: Term | readonly Term[], excluded: Term, why: string): Rule {
  const says = `${nameOf(listed(when)[0]!)} and ${nameOf(excluded)} cannot be combined${reason(why)}`
  return { when: listed(when), excludes: [excluded], says }
}

/** @param reads what the function reads besides the options in `when`. */
const check = (when: Term | readonly Term[], says: Says, ...reads: OptionName[]): Rule => ({
  when: listed(when),
  reads,
  says,
})

const where = (name: string, reads: readonly OptionName[], holds: Condition['holds']): Condition => ({
  reads,
  name,
  holds,
})
const is = (option: OptionName, value: string): Condition =>
  where(`${options[option].flag}=${value}`, [option], (c) =>
    Array.isArray(c[option]) ? c[option].includes(value as never) : c[option] === value,
  )
const not = (term: Term): Condition => where('', readsOf(term), (c) => !holds(term, c))
const anyOf = (name: string, ...terms: Term[]): Condition =>
  where(name, terms.flatMap(readsOf), (c) => terms.some((one) => holds(one, c)))

function readsOf(term: Term): readonly OptionName[] {
  return typeof term === 'string' ? [term, ...(FOLLOWS_FROM[term] ?? [])] : term.reads
}

function holds(term: Term, c: Subject): boolean {
  if (typeof term !== 'string') return term.holds(c)
  const value = c[term]
  return value !== null && value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0)
}

/**
 * Returns what is wrong with the combination, one sentence for each broken rule. A rule that reads a value that was
 * already reported as wrong reports nothing, so that each mistake is reported once.
 */
export function conflictsIn(c: Subject, isWrong: Test): readonly string[] {
  return RULES.flatMap(({ when, needs: needed, excludes: excluded, reads = [], says }) => {
    const terms = [...when, ...(needed ?? []), ...(excluded ?? []), ...reads]
    if (terms.flatMap(readsOf).some(isWrong) || !when.every((term) => holds(term, c))) return []
    const isKept = needed?.some((term) => holds(term, c)) ?? excluded?.every((term) => !holds(term, c)) ?? false
    if (isKept) return []
    return (typeof says === 'function' ? says(c) : says) ?? []
  })
}

const nameOf = (term: Term): string => (typeof term === 'string' ? options[term].flag : term.name)

/** A process with less memory would reject everything. */
const MIN_PROCESS_BYTES = 128 * 1024 * 1024

const PAIRS = [
  ['proxyClientCertFile', 'proxyClientKeyFile'],
  ['etcdCertfile', 'etcdKeyfile'],
  ['etcdUsername', 'etcdPasswordFile'],
  ['natsUsername', 'natsPasswordFile'],
  ['natsCertfile', 'natsKeyfile'],
  ['tlsCertFile', 'tlsPrivateKeyFile'],
  ['oidcIssuerUrl', 'oidcClientId'],
  ['rebalance', 'podUid'],
  [is('authorizationMode', 'Policy'), 'authorizationPolicyFile'],
  [is('authorizationMode', 'Webhook'), 'authorizationKubeconfig'],
] as const

const EDGE = is('natsRole', 'edge')
const NO_KUBERNETES = is('kubernetesResources', 'never')
const RBAC = is('authorizationMode', 'RBAC')
const NODE = is('authorizationMode', 'Node')
const AUTHENTICATED = anyOf('an authenticator', ...AUTHENTICATORS)
const CLIENT_CAS = anyOf(
  '--client-ca-file or --requestheader-client-ca-file',
  'clientCaFile',
  'requestheaderClientCaFile',
)
const ETCD_TLS = anyOf('--etcd-cafile or --etcd-certfile', 'etcdCafile', 'etcdCertfile')
const BEYOND_LOOPBACK = where('', ['bindAddress'], (c) => !isLoopback(c.bindAddress))
const NO_AUTHORIZATION = where('', ['authorizationMode'], (c) => !c.isGiven('authorizationMode'))
const SECURE_PORT = where('--secure-port', ['securePort'], (c) => c.isGiven('securePort'))
const WORKERS = where('--workers above 1', ['workers'], (c) => c.workers > 1)
const DECLARED = where('--resource NAME=/prefix/', ['resource'], (c) =>
  c.resources.some(({ origin }) => origin === 'declared'),
)
const UNCACHED = where(
  '--watch-cache=false (or a size of 0)',
  ['watchCache', 'watchCacheSizes'],
  (c) => !c.watchCache || c.watchCacheSizes.some(({ batches }) => batches === 0),
)
const STRIPPED_ANNOTATIONS = where('an annotation in strip', ['strip'], (c) =>
  c.strip.some(({ paths }) => paths.some(isAnnotation)),
)
const GOAWAY = where('--goaway-chance', ['goawayChance'], (c) => c.goawayChance > 0)
const IN_PROCESS = where('the in-process store', ['etcdServers', 'natsServers', 'upstream'], (c) => c.embedded)
const isPlain = (server: string): boolean => !server.startsWith('https:')
/** The resources against which writes are checked. */
const CHECKED_BY_WRITES: ReadonlySet<string> = new Set(['namespaces', 'poddisruptionbudgets.policy'])

const RULES: readonly Rule[] = [
  ...PAIRS.flatMap(([one, other]): readonly Rule[] => {
    const says = `${nameOf(one)} and ${nameOf(other)} must be given together`
    return [
      { when: [one], needs: [other], says },
      { when: [other], needs: [one], says },
    ]
  }),

  // Where the data comes from.
  excludes('upstream', 'etcdServers', 'an upstream is the only source'),
  excludes(['upstream', not('etcdServers')], 'natsServers', 'an upstream is the only source'),
  needs('kubeconfig', 'upstream'),
  excludes(is('upstream', 'in-cluster'), 'kubeconfig', "the pod's service account is used"),
  needs('requireUpstream', ['etcdServers', 'natsServers', 'upstream']),
  check(ETCD_TLS, tlsForPlainEtcd, 'etcdServers', 'etcdServersOverrides'),
  needs('etcdServersOverrides', 'etcdServers'),
  excludes(['etcdServersOverrides', 'etcdServers'], 'natsServers', 'a fleet reads one etcd'),
  excludes(['etcdServersOverrides', 'etcdServers'], 'enableWrites', 'all writes go to one etcd'),
  excludes(['etcdServersOverrides', 'etcdServers'], NO_KUBERNETES, 'it names resources of Kubernetes'),
  needs('encryptionProviderConfig', ['etcdServers', 'natsServers'], 'it decrypts what is stored in etcd'),
  excludes([EDGE, 'natsServers', not('upstream')], 'etcdServers', 'an edge never reads etcd'),
  needs([is('natsRole', 'auto'), 'natsServers', not('upstream')], ['etcdServers', EDGE]),
  needs(EDGE, 'natsServers'),
  needs('natsSigningKeyFile', 'natsServers'),

  // Served resources and their forms.
  excludes(UNCACHED, WORKERS, 'every worker would read etcd'),
  excludes([UNCACHED, 'natsServers'], EDGE, 'without a cache, reads go to etcd'),
  needs([NO_KUBERNETES, not('upstream')], DECLARED, 'nothing else is left to serve'),
  excludes(DECLARED, 'upstream', 'declare the prefix on the upstream server'),
  check('publicCaching', (c) => unserved(c, 'publicCaching', []), 'upstream', 'kubernetesResources'),
  check('onGapOverrides', (c) => unserved(c, 'onGapOverrides', builtIn()), 'upstream', 'kubernetesResources'),
  check('watchCacheSizes', (c) => unserved(c, 'watchCacheSizes', builtIn()), 'upstream', 'kubernetesResources'),
  check('strip', (c) => unserved(c, 'strip', [...builtIn(), '*']), 'upstream', 'kubernetesResources'),
  check('strip', strippedTooLong),
  needs(STRIPPED_ANNOTATIONS, 'stripAnnotations', 'clients that write back what they read here delete the annotation'),
  check(['strip', 'etcdApi'], strippedFromEtcdApi, 'resource'),
  excludes(STRIPPED_ANNOTATIONS, 'enableWrites', 'writing back an object would delete the annotation'),
  excludes(STRIPPED_ANNOTATIONS, 'passthrough', 'writing back an object would delete the annotation'),
  check('ofrep', noFlags),
  needs('etcdApi', 'etcdServers', "it is in front of etcd's own API"),
  excludes('etcdApi', WORKERS, 'workers do not serve it'),
  excludes(['etcdApi', 'etcdServers'], 'natsServers', 'a fleet does not serve it'),
  excludes('etcdApi', UNCACHED, 'it reads the caches'),
  excludes(
    'etcdApi',
    is('onGap', 'coalesce'),
    'every event is owed to a client of etcd, so its watches end after a gap',
  ),
  needs('etcdApiAdvertiseUrl', 'etcdApi'),
  check('etcdApi', noEtcdPrefixes),
  needs(['publicCaching', AUTHENTICATED], 'anonymousAuth', 'else requests without credentials are refused'),
  check('publicCaching', cachedTooLong, 'watchCacheAge'),
  check(
    where('', ['watchCacheAge', 'bookmarkInterval'], (c) => c.watchCacheAge < 2 * c.bookmarkInterval),
    (c) =>
      `--watch-cache-age (${formatDuration(c.watchCacheAge)}) must be at least twice --bookmark-interval (${formatDuration(c.bookmarkInterval)}), or an idle client cannot resume`,
  ),
  check(
    [],
    (c) =>
      c.shutdownWatchTerminationGracePeriod > c.shutdownGracePeriod
        ? '--shutdown-watch-termination-grace-period must fit in --shutdown-grace-period'
        : null,
    'shutdownWatchTerminationGracePeriod',
    'shutdownGracePeriod',
  ),
  check('memoryTarget', tooLittleMemory, 'workers', 'listCacheBytes', 'watchCacheBytes'),

  // Writes, and what is passed on.
  excludes('enableWrites', 'upstream', 'writing needs etcd; --passthrough forwards writes'),
  excludes(['enableWrites', not('upstream')], 'passthrough', 'either this server or the API server writes'),
  needs(['enableWrites', 'natsServers'], 'etcdServers'),
  check('enableWrites', leftOutOfWrites, 'resource'),
  needs('passthroughCafile', [
    'apiservice',
    where('an https --passthrough', ['passthrough'], (c) => c.passthrough?.startsWith('https:') === true),
  ]),
  excludes('apiservice', 'passthrough', 'the API server behind --passthrough has its own aggregated APIs'),
  check('apiservice', (c) =>
    repeated(
      '--apiservice',
      c.apiservice.map(({ group, version }) => `${group}/${version}`),
    ),
  ),

  // Addresses and TLS. In place of a secure port that was meant, a plain one would be worse than none.
  needs([SECURE_PORT, not('tlsPrivateKeyFile')], 'tlsCertFile', 'the port needs a certificate and its key'),
  needs(CLIENT_CAS, 'tlsCertFile'),
  check([not('port'), not('securePort')], 'nothing to listen on: set --port or --tls-cert-file'),
  check(['port', 'securePort'], ({ port, securePort }) =>
    port !== 0 && port === securePort ? `--port and --secure-port are both ${port}` : null,
  ),
  excludes(GOAWAY, IN_PROCESS, 'clients of a single server have nowhere else to go'),
  excludes('rebalance', IN_PROCESS, 'clients of a single server have nowhere else to go'),
  check('rebalance', unseenEndpoints, 'upstream', 'resource', 'kubernetesResources', 'watchCache', 'watchCacheSizes'),
  check('metricsBindAddress', samePort, 'port', 'securePort'),
  check(
    ['port', BEYOND_LOOPBACK, not('insecureBindAny')],
    (c) =>
      `plain HTTP on ${c.bindAddress}: beyond loopback set --tls-cert-file and leave --port off, or set --insecure-bind-any`,
  ),
  check(
    ['securePort', BEYOND_LOOPBACK, not('insecureBindAny'), not(AUTHENTICATED)],
    (c) =>
      `nothing authenticates callers on ${c.bindAddress}: set --client-ca-file, --token-auth-file, --oidc-issuer-url, --service-account-issuer or --authentication-kubeconfig, or --insecure-bind-any`,
  ),

  // Who the caller is, and what they may do.
  needs('ticketKeyFile', AUTHENTICATED),
  check(['oidcIssuerUrl', 'serviceAccountIssuer'], (c) =>
    c.serviceAccountIssuer.some((issuer) => issuer === c.oidcIssuerUrl)
      ? '--oidc-issuer-url and --service-account-issuer name the same issuer: remove --oidc-issuer-url'
      : null,
  ),
  check(
    is('serviceAccountIssuer', 'kubernetes/serviceaccount'),
    '--service-account-issuer cannot be kubernetes/serviceaccount: tokens from Secrets can only be reviewed by an API server; set --authentication-kubeconfig',
  ),
  needs('serviceAccountKeyFile', 'serviceAccountIssuer'),
  check(['serviceAccountIssuer', not('serviceAccountKeyFile'), not('authenticationKubeconfig')], (c) =>
    c.serviceAccountIssuer.every(isIssuerUrl)
      ? null
      : '--service-account-issuer must be an https URL without user, password, query or fragment, because the server fetches the keys from it: otherwise set --service-account-key-file or --authentication-kubeconfig',
  ),
  needs('apiAudiences', ['serviceAccountIssuer', 'authenticationKubeconfig']),
  check(not('authorizationMode'), '--authorization-mode is empty, so every request would be refused'),
  check('authorizationMode', (c) => repeated('--authorization-mode', c.authorizationMode)),
  excludes(RBAC, NO_KUBERNETES, 'it reads Roles and bindings'),
  excludes(RBAC, 'upstream', 'it reads Roles and bindings from etcd; use Webhook, which asks an API server'),
  excludes(NODE, NO_KUBERNETES, 'it reads pods'),
  excludes(NODE, 'enableWrites', 'nodes may create pods, and only an API server restricts which'),
  check(NO_AUTHORIZATION, withoutAuthorization, ...AUTHENTICATORS, 'passthrough', 'apiservice'),
]

const builtIn = (): readonly string[] => wellKnownResources().map(({ resource }) => resourceId(resource))

function tlsForPlainEtcd({ etcdServers, etcdServersOverrides }: Subject): Message {
  const plain = etcdServers.some(isPlain)
    ? '--etcd-servers'
    : etcdServersOverrides.some(({ servers }) => servers.some(isPlain))
      ? '--etcd-servers-overrides'
      : null
  return plain && `--etcd-cafile and --etcd-certfile need https for every endpoint of ${plain}`
}

function cachedTooLong({ publicCaching, watchCacheAge }: Subject): Message {
  const late = publicCaching.find((one) => (one.maxAgeSeconds + one.staleSeconds) * 1_000 >= watchCacheAge)
  if (late === undefined) return null
  return `--public-caching lets caches keep ${late.resource} longer than --watch-cache-age (${formatDuration(watchCacheAge)}): nobody could start a watch from such a copy`
}

function strippedTooLong({ strip }: Subject): Message {
  const { length } = formatStripRules(strip)
  if (length <= MAX_STRIP_LENGTH) return null
  return `strip is ${length} characters long, at most ${MAX_STRIP_LENGTH} are allowed, because responses repeat it in a header: use *=metadata.managedFields`
}

function strippedFromEtcdApi({ strip, etcdApi, resources }: Subject): Message {
  const ids = resources
    .map(({ resource }) => resource)
    .filter(({ plural, holds }) => holds === 'values' && etcdApi.includes(plural))
    .map(resourceId)
  const both = strip.find(({ resource }) => ids.includes(resource))
  return both === undefined
    ? null
    : `strip names ${both.resource}, which --etcd-api serves: clients of etcd read whole values`
}

/** With an upstream, only its discovery shows what is served. */
function unseenEndpoints({ resources, upstream, watchCache, watchCacheSizes }: Subject): Message {
  const id = 'endpointslices.discovery.k8s.io'
  if (upstream === null && !resources.some(({ resource }) => resourceId(resource) === id)) {
    return `--rebalance needs ${id}, which is not served: do not leave it out with --resource or --kubernetes-resources`
  }
  const named = watchCacheSizes.find(({ resource }) => resource === id)
  const isCached = named === undefined ? watchCache : named.batches > 0
  return isCached ? null : `--rebalance needs ${id} in the cache: do not turn that cache off`
}

function noFlags({ ofrep, resources, isDeclaredWell }: Subject): Message {
  if (!isDeclaredWell || flagsResource(ofrep!, resources) !== undefined) return null
  return `--ofrep: ${ofrep} is not a prefix of values without namespaces: declare it as --resource ${ofrep}=/prefix/`
}

function noEtcdPrefixes({ etcdApi, resources, isDeclaredWell }: Subject): Message {
  if (!isDeclaredWell) return null
  return [...new Set(etcdApi)]
    .filter((name) => flagsResource(name, resources) === undefined)
    .map(
      (name) =>
        `--etcd-api: ${name} is not a prefix of values without namespaces: declare it as --resource ${name}=/prefix/`,
    )
}

/** Returns the declared prefix of this name, if each of its values is one object without a namespace. */
export function flagsResource(name: string, resources: readonly ServedResource[]): ServedResource | undefined {
  return resources.find(
    ({ resource }) => resource.plural === name && resource.holds === 'values' && !resource.namespaced,
  )
}

function tooLittleMemory({ memoryTarget, workers, listCacheBytes, watchCacheBytes }: Subject): Message {
  const processes = processesOf(workers)
  if (memoryTarget! / processes < MIN_PROCESS_BYTES) {
    return `--memory-target is shared among ${processes} processes with --workers=${workers}: each needs 128MiB`
  }
  if (listCacheBytes + watchCacheBytes <= memoryTarget!) return null
  return '--memory-target is less than listCacheBytes and --watch-cache-bytes together'
}

function leftOutOfWrites({ leftOut }: Subject): Message {
  const missing = leftOut.filter((id) => CHECKED_BY_WRITES.has(id))
  if (missing.length === 0) return null
  return `--enable-writes needs ${missing.join(', ')}: do not leave out these resources with --resource`
}

function repeated(flag: string, names: readonly string[]): Message {
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  return twice === undefined ? null : `${flag} names ${twice} twice`
}

function samePort({ metricsBindAddress, port, securePort }: Subject): Message {
  const own = metricsBindAddress!.port
  const twin = own === port ? '--port' : own === securePort ? '--secure-port' : null
  return own === 0 || twin === null ? null : `--metrics-bind-address and ${twin} both use port ${own}`
}

/**
 * An operator who authenticates callers, or has an API server that authorizes them, expects reads here to be authorized
 * too.
 */
function withoutAuthorization(c: Subject): Message {
  const name = [...AUTHENTICATORS, 'passthrough' as const, 'apiservice' as const].find((one) => holds(one, c))
  if (name === undefined) return null
  return `${options[name].flag} needs --authorization-mode: RBAC, Webhook or Policy decide who may read what; with AlwaysAllow, the default, every caller may read everything served here`
}

/**
 * Returns a problem for each resource that an option names although it is not served. Otherwise the option would
 * silently have no effect.
 *
 * @param known resources that are not a mistake, even if they are not served.
 */
function unserved(
  c: Subject,
  option: 'publicCaching' | 'watchCacheSizes' | 'strip' | 'onGapOverrides',
  known: readonly string[],
): Message {
  // A wrong declaration would otherwise be reported twice.
  if (!c.isDeclaredWell) return null
  const isOnlyDeclared = c.kubernetesResources === 'never' && c.upstream === null
  const mayAppear = (id: string): boolean =>
    c.upstream !== null || (!isOnlyDeclared && !c.leftOut.includes(id) && mayBeCustom(id))
  const ids = c.resources.map(({ resource }) => resourceId(resource))
  return c[option]
    .filter(({ resource }) => !ids.includes(resource) && !known.includes(resource) && !mayAppear(resource))
    .map(({ resource }) => {
      const nearest = ids.find((id) => id.startsWith(`${resource}.`)) ?? nearestName(resource, ids)
      const advice = nearest === null ? '' : `; did you mean ${nearest}?`
      return `${options[option].flag}: ${resource} is not served${advice}`
    })
}

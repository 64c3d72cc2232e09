/** Relations between options: the defaults that follow from other options, and the rules about combinations. */
import { isIP } from 'node:net'

import { formatDuration } from './option.js'
import { isIssuerUrl } from './options/values.js'
import { options, type OptionName, type OptionValues } from './options.js'

/** The values with every default filled in. */
export interface Completed extends Omit<OptionValues, 'port' | 'securePort' | 'enableWrites'> {
  /** null means no plain HTTP. */
  readonly port: number | null
  /** null means no TLS. */
  readonly securePort: number | null
  readonly enableWrites: boolean
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
const FOLLOWS_FROM: Partial<Readonly<Record<keyof Completed, readonly OptionName[]>>> = {
  embedded: ['etcdServers', 'natsServers', 'upstream'],
  enableWrites: ['etcdServers', 'natsServers', 'upstream', 'passthrough'],
  port: ['tlsCertFile'],
  securePort: ['tlsCertFile'],
}

type Test = (name: OptionName) => boolean

/** @param isGiven whether an option has a value other than its default. */
type Rule = (config: Completed, isGiven: Test) => string | null

/**
 * Returns what is wrong with the combination, one sentence for each broken rule. A rule that reads a value that was
 * already reported as wrong reports nothing, so that each mistake is reported once.
 */
export function conflictsIn(config: Completed, isGiven: Test, isWrong: Test): readonly string[] {
  return RULES.flatMap((rule) => {
    let readsWrong = false
    const read = new Proxy(config, {
      get: (values, name: OptionName) => {
        readsWrong ||= isWrong(name) || FOLLOWS_FROM[name]?.some(isWrong) === true
        return values[name]
      },
    })
    const problem = rule(read, isGiven)
    return problem === null || readsWrong ? [] : [problem]
  })
}

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
] as const satisfies readonly (readonly OptionName[])[]

const RULES: readonly Rule[] = [
  ...PAIRS.map(([one, other]): Rule => (c) => {
    const has = (name: typeof one | typeof other): boolean => c[name] !== null && c[name].length > 0
    return has(one) === has(other) ? null : `${options[one].flag} and ${options[other].flag} must be given together`
  }),
  (c) =>
    c.memoryTarget === null || c.memoryTarget / processesOf(c.workers) >= MIN_PROCESS_BYTES
      ? null
      : `--memory-target is shared among ${processesOf(c.workers)} processes with --workers=${c.workers}: each needs 128MiB`,
  (c) =>
    c.upstream !== null && (c.etcdServers.length > 0 || c.natsServers.length > 0)
      ? '--upstream is the only source: remove --etcd-servers and --nats-servers'
      : null,
  (c) => {
    if (c.etcdServersOverrides.length === 0) return null
    if (c.etcdServers.length === 0) return '--etcd-servers-overrides needs --etcd-servers'
    if (c.natsServers.length > 0)
      return '--etcd-servers-overrides and --nats-servers cannot be combined: a fleet reads one etcd'
    if (c.enableWrites)
      return '--etcd-servers-overrides and --enable-writes cannot be combined: all writes go to one etcd'
    return c.kubernetesResources === 'never'
      ? '--etcd-servers-overrides names resources of Kubernetes, which --kubernetes-resources=never leaves out'
      : null
  },
  (c) =>
    c.encryptionProviderConfig !== null && c.etcdServers.length === 0 && c.natsServers.length === 0
      ? '--encryption-provider-config decrypts what is stored in etcd: it needs --etcd-servers or --nats-servers'
      : null,
  (c) => {
    const isDirect = !c.watchCache || c.watchCacheSizes.some(({ batches }) => batches === 0)
    if (isDirect && c.workers > 1)
      return 'resources without a cache (--watch-cache=false, a size of 0) need --workers=1'
    if (isDirect && c.natsServers.length > 0 && c.natsRole === 'edge') {
      return 'resources without a cache (--watch-cache=false, a size of 0) are read from etcd, but a replica with --nats-role=edge never reads etcd'
    }
    return null
  },
  (c) =>
    !c.enableWrites || (c.passthrough === null && c.upstream === null)
      ? null
      : c.upstream === null
        ? '--enable-writes and --passthrough cannot be combined: either this server or the API server writes'
        : '--enable-writes needs etcd: with --upstream, use --passthrough to forward writes',
  (c) =>
    c.passthroughCafile !== null && c.passthrough?.startsWith('https:') !== true && c.apiservice.length === 0
      ? '--passthrough-cafile needs --apiservice or an https --passthrough URL'
      : null,
  (c) =>
    c.passthrough !== null && c.apiservice.length > 0
      ? '--apiservice and --passthrough cannot be combined: the API server behind --passthrough has its own aggregated APIs'
      : null,
  (c) => {
    const names = c.apiservice.map(({ group, version }) => `${group}/${version}`)
    const twice = names.find((name, at) => names.indexOf(name) !== at)
    return twice === undefined ? null : `--apiservice names ${twice} twice`
  },
  (c) => (c.kubeconfig !== null && c.upstream === null ? '--kubeconfig needs --upstream' : null),
  (c) =>
    c.requireUpstream && c.embedded
      ? '--require-upstream is set without an upstream: set --etcd-servers or --upstream'
      : null,
  (c) => {
    if (c.etcdCafile === null && c.etcdCertfile === null) return null
    const isPlain = (server: string): boolean => server.startsWith('http:')
    const plain = c.etcdServers.some(isPlain)
      ? '--etcd-servers'
      : c.etcdServersOverrides.some(({ servers }) => servers.some(isPlain))
        ? '--etcd-servers-overrides'
        : null
    return plain && `--etcd-cafile and --etcd-certfile need https for every endpoint of ${plain}`
  },
  (c) =>
    c.upstream !== null || c.natsServers.length === 0 || (c.natsRole === 'edge') === (c.etcdServers.length === 0)
      ? null
      : c.natsRole === 'edge'
        ? '--nats-role=edge never reads etcd: remove --etcd-servers'
        : `--nats-role=${c.natsRole} reads etcd: set --etcd-servers, or use --nats-role=edge`,
  (c) =>
    c.natsServers.length === 0 && c.natsRole !== 'auto' ? `--nats-role=${c.natsRole} needs --nats-servers` : null,
  (c) =>
    c.enableWrites && c.natsServers.length > 0 && c.etcdServers.length === 0
      ? '--enable-writes needs etcd: set --etcd-servers'
      : null,
  (c) =>
    c.natsSigningKeyFile !== null && c.natsServers.length === 0 ? '--nats-signing-key-file needs --nats-servers' : null,
  (c) =>
    c.securePort === null && (c.clientCaFile !== null || c.requestheaderClientCaFile !== null)
      ? '--client-ca-file and --requestheader-client-ca-file need TLS: set --tls-cert-file'
      : null,
  (c) =>
    c.port === null && c.securePort === null
      ? '--port is off and there is no TLS: nothing to listen on; set --port or --tls-cert-file'
      : null,
  (c) =>
    c.port !== null && c.port !== 0 && c.port === c.securePort ? `--port and --secure-port are both ${c.port}` : null,
  (c) => {
    const port = c.metricsBindAddress?.port ?? 0
    const twin = port === c.port ? '--port' : port === c.securePort ? '--secure-port' : null
    return port === 0 || twin === null ? null : `--metrics-bind-address and ${twin} both use port ${port}`
  },
  (c) =>
    c.port !== null && !isLoopback(c.bindAddress) && !c.insecureBindAny
      ? `plain HTTP on ${c.bindAddress}: beyond loopback set --tls-cert-file and leave --port off, or set --insecure-bind-any`
      : null,
  (c) =>
    c.securePort !== null && !isLoopback(c.bindAddress) && !c.insecureBindAny && !hasAuthenticator(c)
      ? `nothing authenticates callers on ${c.bindAddress}: set --client-ca-file, --token-auth-file, --oidc-issuer-url, --service-account-issuer or --authentication-kubeconfig, or --insecure-bind-any`
      : null,
  (c) => (c.ticketKeyFile !== null && !hasAuthenticator(c) ? '--ticket-key-file needs an authenticator' : null),
  (c) =>
    c.publicCaching.length > 0 && hasAuthenticator(c) && !c.anonymousAuth
      ? '--public-caching needs --anonymous-auth: without it, requests without credentials are refused'
      : null,
  (c) =>
    c.kubernetesResources === 'never' && c.authorizationMode.includes('RBAC')
      ? '--authorization-mode=RBAC reads Roles and bindings, which --kubernetes-resources=never leaves out'
      : null,
  (c) =>
    c.upstream !== null && c.authorizationMode.includes('RBAC')
      ? '--authorization-mode=RBAC reads Roles and bindings from etcd; with --upstream, use Webhook, which asks an API server'
      : null,
  (c) =>
    c.kubernetesResources === 'never' && c.authorizationMode.includes('Node')
      ? '--authorization-mode=Node reads pods, which --kubernetes-resources=never leaves out'
      : null,
  (c) =>
    c.enableWrites && c.authorizationMode.includes('Node')
      ? '--authorization-mode=Node and --enable-writes cannot be combined: nodes may create pods, and only the admission control of an API server restricts which'
      : null,
  (c) => {
    const late = c.publicCaching.find((one) => (one.maxAgeSeconds + one.staleSeconds) * 1_000 >= c.watchCacheAge)
    return late === undefined
      ? null
      : `--public-caching lets caches keep ${late.resource} longer than --watch-cache-age (${formatDuration(c.watchCacheAge)}): nobody could start a watch from such a copy`
  },
  (c) =>
    c.watchCacheAge < 2 * c.bookmarkInterval
      ? `--watch-cache-age (${formatDuration(c.watchCacheAge)}) must be at least twice --bookmark-interval (${formatDuration(c.bookmarkInterval)}), or an idle client cannot resume`
      : null,
  (c) =>
    c.shutdownWatchTerminationGracePeriod > c.shutdownGracePeriod
      ? '--shutdown-watch-termination-grace-period must fit in --shutdown-grace-period'
      : null,
  (c) =>
    c.memoryTarget !== null && c.listCacheBytes + c.watchCacheBytes > c.memoryTarget
      ? '--memory-target is less than --list-cache-bytes and --watch-cache-bytes together'
      : null,
  (c) =>
    c.serviceAccountIssuer.some((issuer) => issuer === c.oidcIssuerUrl)
      ? '--oidc-issuer-url and --service-account-issuer name the same issuer: remove --oidc-issuer-url'
      : null,
  (c) =>
    c.serviceAccountIssuer.includes('kubernetes/serviceaccount')
      ? '--service-account-issuer cannot be kubernetes/serviceaccount: tokens from Secrets can only be reviewed by an API server; set --authentication-kubeconfig'
      : null,
  (c) => {
    if (c.serviceAccountIssuer.length === 0)
      return c.serviceAccountKeyFile.length > 0 ? '--service-account-key-file needs --service-account-issuer' : null
    const hasKeys = c.serviceAccountKeyFile.length > 0 || c.authenticationKubeconfig !== null
    return hasKeys || c.serviceAccountIssuer.every(isIssuerUrl)
      ? null
      : '--service-account-issuer must be an https URL without user, password, query or fragment, because the server fetches the keys from it: otherwise set --service-account-key-file or --authentication-kubeconfig'
  },
  (c) =>
    c.apiAudiences.length > 0 && c.serviceAccountIssuer.length === 0 && c.authenticationKubeconfig === null
      ? '--api-audiences needs --service-account-issuer or --authentication-kubeconfig'
      : null,
  (c) => (c.authorizationMode.length === 0 ? '--authorization-mode is empty, so every request would be refused' : null),
  (c) =>
    new Set(c.authorizationMode).size < c.authorizationMode.length ? '--authorization-mode names a mode twice' : null,
  // An operator who authenticates callers, or has an API server that authorizes them, expects reads here to be
  // authorized too.
  (c, isGiven) => {
    if (isGiven('authorizationMode')) return null
    const name =
      authenticatorsOf(c)[0] ?? (c.passthrough !== null ? 'passthrough' : c.apiservice.length > 0 ? 'apiservice' : null)
    if (name === null) return null
    return `${options[name].flag} needs --authorization-mode: RBAC, Webhook or Policy decide who may read what; with AlwaysAllow, the default, every caller may read everything served here`
  },
  (c) =>
    c.authorizationMode.includes('Policy') === (c.authorizationPolicyFile !== null)
      ? null
      : '--authorization-mode=Policy and --authorization-policy-file must be given together',
  (c) =>
    c.authorizationMode.includes('Webhook') === (c.authorizationKubeconfig !== null)
      ? null
      : '--authorization-mode=Webhook and --authorization-kubeconfig must be given together',
]

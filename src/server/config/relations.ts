/**
 * Relations between options: first the defaults that follow from other options, then the rules about combinations. A
 * rule names the options it reads, so that a value already found wrong is reported only once.
 */
import { isIP } from 'node:net'

import { formatDuration } from './option.js'
import { options, type OptionName, type OptionValues } from './options.js'

/** The values with every default filled in. */
export interface Completed extends Omit<OptionValues, 'port' | 'securePort' | 'enableWrites'> {
  /** null for no plain HTTP. */
  readonly port: number | null
  /** null for no TLS. */
  readonly securePort: number | null
  readonly enableWrites: boolean
  /** Whether no upstream was named and the in-process store is served. */
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

/** The options that authenticate callers, in no particular order; anonymous access alone does not. */
export const AUTHENTICATORS = [
  'clientCaFile',
  'tokenAuthFile',
  'oidcIssuerUrl',
  'serviceAccountIssuer',
  'authenticationKubeconfig',
  'requestheaderClientCaFile',
] as const satisfies readonly OptionName[]

type AuthenticatorValues = Pick<Completed, (typeof AUTHENTICATORS)[number]>

/** The options of those that are configured. */
export function authenticatorsOf(config: AuthenticatorValues): readonly (typeof AUTHENTICATORS)[number][] {
  return AUTHENTICATORS.filter((name) => config[name] !== null && config[name].length > 0)
}

/** Whether callers are authenticated at all. */
export function hasAuthenticator(config: AuthenticatorValues): boolean {
  return authenticatorsOf(config).length > 0
}

/** The number of processes of a server: with workers, the primary is one more. */
export function processesOf(workers: number): number {
  return workers > 1 ? workers + 1 : 1
}

interface Relation {
  readonly reads: readonly OptionName[]
  /**
   * Returns the problem as one sentence; null if there is none.
   * @param isGiven whether an option has a value other than its default.
   */
  check(config: Completed, isGiven: (name: OptionName) => boolean): string | null
}

/** A process with less memory would refuse everything. */
const MIN_PROCESS_BYTES = 128 * 1024 * 1024

export const relations: readonly Relation[] = [
  {
    reads: ['memoryTarget', 'workers'],
    check: (c) =>
      c.memoryTarget === null || c.memoryTarget / processesOf(c.workers) >= MIN_PROCESS_BYTES
        ? null
        : `--memory-target is shared among ${processesOf(c.workers)} processes with --workers=${c.workers}: each needs 128MiB`,
  },
  {
    reads: ['upstream', 'etcdServers', 'natsServers'],
    check: (c) =>
      c.upstream !== null && (c.etcdServers.length > 0 || c.natsServers.length > 0)
        ? '--upstream is the only source: remove --etcd-servers and --nats-servers'
        : null,
  },
  {
    reads: ['etcdServersOverrides', 'etcdServers', 'natsServers', 'kubernetesResources', 'enableWrites'],
    check: (c) => {
      if (c.etcdServersOverrides.length === 0) return null
      if (c.etcdServers.length === 0) return '--etcd-servers-overrides needs --etcd-servers'
      if (c.natsServers.length > 0) return '--etcd-servers-overrides excludes --nats-servers: a fleet reads one etcd'
      if (c.enableWrites) return '--etcd-servers-overrides excludes --enable-writes: all writes go to one etcd'
      return c.kubernetesResources === 'never'
        ? '--etcd-servers-overrides names resources of Kubernetes, which --kubernetes-resources=never leaves out'
        : null
    },
  },
  {
    reads: ['encryptionProviderConfig', 'etcdServers', 'natsServers', 'upstream'],
    check: (c) =>
      c.encryptionProviderConfig !== null && c.etcdServers.length === 0 && c.natsServers.length === 0
        ? '--encryption-provider-config decrypts what is stored in etcd: it needs --etcd-servers or --nats-servers'
        : null,
  },
  {
    reads: ['watchCache', 'watchCacheSizes', 'workers', 'natsRole', 'natsServers'],
    check: (c) => {
      const isDirect = !c.watchCache || c.watchCacheSizes.some(({ batches }) => batches === 0)
      if (isDirect && c.workers > 1)
        return 'resources without a cache (--watch-cache=false, a size of 0) need --workers=1'
      if (isDirect && c.natsServers.length > 0 && c.natsRole === 'edge') {
        return 'resources without a cache (--watch-cache=false, a size of 0) are read from etcd, which --nats-role=edge never does'
      }
      return null
    },
  },
  {
    reads: ['enableWrites', 'passthrough', 'upstream'],
    check: (c) =>
      !c.enableWrites || (c.passthrough === null && c.upstream === null)
        ? null
        : c.upstream === null
          ? '--enable-writes and --passthrough exclude each other: either this server or the API server writes'
          : '--enable-writes needs etcd: with --upstream, use --passthrough to forward writes',
  },
  {
    reads: ['proxyClientCertFile', 'proxyClientKeyFile'],
    check: (c) =>
      together('--proxy-client-cert-file', c.proxyClientCertFile, '--proxy-client-key-file', c.proxyClientKeyFile),
  },
  {
    reads: ['passthrough', 'apiservice', 'passthroughCafile'],
    check: (c) =>
      c.passthroughCafile !== null && c.passthrough?.startsWith('https:') !== true && c.apiservice.length === 0
        ? '--passthrough-cafile needs --apiservice or an https --passthrough URL'
        : null,
  },
  {
    reads: ['passthrough', 'apiservice'],
    check: (c) =>
      c.passthrough !== null && c.apiservice.length > 0
        ? '--apiservice and --passthrough exclude each other: the API server behind --passthrough has its own aggregated APIs'
        : null,
  },
  {
    reads: ['apiservice'],
    check: (c) => {
      const names = c.apiservice.map(({ group, version }) => `${group}/${version}`)
      const twice = names.find((name, at) => names.indexOf(name) !== at)
      return twice === undefined ? null : `--apiservice names ${twice} twice`
    },
  },
  {
    reads: ['kubeconfig', 'upstream'],
    check: (c) => (c.kubeconfig !== null && c.upstream === null ? '--kubeconfig needs --upstream' : null),
  },
  {
    reads: ['etcdServers', 'requireUpstream'],
    check: (c) =>
      c.requireUpstream && c.embedded
        ? '--require-upstream is set without an upstream: set --etcd-servers or --upstream'
        : null,
  },
  {
    reads: ['etcdCertfile', 'etcdKeyfile'],
    check: (c) => together('--etcd-certfile', c.etcdCertfile, '--etcd-keyfile', c.etcdKeyfile),
  },
  {
    reads: ['etcdServers', 'etcdServersOverrides', 'etcdCafile', 'etcdCertfile'],
    check: (c) => {
      if (c.etcdCafile === null && c.etcdCertfile === null) return null
      const isPlain = (server: string): boolean => server.startsWith('http:')
      const plain = c.etcdServers.some(isPlain)
        ? '--etcd-servers'
        : c.etcdServersOverrides.some(({ servers }) => servers.some(isPlain))
          ? '--etcd-servers-overrides'
          : null
      return plain && `--etcd-cafile and --etcd-certfile need every one of ${plain} to be https`
    },
  },
  {
    reads: ['etcdUsername', 'etcdPasswordFile'],
    check: (c) => together('--etcd-username', c.etcdUsername, '--etcd-password-file', c.etcdPasswordFile),
  },
  {
    reads: ['natsServers', 'natsRole', 'etcdServers', 'upstream'],
    check: (c) =>
      c.upstream !== null || c.natsServers.length === 0 || (c.natsRole === 'edge') === (c.etcdServers.length === 0)
        ? null
        : c.natsRole === 'edge'
          ? '--nats-role=edge never reads etcd: remove --etcd-servers'
          : `--nats-role=${c.natsRole} reads etcd: give --etcd-servers, or say --nats-role=edge`,
  },
  {
    reads: ['natsServers', 'natsRole'],
    check: (c) =>
      c.natsServers.length === 0 && c.natsRole !== 'auto' ? `--nats-role=${c.natsRole} needs --nats-servers` : null,
  },
  {
    reads: ['enableWrites', 'etcdServers', 'natsServers'],
    check: (c) =>
      c.enableWrites && c.natsServers.length > 0 && c.etcdServers.length === 0
        ? '--enable-writes needs etcd: set --etcd-servers'
        : null,
  },
  {
    reads: ['natsSigningKeyFile', 'natsServers'],
    check: (c) =>
      c.natsSigningKeyFile !== null && c.natsServers.length === 0
        ? '--nats-signing-key-file needs --nats-servers'
        : null,
  },
  {
    reads: ['natsUsername', 'natsPasswordFile'],
    check: (c) => together('--nats-username', c.natsUsername, '--nats-password-file', c.natsPasswordFile),
  },
  {
    reads: ['natsCertfile', 'natsKeyfile'],
    check: (c) => together('--nats-certfile', c.natsCertfile, '--nats-keyfile', c.natsKeyfile),
  },
  {
    reads: ['tlsCertFile', 'tlsPrivateKeyFile'],
    check: (c) => together('--tls-cert-file', c.tlsCertFile, '--tls-private-key-file', c.tlsPrivateKeyFile),
  },
  {
    reads: ['clientCaFile', 'requestheaderClientCaFile', 'tlsCertFile'],
    check: (c) =>
      c.securePort === null && (c.clientCaFile !== null || c.requestheaderClientCaFile !== null)
        ? '--client-ca-file and --requestheader-client-ca-file need TLS: set --tls-cert-file'
        : null,
  },
  {
    reads: ['port', 'tlsCertFile'],
    check: (c) =>
      c.port === null && c.securePort === null ? '--port is off and there is no TLS: nothing to listen on' : null,
  },
  {
    reads: ['port', 'securePort', 'tlsCertFile'],
    check: (c) =>
      c.port !== null && c.port !== 0 && c.port === c.securePort ? `--port and --secure-port are both ${c.port}` : null,
  },
  {
    reads: ['metricsBindAddress', 'port', 'securePort', 'tlsCertFile'],
    check: (c) => {
      const port = c.metricsBindAddress?.port ?? 0
      const twin = port === c.port ? '--port' : port === c.securePort ? '--secure-port' : null
      return port === 0 || twin === null ? null : `--metrics-bind-address and ${twin} both use port ${port}`
    },
  },
  {
    reads: ['bindAddress', 'port', 'insecureBindAny', 'tlsCertFile'],
    check: (c) =>
      c.port !== null && !isLoopback(c.bindAddress) && !c.insecureBindAny
        ? `plain HTTP on ${c.bindAddress}: beyond loopback set --tls-cert-file and leave --port off, or set --insecure-bind-any`
        : null,
  },
  {
    reads: ['bindAddress', 'insecureBindAny', 'tlsCertFile', ...AUTHENTICATORS],
    check: (c) =>
      c.securePort !== null && !isLoopback(c.bindAddress) && !c.insecureBindAny && !hasAuthenticator(c)
        ? `nothing authenticates callers on ${c.bindAddress}: set --client-ca-file, --token-auth-file, --oidc-issuer-url, --service-account-issuer or --authentication-kubeconfig, or --insecure-bind-any`
        : null,
  },
  {
    reads: ['ticketKeyFile', ...AUTHENTICATORS],
    check: (c) =>
      c.ticketKeyFile !== null && !hasAuthenticator(c) ? '--ticket-key-file needs an authenticator' : null,
  },
  {
    reads: ['publicCaching', 'anonymousAuth', ...AUTHENTICATORS],
    check: (c) =>
      c.publicCaching.length > 0 && hasAuthenticator(c) && !c.anonymousAuth
        ? '--public-caching needs --anonymous-auth: without it nobody may read without a credential'
        : null,
  },
  {
    reads: ['kubernetesResources', 'authorizationMode'],
    check: (c) =>
      c.kubernetesResources === 'never' && c.authorizationMode.includes('RBAC')
        ? '--authorization-mode=RBAC reads Roles and bindings, which --kubernetes-resources=never leaves out'
        : null,
  },
  {
    reads: ['upstream', 'authorizationMode'],
    check: (c) =>
      c.upstream !== null && c.authorizationMode.includes('RBAC')
        ? '--authorization-mode=RBAC reads Roles and bindings from etcd; with --upstream, use Webhook, which asks an API server'
        : null,
  },
  {
    reads: ['kubernetesResources', 'authorizationMode'],
    check: (c) =>
      c.kubernetesResources === 'never' && c.authorizationMode.includes('Node')
        ? '--authorization-mode=Node reads pods, which --kubernetes-resources=never leaves out'
        : null,
  },
  {
    reads: ['enableWrites', 'authorizationMode'],
    check: (c) =>
      c.enableWrites && c.authorizationMode.includes('Node')
        ? '--authorization-mode=Node excludes --enable-writes: nodes may create pods, which only the admission of an API server restricts'
        : null,
  },
  {
    reads: ['publicCaching', 'watchCacheAge'],
    check: (c) => {
      const late = c.publicCaching.find((one) => (one.maxAgeSeconds + one.staleSeconds) * 1_000 >= c.watchCacheAge)
      return late === undefined
        ? null
        : `--public-caching lets caches keep ${late.resource} longer than --watch-cache-age (${formatDuration(c.watchCacheAge)}): nobody could start a watch from such a copy`
    },
  },
  {
    reads: ['watchCacheAge', 'bookmarkInterval'],
    check: (c) =>
      c.watchCacheAge < 2 * c.bookmarkInterval
        ? `--watch-cache-age (${formatDuration(c.watchCacheAge)}) must be at least twice --bookmark-interval (${formatDuration(c.bookmarkInterval)}), or an idle client cannot resume`
        : null,
  },
  {
    reads: ['shutdownGracePeriod', 'shutdownWatchTerminationGracePeriod'],
    check: (c) =>
      c.shutdownWatchTerminationGracePeriod > c.shutdownGracePeriod
        ? '--shutdown-watch-termination-grace-period must fit in --shutdown-grace-period'
        : null,
  },
  {
    reads: ['memoryTarget', 'listCacheBytes', 'watchCacheBytes'],
    check: (c) =>
      c.memoryTarget !== null && c.listCacheBytes + c.watchCacheBytes > c.memoryTarget
        ? '--memory-target is less than --list-cache-bytes and --watch-cache-bytes together'
        : null,
  },
  {
    reads: ['oidcIssuerUrl', 'oidcClientId'],
    check: (c) => together('--oidc-issuer-url', c.oidcIssuerUrl, '--oidc-client-id', c.oidcClientId[0] ?? null),
  },
  {
    reads: ['serviceAccountIssuer', 'oidcIssuerUrl'],
    check: (c) =>
      c.serviceAccountIssuer.some((issuer) => issuer === c.oidcIssuerUrl)
        ? '--oidc-issuer-url and --service-account-issuer name the same issuer: remove --oidc-issuer-url'
        : null,
  },
  {
    reads: ['serviceAccountIssuer'],
    check: (c) =>
      c.serviceAccountIssuer.includes('kubernetes/serviceaccount')
        ? '--service-account-issuer cannot be kubernetes/serviceaccount: tokens from Secrets are reviewed with --authentication-kubeconfig'
        : null,
  },
  {
    reads: ['serviceAccountIssuer', 'serviceAccountKeyFile', 'authenticationKubeconfig'],
    check: (c) => {
      if (c.serviceAccountIssuer.length === 0)
        return c.serviceAccountKeyFile.length > 0 ? '--service-account-key-file needs --service-account-issuer' : null
      const hasKeys = c.serviceAccountKeyFile.length > 0 || c.authenticationKubeconfig !== null
      return hasKeys || c.serviceAccountIssuer.every((issuer) => /^https:\/\/[^\s?#]+$/.test(issuer))
        ? null
        : '--service-account-issuer must be an https URL, from which the server gets the keys: otherwise set --service-account-key-file or --authentication-kubeconfig'
    },
  },
  {
    reads: ['apiAudiences', 'serviceAccountIssuer', 'authenticationKubeconfig'],
    check: (c) =>
      c.apiAudiences.length > 0 && c.serviceAccountIssuer.length === 0 && c.authenticationKubeconfig === null
        ? '--api-audiences needs --service-account-issuer or --authentication-kubeconfig'
        : null,
  },
  {
    reads: ['authorizationMode'],
    check: (c) =>
      c.authorizationMode.length === 0 ? '--authorization-mode is empty: nothing could allow a request' : null,
  },
  {
    reads: ['authorizationMode'],
    check: (c) =>
      new Set(c.authorizationMode).size < c.authorizationMode.length ? '--authorization-mode names a mode twice' : null,
  },
  {
    // Someone who identifies callers, or has an API server that authorizes them, expects reads here to be authorized
    // too.
    reads: ['authorizationMode', 'passthrough', 'apiservice', ...AUTHENTICATORS],
    check: (c, isGiven) => {
      if (isGiven('authorizationMode')) return null
      const name =
        authenticatorsOf(c)[0] ??
        (c.passthrough !== null ? 'passthrough' : c.apiservice.length > 0 ? 'apiservice' : null)
      if (name === null) return null
      return `${options[name].flag} needs --authorization-mode: RBAC, Webhook or Policy decide who may read what; with AlwaysAllow, the default, every caller may read everything served here`
    },
  },
  {
    reads: ['authorizationMode', 'authorizationPolicyFile'],
    check: (c) =>
      c.authorizationMode.includes('Policy') === (c.authorizationPolicyFile !== null)
        ? null
        : '--authorization-mode=Policy and --authorization-policy-file must be given together',
  },
  {
    reads: ['authorizationMode', 'authorizationKubeconfig'],
    check: (c) =>
      c.authorizationMode.includes('Webhook') === (c.authorizationKubeconfig !== null)
        ? null
        : '--authorization-mode=Webhook and --authorization-kubeconfig must be given together',
  },
]

function together(flagA: string, a: unknown, flagB: string, b: unknown): string | null {
  return (a === null) === (b === null) ? null : `${flagA} and ${flagB} must be given together`
}

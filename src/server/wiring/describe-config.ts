/** Describes a configuration in words, for the banner and `config check`. */
import type { Config, Sources } from '../config/load.js'
import { type OptionName, optionNames } from '../config/options.js'
import { type AUTHENTICATORS, authenticatorsOf, hasAuthenticator, isLoopback } from '../config/relations.js'
import { flagOf, reloadableNames } from '../config/reload.js'
import { resourceId } from '../../kubernetes/model/api-resource.js'
import type { Logger } from '../../support/log.js'

/** Returns where objects come from: `http://127.0.0.1:2379`, … */
export function describeSource({ embedded, upstream, etcdServers, natsServers, otherEtcds }: Config): string {
  if (embedded) return 'the in-process store'
  const others = otherEtcds.map(({ servers, resources }) => `, ${servers.join(', ')} (${resources.join(', ')})`)
  return (upstream ?? [...etcdServers, ...natsServers].join(', ')) + others.join('')
}

/**
 * Returns what is served: `57 resources, and custom ones as they are defined`, or the upstream's resources.
 * @param isKubernetesServed false while a server waits for Kubernetes to store something.
 */
export function describeResources(config: Config, isKubernetesServed = true): string {
  const { upstream, leftOut, etcdPrefix, kubernetesResources } = config
  const declared = declaredIn(config)
  if (upstream === null && (!isKubernetesServed || kubernetesResources === 'never')) {
    const prefixes = `${declared.map(({ resource }) => resourceId(resource)).join(', ')} and nothing else`
    return isKubernetesServed ? prefixes : `${prefixes} until something is stored under ${etcdPrefix}/`
  }
  const without = leftOut.length === 0 ? '' : `, without ${leftOut.join(', ')}`
  if (upstream !== null) return `what the upstream serves${without}`
  return `${countResources(config)} resources, and custom ones as they are defined${without}`
}

export function declaredIn({ resources }: Config): Config['resources'] {
  return resources.filter(({ origin }) => origin === 'declared')
}

export function describeKeys(count: number): string {
  return `${count} ${count === 1 ? 'key' : 'keys'}`
}

/**
 * Counts the configured resources. Versions of one resource (`autoscaling/v1` and `v2`) share its keys and count once.
 * The log line `ready` and the metrics count the same way, but include custom resources.
 */
function countResources({ resources }: Config): number {
  return new Set(resources.map(({ resource }) => resource.etcdPrefix)).size
}

const KNOWN_BY: Readonly<Record<(typeof AUTHENTICATORS)[number], string>> = {
  clientCaFile: 'client certificates',
  tokenAuthFile: 'the token file',
  oidcIssuerUrl: 'OpenID Connect',
  serviceAccountIssuer: 'service account tokens',
  authenticationKubeconfig: 'TokenReview',
  requestheaderClientCaFile: 'front proxies',
}

/** Returns who may read what: `callers authenticated by client certificates may read what RBAC allows`. */
export function describeAccess(config: Config): string {
  const { authorizationMode: modes, enableWrites, anonymousAuth, passthrough, apiservice } = config
  const known = authenticatorsOf(config).map((name) => KNOWN_BY[name])
  const callers =
    known.length === 0
      ? modes.includes('AlwaysAllow')
        ? 'anyone who can connect'
        : 'all callers are anonymous and'
      : `callers authenticated by ${known.join(' or ')}${anonymousAuth ? ', and anonymous callers,' : ''}`
  const verbs = enableWrites ? 'may read and write' : 'may read'
  const what = modes.includes('AlwaysAllow') ? 'everything this server serves' : `what ${modes.join(' or ')} allows`
  const elsewhere =
    passthrough === null && apiservice.length === 0
      ? ''
      : '; forwarded requests are authorized by the servers that receive them'
  return `${callers} ${verbs} ${what}${elsewhere}`
}

/** Logs who may read what. The line is a warning if that may be more than the operator expects. */
export function logAccess(config: Config, logger: Logger): void {
  const isOpen = config.authorizationMode.includes('AlwaysAllow')
  const isReached =
    hasAuthenticator(config) ||
    config.passthrough !== null ||
    config.apiservice.length > 0 ||
    !isLoopback(config.bindAddress)
  const level = isOpen && isReached ? 'warn' : 'info'
  logger[level]({ authorizationMode: config.authorizationMode }, describeAccess(config))
}

/** Returns the address as in a URL: IPv6 in brackets. */
export function urlHost(address: string): string {
  return address.includes(':') ? `[${address}]` : address
}

/**
 * Describes what can be changed while the server runs. A process keeps its flags and environment. So only the file of
 * --config can change an option, and only if neither a flag nor the environment sets the option.
 */
export function describeReload(config: Config, sources: Sources): string[] {
  const { config: file } = config
  const files = 'reloads by itself: files with certificates, keys, tokens, passwords and policies'
  if (file === null) return ['needs a restart: every option, because there is no --config', files]
  const isFixed = (name: string): boolean => ['flag', 'environment'].includes(sources[name as OptionName])
  const reloads = reloadableNames(config).filter((name) => !isFixed(name))
  const restarts = optionNames.filter((name) => sources[name] !== 'default' && !reloads.includes(name))
  const listed = (names: readonly string[]): string => names.map(flagOf).join(', ')
  return [
    `reloads from ${file} when it changes, and on SIGHUP: ${listed(reloads)}`,
    `needs a restart: ${listed(restarts)}, and all other options`,
    files,
  ]
}

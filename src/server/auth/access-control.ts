/**
 * Builds authenticators and authorizers from plain options. Only this module knows all kinds of them. It also reads
 * their files for the first time, so the server does not start with a broken file.
 */
import type { Ambient } from '../../support/ambient.js'
import type { IdentitySemaphore } from '../../engine/model/shared-limits.js'
import type { Webhook, WebhookMetrics } from '../metrics/request-metrics.js'
import type { OptionValues } from '../config/options.js'
import type { authenticationOptions, authorizationOptions } from '../config/options/access.js'
import type { Authenticator } from './authn/authenticator.js'
import { clientCertificate } from './authn/client-certificate.js'
import { apiServerKeys, discoverKeys, LazyKeys } from './authn/jwt.js'
import { oidc } from './authn/oidc.js'
import { requestHeader } from './authn/request-header.js'
import { type BoundObjects, localKeys, NO_OBJECTS, parseKeyFiles, serviceAccounts } from './authn/service-account.js'
import { parseTokenFile, tokenFile } from './authn/token-file.js'
import { parseTicketKeys, Tickets } from './authn/ticket.js'
import { tokenReview } from './authn/token-review.js'
import { anonymousOnly, unionAuthenticator, type UnionAuthenticator } from './authn/union-authenticator.js'
import { alwaysAllow } from './authz/always-allow.js'
import type { Authorizer } from './authz/authorizer.js'
import { nodeAuthorizer, type NodeRelations } from './authz/node.js'
import { parsePolicy, policy } from './authz/policy.js'
import { rbac, type RbacRules } from './authz/rbac.js'
import { unionAuthorizer } from './authz/union-authorizer.js'
import { webhook } from './authz/webhook.js'
import { JsonClient, type JsonServer } from './https-json.js'
import { JudgeHealth } from './judge-health.js'
import { parseCertificates } from './peer-certificate.js'
import { assertUsable } from '../../support/https-agent.js'
import { watchKubeconfig } from './watched-credentials.js'
import type { FileMetrics } from '../metrics/process-metrics.js'
import { WatchedFiles, type WatchedFilesOptions } from './watched-file.js'
import { errorMessage } from '../../support/error-message.js'

export type AuthenticationOptions = Pick<OptionValues, keyof typeof authenticationOptions | 'natsCluster'>
export type AuthorizationOptions = Pick<OptionValues, keyof typeof authorizationOptions>

interface AuthDeps extends Pick<Ambient, 'clock' | 'logger'> {
  readonly metrics?: WebhookMetrics
  /** Records whether the files can be used. */
  readonly fileMetrics?: FileMetrics | undefined
  /** Called with the health of each server that reviews callers. */
  readonly onJudge?: (health: JudgeHealth) => void
}

interface AuthenticatorDeps extends AuthDeps {
  /** Slots for reviews of unknown tokens. Default: those of a single process. */
  readonly unknownTokens?: IdentitySemaphore
  /** Finds the objects to which service account tokens are bound. Default: none are cached here. */
  readonly boundObjects?: BoundObjects
}

/**
 * Without any authenticator every caller is anonymous, whatever credential it sends. That is allowed only on loopback,
 * or with `--insecure-bind-any`.
 *
 * @throws Error that names a file which cannot be used.
 */
export function buildAuthenticator(options: AuthenticationOptions, deps: AuthenticatorDeps): UnionAuthenticator {
  const { clock, logger, metrics, fileMetrics, unknownTokens, onJudge } = deps
  const watching = { clock, logger, metrics: fileMetrics }
  const healthOf = (webhook: Webhook): JudgeHealth => openHealth(webhook, { clock, logger, onJudge })
  const watch = <T>(path: string, parse: (text: string) => T): WatchedFiles<T> =>
    new WatchedFiles({ paths: [path], ...watching }, (content) => naming(path, () => parse(content.toString('utf8'))))
  // As in the API server, front proxies come first, then certificates, then tokens. The kinds of tokens are ordered
  // from the cheapest to the most expensive.
  const authenticators: Authenticator[] = []
  if (options.requestheaderClientCaFile !== null) {
    const authorities = watch(options.requestheaderClientCaFile, parseCertificates)
    authenticators.push(requestHeader({ ...options, authorities }))
  }
  if (options.clientCaFile !== null)
    authenticators.push(clientCertificate(watch(options.clientCaFile, parseCertificates)))
  const tokens = options.tokenAuthFile === null ? null : watch(options.tokenAuthFile, parseTokenFile)
  if (tokens !== null) authenticators.push(tokenFile(tokens))
  if (options.serviceAccountIssuer.length > 0) authenticators.push(openServiceAccounts(options, deps))
  if (options.oidcIssuerUrl !== null) {
    const { oidcIssuerUrl: issuerUrl, oidcCaFile } = options
    const server = oidcCaFile === null ? { server: issuerUrl } : watchIssuer(issuerUrl, oidcCaFile, watching)
    const client = new JsonClient(server, 'oidc', metrics)
    authenticators.push(oidc({ ...options, issuerUrl, client, clock, health: healthOf('oidc') }))
  }
  if (options.authenticationKubeconfig !== null) {
    const server = watchKubeconfig(options.authenticationKubeconfig, watching)
    const client = new JsonClient(server, 'token-review', metrics)
    const unknown = unknownTokens === undefined ? {} : { unknown: unknownTokens }
    const health = healthOf('token-review')
    const cacheMs = options.authenticationTokenWebhookCacheTtl
    authenticators.push(tokenReview({ client, cacheMs, audiences: options.apiAudiences, clock, health, ...unknown }))
  }
  if (authenticators.length === 0) return anonymousOnly
  const keys = options.ticketKeyFile === null ? null : watch(options.ticketKeyFile, parseTicketKeys)
  const { natsCluster: cluster } = options
  const { boundObjects: objects = NO_OBJECTS } = deps
  const isReviewed = options.authenticationKubeconfig !== null
  const tickets = keys === null ? null : new Tickets({ keys, tokens, clock, cluster, objects, isReviewed })
  const apiAudiences = apiAudiencesOf(options)
  return unionAuthenticator({ authenticators, anonymous: options.anonymousAuth, clock, tickets, apiAudiences })
}

function apiAudiencesOf({ apiAudiences, serviceAccountIssuer }: AuthenticationOptions): readonly string[] {
  return apiAudiences.length === 0 ? serviceAccountIssuer : apiAudiences
}

/** Keys come from files, from the API server that reviews tokens, or from the issuers themselves. */
function openServiceAccounts(
  options: AuthenticationOptions,
  { clock, logger, metrics, fileMetrics, onJudge, boundObjects: objects = NO_OBJECTS }: AuthenticatorDeps,
): Authenticator {
  const watching = { clock, logger, metrics: fileMetrics }
  const issuers = options.serviceAccountIssuer
  const paths = options.serviceAccountKeyFile
  const kubeconfig = options.authenticationKubeconfig
  const audiences = apiAudiencesOf(options)
  const isReviewed = kubeconfig !== null
  if (paths.length > 0) {
    const files = new WatchedFiles({ paths, ...watching }, (...contents) =>
      naming(paths.join(', '), () => parseKeyFiles(contents)),
    )
    return serviceAccounts({
      issuers,
      audiences,
      keys: () => localKeys(files.value),
      files,
      objects,
      isReviewed,
      clock,
    })
  }
  const server = isReviewed ? watchKubeconfig(kubeconfig, watching) : { server: issuers[0]! }
  const client = new JsonClient(server, 'service-account-keys', metrics)
  const published = new LazyKeys(() => apiServerKeys(client, clock), clock)
  const discovered = new Map(
    issuers.map((issuer) => [issuer, new LazyKeys(() => discoverKeys(client, issuer, clock), clock)]),
  )
  return serviceAccounts({
    issuers,
    audiences,
    keys: (issuer) => (isReviewed ? published : discovered.get(issuer)!).get(),
    files: null,
    objects,
    isReviewed,
    clock,
    health: openHealth('service-account-keys', { clock, logger, onJudge }),
    close: () => client.close(),
  })
}

/**
 * @param rbacRules the source for the RBAC mode; null when there is none, which is an error in that mode.
 * @param nodes the source for the Node mode; null when there is none, which is an error in that mode.
 * @throws Error that names a file which cannot be used.
 */
export function buildAuthorizer(
  options: AuthorizationOptions,
  { clock, logger, metrics, fileMetrics, onJudge }: AuthDeps,
  rbacRules: RbacRules | null,
  nodes: NodeRelations | null,
): Authorizer {
  const watching = { clock, logger, metrics: fileMetrics }
  const authorizerOf = (mode: AuthorizationOptions['authorizationMode'][number]): Authorizer => {
    switch (mode) {
      case 'AlwaysAllow':
        return alwaysAllow
      case 'Policy': {
        const path = needed(options.authorizationPolicyFile, mode)
        const parse = (content: Buffer) => naming(path, () => parsePolicy(content.toString('utf8')))
        return policy(new WatchedFiles({ paths: [path], ...watching }, parse))
      }
      case 'Node':
        return nodeAuthorizer(needed(nodes, mode))
      case 'RBAC':
        return rbac(needed(rbacRules, mode))
      case 'Webhook':
        return webhook({
          client: new JsonClient(
            watchKubeconfig(needed(options.authorizationKubeconfig, mode), watching),
            'subject-access-review',
            metrics,
          ),
          authorizedMs: options.authorizationWebhookCacheAuthorizedTtl,
          unauthorizedMs: options.authorizationWebhookCacheUnauthorizedTtl,
          clock,
          health: openHealth('subject-access-review', { clock, logger, onJudge }),
        })
      default:
        return mode satisfies never
    }
  }
  return unionAuthorizer(
    options.authorizationMode.map((mode) => ({
      // kube-apiserver calls the webhook of its flags "default".
      name: mode === 'Webhook' ? 'default' : mode.toLowerCase(),
      authorizer: authorizerOf(mode),
    })),
  )
}

function openHealth(
  webhook: Webhook,
  { clock, logger, onJudge }: Pick<AuthDeps, 'clock' | 'logger'> & { onJudge: AuthDeps['onJudge'] | undefined },
): JudgeHealth {
  const health = new JudgeHealth({ webhook, clock, logger })
  onJudge?.(health)
  return health
}

function watchIssuer(
  server: string,
  caFile: string,
  deps: Omit<WatchedFilesOptions, 'paths'>,
): WatchedFiles<JsonServer> {
  return new WatchedFiles<JsonServer>({ paths: [caFile], ...deps }, (ca) => {
    assertUsable({ ca })
    return { server, ca }
  })
}

function needed<T>(value: T | null, mode: string): T {
  if (value === null) throw new Error(`authorization mode ${mode} has no source to read from`)
  return value
}

function naming<T>(path: string, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    throw new Error(`${path}: ${errorMessage(error)}`, { cause: error })
  }
}

/**
 * Authenticates users by JWTs of one OpenID Connect issuer. jose verifies the tokens; this file says what a token must
 * have and how its claims become a user.
 *
 * Keys come from the issuer's own discovery document, never from a header of the token (`jku`, `jwk`, `x5u`). An
 * unknown key id makes the server read the key set again, at most every 30 s, so invented ids cannot make it flood the
 * issuer. Without a prefix, names that begin with `system:` are refused: otherwise the issuer's owner could name an
 * administrator of the cluster.
 */
import type { errors, JWTPayload, JWTVerifyGetKey } from 'jose'

import { ServiceUnavailableError, UnauthorizedError } from '../../../engine/model/status.js'
import type { Clock } from '../../../support/clock.js'
import { type JsonClient, textOf, textsOf } from '../https-json.js'
import type { JudgeHealth } from '../judge-health.js'
import type { User } from '../user.js'
import type { Authenticator } from './authenticator.js'
import { cachedTokens } from './cached-tokens.js'

export interface OidcOptions {
  /** The URL exactly as the issuer writes it. */
  readonly issuerUrl: string
  /** A token must be meant for one of these audiences. */
  readonly audiences: readonly string[]
  readonly usernameClaim: string
  /** null means `ISSUER#`, or no prefix when the claim is email; '-' means no prefix. */
  readonly usernamePrefix: string | null
  /** null means that users have no groups. */
  readonly groupsClaim: string | null
  readonly groupsPrefix: string | null
  readonly signingAlgorithms: readonly string[]
  /** The client for the issuer, with its certificate authority. */
  readonly client: Pick<JsonClient, 'get' | 'close'>
  readonly clock: Clock
  /** Told how the verification of each token goes. Default: nobody is. */
  readonly health?: Pick<JudgeHealth, 'note'>
}

/** A decision is made again after this time, so that a revoked key is trusted no longer than that. */
const POSITIVE_MS = 5 * 60_000
const NEGATIVE_MS = 10_000
const DISCOVERY_COOLDOWN_MS = 1_000
const JWKS_COOLDOWN_MS = 30_000
/** kube-apiserver offers the first alone, and most issuers the second. */
const KEY_SET_TYPES = 'application/jwk-set+json, application/json'
const JWKS_MAX_AGE_MS = 10 * 60_000
/** Clocks that NTP keeps agree far better; an expired token stays valid for that long. */
const CLOCK_SKEW_MS = 10_000

/** The package is loaded by the first token, so that only servers with an issuer spend the time and memory. */
const jose = async (): Promise<typeof import('jose')> => await import('jose')

export function oidc(options: OidcOptions): Authenticator {
  let keys: Promise<JWTVerifyGetKey> | null = null
  let failure: { readonly error: unknown; readonly untilMs: number } | null = null
  /**
   * Discovery is not done at start: an unreachable issuer must not keep a server down for callers that do not need it.
   */
  function keySet(): Promise<JWTVerifyGetKey> {
    if (keys !== null) return keys
    if (failure !== null && options.clock.monotonic() < failure.untilMs) throw failure.error
    const discovering = discover(options).catch((error: unknown) => {
      keys = null
      failure = { error, untilMs: options.clock.monotonic() + DISCOVERY_COOLDOWN_MS }
      throw error
    })
    keys = discovering
    return discovering
  }

  async function identify(token: string): Promise<User> {
    return userOf(await verify(token, await keySet(), options), options)
  }

  return cachedTokens({
    clock: options.clock,
    positiveMs: POSITIVE_MS,
    negativeMs: NEGATIVE_MS,
    // The end of a token is known in advance. Only a revoked key can change an answer, and that shows when the decision
    // is made again.
    changesSilently: true,
    close: () => options.client.close(),
    async judge(token) {
      if (!(await isOurs(token, options.issuerUrl))) return null
      const verifying = identify(token)
      return await (options.health?.note(verifying) ?? verifying)
    },
  })
}

/** The unverified claim tells this issuer's tokens from others: a false claim only leads to the verification. */
async function isOurs(token: string, issuerUrl: string): Promise<boolean> {
  const { decodeJwt } = await jose()
  try {
    return decodeJwt(token).iss === issuerUrl
  } catch {
    return false
  }
}

async function discover({ client, issuerUrl }: OidcOptions): Promise<JWTVerifyGetKey> {
  const answer = await client
    .get(`${issuerUrl.replace(/\/$/, '')}/.well-known/openid-configuration`)
    .catch((error: unknown) => {
      throw unavailable('the issuer cannot be reached', error)
    })
  const document = answer.body as Readonly<Record<string, unknown>> | undefined
  const jwksUri = textOf(document?.['jwks_uri'])
  if (answer.status !== 200 || document?.['issuer'] !== issuerUrl || !URL.canParse(jwksUri)) {
    throw unavailable(`the discovery document (${answer.status}) is not that of ${issuerUrl}`)
  }
  if (new URL(jwksUri).protocol !== 'https:' && issuerUrl.startsWith('https:')) {
    throw unavailable(`the key set ${jwksUri} is not at an https URL`)
  }
  const { createRemoteJWKSet, customFetch } = await jose()
  return createRemoteJWKSet(new URL(jwksUri), {
    cooldownDuration: JWKS_COOLDOWN_MS,
    cacheMaxAge: JWKS_MAX_AGE_MS,
    [customFetch]: async (url: string) => {
      const { status, body } = await client.get(url, KEY_SET_TYPES)
      if (status !== 200) throw new Error(`${url} answered ${status}`)
      return new Response(JSON.stringify(body ?? null), { status })
    },
  })
}

async function verify(token: string, keys: JWTVerifyGetKey, options: OidcOptions): Promise<JWTPayload> {
  const { errors, jwtVerify } = await jose()
  try {
    const { payload } = await jwtVerify(token, keys, {
      issuer: options.issuerUrl,
      audience: [...options.audiences],
      algorithms: [...options.signingAlgorithms],
      clockTolerance: CLOCK_SKEW_MS / 1_000,
      currentDate: new Date(options.clock.now()),
      requiredClaims: ['exp', options.usernameClaim],
    })
    return payload
  } catch (error) {
    if (error instanceof errors.JOSEError && !isAboutKeys(error))
      throw new UnauthorizedError('Unauthorized', { cause: error })
    throw unavailable('the keys of the issuer cannot be fetched', error)
  }
}

/** jose's errors name the fault of the token, except these, about fetching the key set. */
function isAboutKeys({ code }: errors.JOSEError): boolean {
  return code === 'ERR_JWKS_TIMEOUT' || code === 'ERR_JWKS_INVALID' || code === 'ERR_JOSE_GENERIC'
}

function userOf(claims: JWTPayload, options: OidcOptions): User {
  const claimed = claims[options.usernameClaim]
  if (typeof claimed !== 'string' || claimed === '') throw refused(`claim ${options.usernameClaim} is not a string`)
  const isEmail = options.usernameClaim === 'email'
  if (isEmail && claims['email_verified'] !== undefined && claims['email_verified'] !== true) {
    throw refused('the email is not verified')
  }
  const prefix = options.usernamePrefix ?? (isEmail ? '-' : `${options.issuerUrl}#`)
  const name = prefix === '-' ? claimed : prefix + claimed
  if (name.startsWith('system:') && claimed === name) throw refused('an issuer cannot name a system: user')
  return {
    name,
    uid: '',
    groups: groupsOf(claims, options),
    extra: {},
    expiresAt: (claims.exp ?? 0) * 1_000 + CLOCK_SKEW_MS,
  }
}

function groupsOf(claims: JWTPayload, { groupsClaim, groupsPrefix }: OidcOptions): readonly string[] {
  if (groupsClaim === null) return []
  const claimed = claims[groupsClaim]
  const groups = typeof claimed === 'string' ? [claimed] : textsOf(claimed)
  if (groupsPrefix !== null && groupsPrefix !== '') return groups.map((group) => groupsPrefix + group)
  return groups.filter((group) => !group.startsWith('system:'))
}

function refused(cause: string): UnauthorizedError {
  return new UnauthorizedError('Unauthorized', { cause })
}

function unavailable(cause: string, inner?: unknown): ServiceUnavailableError {
  return new ServiceUnavailableError('authentication is not possible now', {
    cause: new Error(cause, { cause: inner }),
    details: { retryAfterSeconds: 1 },
  })
}

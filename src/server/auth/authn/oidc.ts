/**
 * Authenticates users by JWTs of one OpenID Connect issuer. This file defines which claims a token must have, and how
 * they become a user.
 *
 * Keys come from the issuer's own discovery document. Without a prefix, names that begin with `system:` are refused,
 * because otherwise the issuer's owner could name an administrator of the cluster. `service-account.ts` reads the
 * tokens of the cluster's own issuer, which does use such names.
 */
import type { JWTPayload } from 'jose'

import type { Clock } from '../../../support/clock.js'
import type { JsonClient } from '../https-json.js'
import type { JudgeHealth } from '../judge-health.js'
import type { User } from '../user.js'
import type { Authenticator } from './authenticator.js'
import { cachedTokens } from './cached-tokens.js'
import { discoverKeys, LazyKeys, NEGATIVE_MS, POSITIVE_MS, refused, statedClaims, verifyJwt } from './jwt.js'
import type { OptionValues } from '../../config/options.js'
import { textsAt } from '../../../support/fields.js'

/** The values of the options that begin with `--oidc-`, and mean what those options say. */
type OidcValues = Pick<OptionValues, Extract<keyof OptionValues, `oidc${string}`>>

export interface OidcOptions extends Omit<OidcValues, 'oidcIssuerUrl' | 'oidcCaFile'> {
  /** The URL exactly as the issuer writes it. */
  readonly issuerUrl: string
  /** The client for the issuer, with its certificate authority. */
  readonly client: Pick<JsonClient, 'get' | 'close'>
  readonly clock: Clock
  /** Records the outcome of each token's verification. Default: none. */
  readonly health?: Pick<JudgeHealth, 'note'>
}

/** Far more than the difference that NTP leaves between clocks. An expired token stays valid for this long. */
const CLOCK_SKEW_MS = 10_000

export function oidc(options: OidcOptions): Authenticator {
  const { client, issuerUrl, clock } = options
  const keys = new LazyKeys(() => discoverKeys(client, issuerUrl, clock), clock)

  async function identify(token: string): Promise<User> {
    const claims = await verifyJwt(token, await keys.get(), {
      issuers: [options.issuerUrl],
      audiences: options.oidcClientId,
      algorithms: options.oidcSigningAlgs,
      claims: ['exp', options.oidcUsernameClaim],
      skewMs: CLOCK_SKEW_MS,
      clock: options.clock,
    })
    return userOf(claims, options)
  }

  return cachedTokens({
    clock: options.clock,
    positiveMs: POSITIVE_MS,
    negativeMs: NEGATIVE_MS,
    // The expiry of a token is known in advance. Only revoking a key can change a decision, and the next verification
    // notices that.
    changesSilently: true,
    close: () => options.client.close(),
    async judge(token) {
      // The claim is still unverified. A false claim only leads to a verification that fails.
      if ((await statedClaims(token))?.iss !== options.issuerUrl) return null
      const verifying = identify(token)
      return await (options.health?.note(verifying) ?? verifying)
    },
  })
}

function userOf(claims: JWTPayload, options: OidcOptions): User {
  const claimed = claims[options.oidcUsernameClaim]
  if (typeof claimed !== 'string' || claimed === '') throw refused(`claim ${options.oidcUsernameClaim} is not a string`)
  const isEmail = options.oidcUsernameClaim === 'email'
  if (isEmail && claims['email_verified'] !== undefined && claims['email_verified'] !== true) {
    throw refused('the email is not verified')
  }
  const prefix = options.oidcUsernamePrefix ?? (isEmail ? '-' : `${options.issuerUrl}#`)
  const name = prefix === '-' ? claimed : prefix + claimed
  if (name.startsWith('system:') && claimed === name) {
    throw refused(
      'an OpenID Connect issuer cannot name a user that begins with "system:"; for service account tokens, set --service-account-issuer',
    )
  }
  return {
    name,
    uid: '',
    groups: groupsOf(claims, options),
    extra: {},
    expiresAt: (claims.exp ?? 0) * 1_000 + CLOCK_SKEW_MS,
  }
}

function groupsOf(
  claims: JWTPayload,
  { oidcGroupsClaim: groupsClaim, oidcGroupsPrefix: groupsPrefix }: OidcOptions,
): readonly string[] {
  if (groupsClaim === null) return []
  const claimed = claims[groupsClaim]
  const groups = typeof claimed === 'string' ? [claimed] : textsAt(claimed)
  if (groupsPrefix !== null && groupsPrefix !== '') return groups.map((group) => groupsPrefix + group)
  return groups.filter((group) => !group.startsWith('system:'))
}

/**
 * Verifies JWTs and finds their keys, for every authenticator that accepts JWTs. The package jose does the
 * cryptography.
 *
 * Keys come from the source that the operator configures, never from a header of the token (`jku`, `jwk`, `x5u`). After
 * an unknown key id, or a signature that no key verifies, the server reads the key set again. It does so at most every
 * 30 s, so that invented ids cannot make it flood the issuer. While the set cannot be fetched, the last one stays in use
 * for a day. As in the API server, each key is tried for a token without a key id.
 */
import type { errors, JWTPayload, JWTVerifyGetKey, JWTVerifyOptions } from 'jose'

import { ServiceUnavailableError, UnauthorizedError } from '../../../kubernetes/model/status.js'
import type { Clock } from '../../../support/clock.js'
import type { JsonClient, JsonResponse } from '../https-json.js'
import { textAt } from '../../../support/fields.js'

/** The longest time that a decision is cached. A withdrawn key is still trusted for this long after the next fetch. */
export const POSITIVE_MS = 5 * 60_000
export const NEGATIVE_MS = 10_000

const DISCOVERY_COOLDOWN_MS = 1_000
const JWKS_COOLDOWN_MS = 30_000
const JWKS_MAX_AGE_MS = 10 * 60_000
/** How long a set is used that cannot be fetched again. The API server uses known keys forever. */
const JWKS_OUTAGE_MS = 24 * 3_600_000

/** kube-apiserver offers only the first type, and most issuers only the second. */
const KEY_SET_TYPES = 'application/jwk-set+json, application/json'

/** Loads the package for the first token, so that only servers with an issuer spend the time and memory. */
export const jose = async (): Promise<typeof import('jose')> => await import('jose')

/** Returns the claims of a token as it states them, unverified; null if it is not a JWT. */
export async function statedClaims(token: string): Promise<JWTPayload | null> {
  const { decodeJwt } = await jose()
  try {
    return decodeJwt(token)
  } catch {
    return null
  }
}

/** Finds keys by the header of a token. */
export type KeySet = JWTVerifyGetKey & {
  /** Fetches the set again. @returns false, without fetching, if the set was fetched a moment ago. */
  readonly reload?: () => Promise<boolean>
}

/**
 * Finds keys when the first token needs them, not at the start, because an unreachable issuer must not keep the server
 * from starting for callers that do not need the issuer.
 */
export class LazyKeys {
  #keys: Promise<KeySet> | null = null
  #failure: { readonly error: unknown; readonly untilMs: number } | null = null

  constructor(
    private readonly find: () => Promise<KeySet>,
    private readonly clock: Clock,
  ) {}

  /** @throws any error of finding the keys. After a failure, they are not searched for again within a second. */
  get(): Promise<KeySet> {
    if (this.#keys !== null) return this.#keys
    if (this.#failure !== null && this.clock.monotonic() < this.#failure.untilMs) throw this.#failure.error
    this.#keys = this.find().catch((error: unknown) => {
      this.#keys = null
      this.#failure = { error, untilMs: this.clock.monotonic() + DISCOVERY_COOLDOWN_MS }
      throw error
    })
    return this.#keys
  }
}

/** Returns the keys that an API server publishes for its tokens. */
export async function apiServerKeys(client: Pick<JsonClient, 'get'>, clock: Clock): Promise<KeySet> {
  // The host is ignored, because the client sends every request to its own server.
  return await remoteKeys('https://kubernetes.default.svc/openid/v1/jwks', clock, () =>
    client.get('/openid/v1/jwks', KEY_SET_TYPES),
  )
}

/**
 * Returns the keys of a key set that is refetched while in use. jose would measure the set's age by the wall clock. If
 * that clock were set back, withdrawn keys would stay in use, and new keys would be missing, until the clock had caught
 * up.
 *
 * @param url names the key set in errors.
 */
async function remoteKeys(url: string, clock: Clock, fetchSet: () => Promise<JsonResponse>): Promise<KeySet> {
  const { createRemoteJWKSet, customFetch } = await jose()
  const keys = createRemoteJWKSet(new URL(url), {
    cooldownDuration: Infinity,
    cacheMaxAge: Infinity,
    [customFetch]: async () => {
      const { status, body } = await fetchSet()
      if (status !== 200) throw new Error(`${url} returned ${status}`)
      return new Response(JSON.stringify(body ?? null), { status })
    },
  })
  let fetchedMs = Number.NEGATIVE_INFINITY
  let failedMs = Number.NEGATIVE_INFINITY
  let failure: unknown = null
  const isWithin = (ms: number, sinceMs: number): boolean => clock.monotonic() - sinceMs < ms
  const isUsable = (): boolean => isWithin(JWKS_OUTAGE_MS, fetchedMs)
  const fetch = async (): Promise<void> => {
    if (isUsable() && isWithin(JWKS_COOLDOWN_MS, failedMs)) throw failure
    try {
      await keys.reload()
      fetchedMs = clock.monotonic()
      failedMs = Number.NEGATIVE_INFINITY
    } catch (error) {
      failure = error
      failedMs = clock.monotonic()
      throw error
    }
  }
  const find: JWTVerifyGetKey = async (header, input) => {
    if (!isWithin(JWKS_MAX_AGE_MS, fetchedMs)) {
      const isOutage = isUsable() && isWithin(JWKS_MAX_AGE_MS, failedMs)
      // During an outage, callers do not wait for each attempt.
      if (isOutage) void fetch().catch(() => undefined)
      else {
        await fetch().catch((error: unknown) => {
          if (!isUsable()) throw error
        })
      }
    }
    return await keys(header, input)
  }
  return Object.assign(find, {
    async reload() {
      if (isWithin(JWKS_COOLDOWN_MS, fetchedMs)) return false
      await fetch()
      return true
    },
  })
}

/** Returns the keys that the discovery document of an issuer names. @throws ServiceUnavailableError */
export async function discoverKeys(client: Pick<JsonClient, 'get'>, issuerUrl: string, clock: Clock): Promise<KeySet> {
  const response = await client
    .get(`${issuerUrl.replace(/\/$/, '')}/.well-known/openid-configuration`)
    .catch((error: unknown) => {
      throw unavailable('the issuer cannot be reached', error)
    })
  const document = response.body as Readonly<Record<string, unknown>> | undefined
  const jwksUri = textAt(document?.['jwks_uri'])
  if (response.status !== 200 || document?.['issuer'] !== issuerUrl || !URL.canParse(jwksUri)) {
    throw unavailable(`the discovery document is not valid for ${issuerUrl} (status ${response.status})`)
  }
  if (new URL(jwksUri).protocol !== 'https:' && issuerUrl.startsWith('https:')) {
    throw unavailable(`the key set ${jwksUri} is not at an https URL`)
  }
  return await remoteKeys(jwksUri, clock, () => client.get(jwksUri, KEY_SET_TYPES))
}

export interface JwtRules {
  readonly issuers: readonly string[]
  /** A token must be issued for one of these audiences. */
  readonly audiences: readonly string[]
  readonly algorithms: readonly string[]
  /** The claims that a token must have. */
  readonly claims: readonly string[]
  readonly skewMs: number
  readonly clock: Clock
}

/** @throws UnauthorizedError, caused by jose's error; ServiceUnavailableError when the keys cannot be fetched. */
export async function verifyJwt(token: string, keys: KeySet, rules: JwtRules): Promise<JWTPayload> {
  const { errors } = await jose()
  const options: JWTVerifyOptions = {
    issuer: [...rules.issuers],
    audience: [...rules.audiences],
    algorithms: [...rules.algorithms],
    clockTolerance: rules.skewMs / 1_000,
    currentDate: new Date(rules.clock.now()),
    requiredClaims: [...rules.claims],
  }
  try {
    return await verifyByEachKey(token, keys, options).catch(async (error: unknown) => {
      const mayHaveNewKey =
        error instanceof errors.JWSSignatureVerificationFailed || error instanceof errors.JWKSNoMatchingKey
      if (!mayHaveNewKey || (await keys.reload?.()) !== true) throw error
      return await verifyByEachKey(token, keys, options)
    })
  } catch (error) {
    if (error instanceof errors.JOSEError && !isAboutKeys(error)) throw refused(error)
    throw unavailable('the keys of the issuer cannot be fetched', error)
  }
}

/** @throws JOSEError: JWKSNoMatchingKey when the token has no key id and no key verifies its signature. */
async function verifyByEachKey(token: string, keys: KeySet, options: JWTVerifyOptions): Promise<JWTPayload> {
  const { errors, jwtVerify } = await jose()
  let hasKeyId = true
  const find: JWTVerifyGetKey = ({ kid, ...header }, input) => {
    hasKeyId = kid !== undefined && kid !== ''
    return keys(hasKeyId ? { ...header, kid: kid! } : header, input)
  }
  try {
    return (await jwtVerify(token, find, options)).payload
  } catch (error) {
    if (error instanceof errors.JWKSMultipleMatchingKeys) {
      for await (const key of error) {
        try {
          return (await jwtVerify(token, key, options)).payload
        } catch (failure) {
          // Any other error means that a key cannot be used, for example because it is too short.
          const isOfToken = failure instanceof errors.JOSEError
          if (isOfToken && !(failure instanceof errors.JWSSignatureVerificationFailed)) throw failure
        }
      }
    } else if (hasKeyId || !(error instanceof errors.JWSSignatureVerificationFailed)) throw error
    throw new errors.JWKSNoMatchingKey()
  }
}

/** Whether an error concerns fetching the key set. All other errors of jose report a fault of the token. */
function isAboutKeys({ code }: errors.JOSEError): boolean {
  return code === 'ERR_JWKS_TIMEOUT' || code === 'ERR_JWKS_INVALID' || code === 'ERR_JOSE_GENERIC'
}

export function refused(cause: unknown): UnauthorizedError {
  return new UnauthorizedError('Unauthorized', { cause })
}

export function unavailable(cause: string, inner?: unknown): ServiceUnavailableError {
  return new ServiceUnavailableError('authentication is currently unavailable', {
    cause: new Error(cause, { cause: inner }),
    details: { retryAfterSeconds: 1 },
  })
}

/**
 * Authenticates service accounts by the tokens that the cluster issues for them, without a TokenReview for each token.
 * It verifies the signature itself and looks up, by UID, the objects to which a token is bound among the objects that
 * this server holds. So a token becomes invalid as soon as its pod is gone.
 *
 * TokenReview, if configured, decides in all other cases: tokens from Secrets, which are valid as long as the Secret
 * has the same token; unknown keys; bound objects that this server does not hold, or holds in a stale cache. A decision
 * made here is final, because an API server would accept a token for another ten seconds after its pod is gone.
 *
 * Source: the service account authenticator of kubernetes/kubernetes (claims, names, leeway).
 */
import { createHash, createPublicKey, type KeyObject } from 'node:crypto'

import type { JWTPayload } from 'jose'

import { UnauthorizedError } from '../../../kubernetes/model/status.js'
import type { Clock } from '../../../support/clock.js'
import type { JudgeHealth } from '../judge-health.js'
import type { User } from '../user.js'
import type { Watched } from '../watched-file.js'
import { type Authenticator, RefusedCredentialError } from './authenticator.js'
import { cachedTokens } from './cached-tokens.js'
import { jose, type KeySet, NEGATIVE_MS, POSITIVE_MS, statedClaims, unavailable, verifyJwt } from './jwt.js'
import { field, isObject, textAt } from '../../../support/fields.js'

/** An object to which a token is bound. */
export interface BoundObject {
  readonly plural: 'serviceaccounts' | 'pods' | 'nodes' | 'secrets'
  /** '' for a node. */
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

/** `unknown`: the kind is not served here, or its cache is too old. */
export type Standing = 'present' | 'absent' | 'unknown'

/** Looks up the objects that this server holds. */
export interface BoundObjects {
  /** Returns immediately if the object is in the cache, and otherwise after a consistent read. Never rejects. */
  standing(object: BoundObject): Standing | Promise<Standing>
  /**
   * @param listener called with the UID of an object that was present and is now gone, or null when anything may have
   * changed.
   */
  onGone(listener: (uid: string | null) => void): () => void
}

/**
 * Whether all objects exist; null if that cannot be decided here. An object that is gone decides, whatever is unknown of
 * others.
 */
export async function allStand(wanted: readonly BoundObject[], objects: BoundObjects): Promise<boolean | null> {
  let isKnown = true
  for (const object of wanted) {
    const found = objects.standing(object)
    const decided = typeof found === 'string' ? found : await found
    if (decided === 'absent') return false
    if (decided === 'unknown') isKnown = false
  }
  return isKnown ? true : null
}

/** Whether a token of the user is bound to the object that is gone. */
export function isBoundTo({ uid, extra }: User, gone: string): boolean {
  return uid === gone || Object.values(extra).some((values) => values.includes(gone))
}

/** A server without any of these objects. */
export const NO_OBJECTS: BoundObjects = { standing: () => 'unknown', onGone: () => () => {} }

export interface ServiceAccountOptions {
  readonly issuers: readonly string[]
  readonly audiences: readonly string[]
  /** @throws ServiceUnavailableError */
  readonly keys: (issuer: string) => KeySet | Promise<KeySet>
  /** The files that contain the keys; null if the keys are fetched. */
  readonly files: Watched<unknown> | null
  readonly objects: BoundObjects
  /** Whether a later authenticator asks an API server. */
  readonly isReviewed: boolean
  readonly clock: Clock
  /** Records the outcome of each token's verification. Default: none. */
  readonly health?: Pick<JudgeHealth, 'note'>
  readonly close?: () => void
}

/** The algorithms with which an API server signs. */
const ALGORITHMS = ['RS256', 'ES256', 'ES384', 'ES512']
/** As in the API server, an expired token stays valid for this long. */
const SKEW_MS = 60_000
const EXTRA = 'authentication.kubernetes.io/'

/** A user, and the objects to which the user's token is bound. */
interface Verified {
  readonly user: User
  readonly objects: readonly BoundObject[]
}

export function serviceAccounts(options: ServiceAccountOptions): Authenticator {
  const { issuers, objects, isReviewed, clock, files } = options
  const bound = new WeakMap<User, readonly BoundObject[]>()
  /**
   * Users whose bound objects are gone. UIDs are never reused, so this holds for as long as the verified token is
   * cached.
   */
  let gone = new WeakSet<User>()

  async function identify(token: string, issuer: string, audiences: readonly string[]): Promise<User> {
    const rules = { issuers, audiences, algorithms: ALGORITHMS, claims: ['exp'], skewMs: SKEW_MS }
    const claims = await verifyJwt(token, await options.keys(issuer), { ...rules, clock })
    const verified = verifiedOf(claims, clock.now())
    const user = { ...verified.user, audiences: audiences.filter((one) => [claims.aud].flat().includes(one)) }
    bound.set(user, verified.objects)
    return user
  }

  const open = (): Authenticator =>
    cachedTokens({
      clock,
      positiveMs: POSITIVE_MS,
      negativeMs: NEGATIVE_MS,
      changesSilently: true,
      close: () => {},
      async judge(token, { audiences = options.audiences }) {
        const claims = await statedClaims(token)
        // Tokens from Secrets have no expiry and do not name the objects to which they are bound.
        const isBound = claims?.exp !== undefined && claims.aud !== undefined && isObject(claims['kubernetes.io'])
        if (!isBound || !issuers.includes(claims.iss ?? '') || isOfWebhook(claims)) return null
        const verifying = identify(token, claims.iss!, audiences)
        try {
          return await (options.health?.note(verifying) ?? verifying)
        } catch (error) {
          const isDecided = error instanceof UnauthorizedError && !isUnknownKey(error.cause)
          if (isDecided) throw new RefusedCredentialError('Unauthorized', { cause: error.cause })
          if (isReviewed) return null
          throw error
        }
      },
    })

  let tokens = open()
  const ends = [
    // A key that is no longer in the file verifies nothing from now on.
    files?.onChange(() => {
      tokens = open()
    }),
    objects.onGone((uid) => {
      if (uid === null) gone = new WeakSet()
    }),
  ]

  return {
    readsTokens: true,
    // Decisions also change without an event: when a pod's grace period ends, or a fetched key is withdrawn.
    changesSilently: true,
    comparesAudiences: true,
    async authenticate(request) {
      const user = await tokens.authenticate(request)
      if (user === null) return null
      const standing = gone.has(user) ? false : await allStand(bound.get(user) ?? [], objects)
      if (standing === true) return user
      if (standing === null && isReviewed) return null
      if (standing === null)
        throw unavailable('the object that the token is bound to is not served here, or is not fresh enough')
      gone.add(user)
      throw new RefusedCredentialError('Unauthorized', { cause: 'the object that the token is bound to is gone' })
    },
    onChange(listener) {
      const ends = [
        objects.onGone((uid) => listener(uid === null ? undefined : (user) => isBoundTo(user, uid))),
        files?.onChange(() => listener()),
      ]
      return () => ends.forEach((end) => end?.())
    },
    close() {
      for (const end of ends) end?.()
      files?.close()
      options.close?.()
    },
  }
}

/**
 * Returns the public keys of files, by the ids that an API server gives them.
 * @throws Error for a file without a key, or with an unreadable one.
 */
export function parseKeyFiles(contents: readonly Buffer[]): readonly KeyObject[] {
  return contents.flatMap((content) => {
    const blocks = content.toString('utf8').match(/-----BEGIN ([A-Z0-9 ]+)-----[^-]+-----END \1-----/g) ?? []
    const keys = blocks
      .filter((block) => !block.startsWith('-----BEGIN EC PARAMETERS'))
      .map((pem) => createPublicKey(pem))
    if (keys.length === 0) throw new Error('it contains no key')
    return keys
  })
}

/** @param keys RSA or elliptic curve. */
export async function localKeys(keys: readonly KeyObject[]): Promise<KeySet> {
  const { createLocalJWKSet } = await jose()
  return createLocalJWKSet({
    keys: keys.map((key) => {
      const der = key.export({ type: 'spki', format: 'der' })
      return { ...key.export({ format: 'jwk' }), kid: createHash('sha256').update(der).digest('base64url') }
    }),
  })
}

/** @throws RefusedCredentialError for claims that no API server issues. */
function verifiedOf(claims: JWTPayload, nowMs: number): Verified {
  const own = claims['kubernetes.io']
  const namespace = textAt(own, 'namespace')
  const account = refOf(own, 'serviceaccount')
  if (account === null || namespace === '') return refuse('the token names no service account')
  const name = `system:serviceaccount:${namespace}:${account.name}`
  if (claims.sub !== name) return refuse('the subject is not the service account')
  if (claims.iat !== undefined && claims.iat * 1_000 > nowMs + SKEW_MS) return refuse('issued in the future')
  const [pod, node] = [refOf(own, 'pod'), refOf(own, 'node')]
  for (const kind of WEBHOOKS) refOf(own, kind)
  // Sorted, as Go writes the keys of a map.
  const extra = {
    ...(claims.jti === undefined ? {} : { [`${EXTRA}credential-id`]: [`JTI=${claims.jti}`] }),
    ...(node === null ? {} : { [`${EXTRA}node-name`]: [node.name] }),
    ...(node === null || node.uid === '' ? {} : { [`${EXTRA}node-uid`]: [node.uid] }),
    ...(pod === null ? {} : { [`${EXTRA}pod-name`]: [pod.name], [`${EXTRA}pod-uid`]: [pod.uid] }),
  }
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`]
  const user = { name, uid: account.uid, groups, extra, expiresAt: claims.exp! * 1_000 + SKEW_MS }
  return { user, objects: boundObjectsOf(claims) }
}

/**
 * Returns the objects to which a verified token is bound; empty unless an API server has issued it for a service account.
 * @throws RefusedCredentialError for claims that no API server issues.
 */
export function boundObjectsOf(claims: JWTPayload | null): readonly BoundObject[] {
  const own = claims?.['kubernetes.io']
  const account = refOf(own, 'serviceaccount')
  if (account === null) return []
  const namespace = textAt(own, 'namespace')
  const [pod, secret, node] = [refOf(own, 'pod'), refOf(own, 'secret'), refOf(own, 'node')]
  const objects: BoundObject[] = [{ plural: 'serviceaccounts', namespace, ...account }]
  if (secret !== null) objects.push({ plural: 'secrets', namespace, ...secret })
  if (pod !== null) objects.push({ plural: 'pods', namespace, ...pod })
  // In a pod's token, the node only says where the pod runs.
  else if (node !== null) objects.push({ plural: 'nodes', namespace: '', ...node })
  return objects
}

/**
 * Returns null if the token is not bound to an object of that kind.
 * @throws RefusedCredentialError for anything but an object, as Go cannot decode it. Ignoring it would free the token.
 */
function refOf(own: unknown, kind: string): { readonly name: string; readonly uid: string } | null {
  const found = field(own, kind) ?? null
  if (found === null) return null
  if (!isObject(found)) return refuse(`the token's ${kind} cannot be read`)
  return { name: textAt(found, 'name'), uid: textAt(found, 'uid') }
}

function refuse(cause: string): never {
  throw new RefusedCredentialError('Unauthorized', { cause })
}

/**
 * Whether the token is for a webhook. Such tokens are alpha in 1.37, and only an API server knows whether it accepts
 * them.
 */
function isOfWebhook(claims: JWTPayload): boolean {
  const own = claims['kubernetes.io']
  return WEBHOOKS.some((kind) => isObject(field(own, kind)))
}

const WEBHOOKS = ['validatingwebhookconfiguration', 'mutatingwebhookconfiguration']

/**
 * Whether the token's key is unknown. An API server may use a new key before this server has read it.
 * @param cause jose's error.
 */
function isUnknownKey(cause: unknown): boolean {
  return (cause as { readonly code?: unknown }).code === 'ERR_JWKS_NO_MATCHING_KEY'
}

/**
 * Tickets replace the token for a browser's EventSource, WebSocket or image, which cannot set headers. An authenticated
 * caller requests a ticket for one path and puts it into the URL as `?ticket=`.
 *
 * URLs end up in logs and histories, so a stolen ticket is of little use. It reads one path, for a minute at most, and
 * can neither write nor get another ticket. A ticket is a JWT, signed with a key that all replicas have. A stream that
 * a ticket opened runs until the credential behind the ticket expires, or until the token is removed from the token
 * file, or until the pod, or another object to which a service account's token is bound, is gone. A seal in the ticket
 * identifies the token in that file. If the expiry is unknown (TokenReview, a front proxy), or the credential may end
 * earlier in a way that this server does not see (its authority), the stream ends after ten minutes.
 */
import { createHmac } from 'node:crypto'
import { BadRequestError, UnauthorizedError } from '../../../kubernetes/model/status.js'
import type { Clock } from '../../../support/clock.js'
import { digest, identityKey, type User, withAuthenticatedGroup } from '../user.js'
import type { Watched } from '../watched-file.js'
import type { Authenticator, ShownTicket } from './authenticator.js'
import { jose, statedClaims, unavailable } from './jwt.js'
import { allStand, type BoundObject, type BoundObjects, boundObjectsOf, isBoundTo } from './service-account.js'
import type { TokenTable } from './token-file.js'
import { textAt, textsAt } from '../../../support/fields.js'

/** The error for a ticket that was valid but has expired. The client should request another ticket. */
export class TicketExpiredError extends UnauthorizedError {
  constructor() {
    super('the ticket has expired: request another', { details: { retryAfterSeconds: RETRY_SECONDS } })
  }
}

export interface TicketOptions {
  /** The keys of `--ticket-key-file`. The first key signs tickets, and all keys are accepted. */
  readonly keys: Watched<readonly Buffer[]>
  /** `--token-auth-file`; null if not configured. */
  readonly tokens: Pick<Watched<TokenTable>, 'value' | 'onChange'> | null
  readonly clock: Pick<Clock, 'now'>
  /**
   * The value of `--nats-cluster`. A ticket is valid only in the cluster that issued it, even if another cluster has
   * the same key file.
   */
  readonly cluster: string
  /** Finds the objects to which tokens of service accounts are bound. */
  readonly objects: BoundObjects
  /** Whether an API server judges tokens whose objects are not known here. */
  readonly isReviewed: boolean
}

/** The JWT's own claims are iss (the cluster), sub, aud (the path) and exp. */
interface Claims {
  readonly uid: string
  readonly groups: readonly string[]
  readonly extra: Readonly<Record<string, readonly string[]>>
  /** When the credential behind the ticket expires, in milliseconds since the epoch; null if it never does. */
  readonly until: number | null
  /** Identifies the token in the token file; null if the credential is not from that file. */
  readonly seal: string | null
  /** The objects to which the token behind the ticket is bound. */
  readonly bound: readonly BoundObject[]
}

const LIFE_SECONDS = 60
/**
 * The lifetime of a stream whose credential has an unknown expiry, or may end before its expiry (for example with its
 * pod).
 */
const UNKNOWN_END_MS = 10 * 60_000
/** Slows down an abandoned page, whose EventSource keeps reconnecting with the same expired ticket. */
const RETRY_SECONDS = 60
/** A key must be at least as long as the HMAC's output (RFC 7518, 3.2). */
const MIN_KEY_BYTES = 32
/** A URL with a longer ticket would not fit into the headers that servers and proxies accept. */
const MAX_TICKET_CHARACTERS = 4_096
const TYPE = 'distributary-ticket'

/** Reads one key per line. @throws Error whose message contains no key. */
export function parseTicketKeys(text: string): readonly Buffer[] {
  const keys = text
    .split('\n')
    .map((line) => Buffer.from(line.trim()))
    .filter((key) => key.length > 0)
  if (keys.length === 0) throw new Error('it contains no key')
  const short = keys.findIndex((key) => key.length < MIN_KEY_BYTES)
  if (short !== -1) throw new Error(`key ${short + 1} is shorter than ${MIN_KEY_BYTES} characters`)
  return keys
}

/**
 * Returns when a stream with the ticket must end, in milliseconds since the epoch; null for never.
 * @param isSealed whether the ticket has a seal, because the token is in the token file. All other credentials may end
 * before they expire.
 */
function untilOf({ expiresAt }: User, isSealed: boolean, nowMs: number): number | null {
  return isSealed ? expiresAt : Math.min(expiresAt ?? Infinity, nowMs + UNKNOWN_END_MS)
}

function isAccount({ name }: User): boolean {
  return name.startsWith('system:serviceaccount:')
}

export class Tickets {
  constructor(private readonly options: TicketOptions) {}

  /**
   * @param token the caller's bearer token; null if another credential identified the caller.
   * @throws BadRequestError for a user with too many groups.
   */
  async issue(user: User, token: string | null, path: string): Promise<{ readonly ticket: string; expiresAt: number }> {
    const { keys, tokens, clock, cluster } = this.options
    const { SignJWT } = await jose()
    const [key] = keys.value as readonly [Buffer]
    const known = token === null || tokens?.value.has(digest(token)) !== true ? null : token
    const nowMs = clock.now()
    const claims: Claims = {
      uid: user.uid,
      groups: user.groups,
      extra: user.extra,
      until: untilOf(user, known !== null, nowMs),
      seal: known === null ? null : sealOf(key, digest(known)),
      bound: isAccount(user) && token !== null ? boundObjectsOf(await statedClaims(token)) : [],
    }
    const seconds = Math.floor(Math.min(nowMs / 1_000 + LIFE_SECONDS, (claims.until ?? Infinity) / 1_000))
    const ticket = await new SignJWT({ ...claims })
      .setProtectedHeader({ alg: 'HS256', typ: TYPE })
      .setIssuer(cluster)
      .setSubject(user.name)
      .setAudience(path)
      .setExpirationTime(seconds)
      .sign(key)
    if (ticket.length > MAX_TICKET_CHARACTERS) {
      throw new BadRequestError(
        `a ticket with all groups of ${user.name} is too long for a URL: ${ticket.length} characters`,
      )
    }
    return { ticket, expiresAt: seconds * 1_000 }
  }

  /** The authenticator that accepts tickets, for the union of authenticators. */
  get authenticator(): Authenticator {
    const { keys, tokens, objects } = this.options
    return {
      authenticate: async ({ ticket }) => (ticket === undefined ? null : await this.#userOf(ticket)),
      readsTokens: false,
      changesSilently: false,
      onChange(listener) {
        const ends = [
          ...[keys, tokens].map((one) => one?.onChange(() => listener())),
          objects.onGone((uid) => listener(uid === null ? undefined : (user) => isBoundTo(user, uid))),
        ]
        return () => ends.forEach((end) => end?.())
      },
      close: () => keys.close(),
    }
  }

  /** @throws UnauthorizedError, TicketExpiredError, ServiceUnavailableError */
  async #userOf({ text, path, isRead, atMs }: ShownTicket): Promise<User> {
    if (!isRead) throw refused('a ticket only allows reading')
    const { keys, cluster, objects, isReviewed } = this.options
    for (const key of keys.value) {
      const claims = await verify(text, key, { issuer: cluster, audience: path, currentDate: new Date(atMs) })
      if (claims === null) continue
      const { sub, uid, groups, extra, until, seal, bound } = claims
      const user = {
        name: textAt(sub),
        uid: textAt(uid),
        groups: textsAt(groups),
        extra: extra as User['extra'],
        expiresAt: until as number | null,
      }
      if (seal !== null && !this.#isKnown(user, (token) => sealOf(key, token) === seal)) {
        throw refused('the token behind the ticket is not in the token file')
      }
      const standing = await allStand(bound as readonly BoundObject[], objects)
      if (standing === false) throw refused('an object to which the token behind the ticket is bound is gone')
      if (standing === null && !isReviewed) throw unavailable('an object behind the ticket cannot be looked up')
      return user
    }
    throw refused('the ticket is not signed with a known key')
  }

  #isKnown(user: User, isSealed: (token: string) => boolean): boolean {
    const identity = identityKey(user)
    for (const [token, known] of this.options.tokens?.value ?? []) {
      if (known.name === user.name && isSealed(token)) return identityKey(withAuthenticatedGroup(known)) === identity
    }
    return false
  }
}

/** @returns null if another key made the signature. @throws UnauthorizedError, TicketExpiredError */
async function verify(
  text: string,
  key: Buffer,
  expected: { readonly issuer: string; readonly audience: string; readonly currentDate: Date },
): Promise<Record<string, unknown> | null> {
  const { errors, jwtVerify } = await jose()
  try {
    const { payload } = await jwtVerify(text, key, { algorithms: ['HS256'], typ: TYPE, ...expected })
    return payload
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) return null
    if (error instanceof errors.JWTExpired) throw new TicketExpiredError()
    throw new UnauthorizedError('Unauthorized', { cause: error })
  }
}

/** Returns the seal of a token. Without the key, the seal reveals nothing about even a short token. */
function sealOf(key: Buffer, tokenDigest: string): string {
  return createHmac('sha256', key).update('token behind a ticket').update(tokenDigest).digest('base64url')
}

function refused(cause: string): UnauthorizedError {
  return new UnauthorizedError('Unauthorized', { cause })
}

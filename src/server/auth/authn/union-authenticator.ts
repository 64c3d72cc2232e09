/**
 * Combines all configured authenticators. The first one that knows the caller decides. A wrong credential of one kind
 * does not hide a valid one of another kind, but it never falls through to anonymous.
 */
import { ServiceUnavailableError, UnauthorizedError } from '../../../kubernetes/model/status.js'
import { knownStatusOf } from '../../../kubernetes/model/status-of.js'
import type { Clock } from '../../../support/clock.js'
import { ANONYMOUS, type User, withAuthenticatedGroup } from '../user.js'
import { type AuthenticationRequest, type Authenticator, RefusedCredentialError } from './authenticator.js'
import { bearerToken } from './bearer-token.js'
import type { Tickets } from './ticket.js'
import { unknownToken } from './token-file.js'

export interface UnionOptions {
  /** The authenticators, in the order in which they are tried. */
  readonly authenticators: readonly Authenticator[]
  /** Whether a request without any credential is `system:anonymous`; otherwise it gets a 401. */
  readonly anonymous: boolean
  readonly clock: Pick<Clock, 'now'>
  /** Tried before the authenticators. Default: tickets are disabled. */
  readonly tickets?: Tickets | null
  /** The audiences that this server belongs to. Default: none. */
  readonly apiAudiences?: readonly string[]
}

/** A token's user. */
export interface ReviewedToken {
  readonly user: User
  /** The requested audiences that the token is meant for. */
  readonly audiences: readonly string[]
}

/**
 * A user, and whether the bearer token or a front proxy identified the user. A caller may send a token and be identified
 * by another credential.
 */
export interface Authenticated extends User {
  readonly byToken: boolean
  readonly byProxy: boolean
}

/** An authenticator that never returns null. */
export interface UnionAuthenticator extends Omit<Authenticator, 'readsTokens'> {
  /** Whether a caller without any credential is admitted as `system:anonymous`. */
  readonly admitsAnonymous: boolean
  /** null: tickets are disabled. */
  readonly tickets: Tickets | null
  /**
   * @throws UnauthorizedError, always with the message "Unauthorized": the reason (`cause`) is for our log and not for
   * the caller.
   */
  authenticate(request: AuthenticationRequest): Promise<Authenticated>
  /**
   * Judges a token that another caller has presented, by the token alone.
   *
   * @param audiences the token must be meant for one of these audiences; if empty, for this server.
   * @param address the client's address, which gets a fair share of the reviews.
   * @returns null for a token that is not valid.
   * @throws ServiceUnavailableError when it cannot be judged now.
   */
  review(token: string, audiences: readonly string[], address: string): Promise<ReviewedToken | null>
}

export function unionAuthenticator({
  authenticators: others,
  anonymous,
  clock,
  tickets = null,
  apiAudiences = [],
}: UnionOptions): UnionAuthenticator {
  const authenticators = tickets === null ? others : [tickets.authenticator, ...others]
  const isForUs = ({ audiences }: AuthenticationRequest): boolean =>
    audiences === undefined || audiences.some((one) => apiAudiences.includes(one))
  const union: UnionAuthenticator = {
    admitsAnonymous: anonymous,
    tickets,
    async authenticate(request) {
      const token = bearerToken(request)
      const errors: unknown[] = []
      for (const authenticator of authenticators) {
        if (authenticator.comparesAudiences !== true && !isForUs(request)) continue
        try {
          const user = await authenticator.authenticate(request)
          if (user === null) continue
          requireCurrent(user, clock)
          const { readsTokens: byToken, isOfProxy: byProxy = false } = authenticator
          return { ...withAuthenticatedGroup(user), byToken, byProxy }
        } catch (error) {
          if (error instanceof RefusedCredentialError) throw error
          errors.push(error)
        }
      }
      // Report an authenticator that could not decide before a refusal, because the client may then try its credential
      // again.
      const unavailable = errors.find((error) => !(error instanceof UnauthorizedError))
      if (unavailable !== undefined) {
        throw (
          knownStatusOf(unavailable) ??
          new ServiceUnavailableError('authentication is currently unavailable', { cause: unavailable })
        )
      }
      if (errors[0] !== undefined) throw errors[0]
      if (token !== null) throw unknownToken()
      if (anonymous) return NOBODY
      throw new UnauthorizedError('Unauthorized', { cause: 'no credentials' })
    },
    async review(token, wanted, address) {
      const rawHeaders = ['authorization', `Bearer ${token}`]
      const audiences = wanted.length === 0 ? {} : { audiences: wanted }
      try {
        const user = await union.authenticate({ rawHeaders, tlsPeerCertificate: null, address, ...audiences })
        // A string that is not a token at all would otherwise count as the anonymous user.
        if (!user.byToken) return null
        const requested = wanted.length === 0 ? apiAudiences : wanted
        return { user, audiences: user.audiences ?? requested.filter((one) => apiAudiences.includes(one)) }
      } catch (error) {
        if (error instanceof UnauthorizedError) return null
        throw error
      }
    },
    changesSilently: authenticators.some((authenticator) => authenticator.changesSilently),
    onChange(listener) {
      const ends = authenticators.map((authenticator) => authenticator.onChange(listener))
      return () => ends.forEach((end) => end())
    },
    close: () => authenticators.forEach((authenticator) => authenticator.close()),
  }
  return union
}

const NOBODY: Authenticated = { ...ANONYMOUS, byToken: false, byProxy: false }

/** Used when no authenticator is configured: every caller is anonymous, even one that sends a token. */
export const anonymousOnly: UnionAuthenticator = {
  admitsAnonymous: true,
  tickets: null,
  authenticate: async () => NOBODY,
  review: async () => null,
  changesSilently: false,
  onChange: () => () => {},
  close() {},
}

/**
 * TLS checks a client certificate when its connection begins, and the certificate may expire while the connection
 * lives.
 * @throws UnauthorizedError
 */
export function requireCurrent({ expiresAt }: User, clock: Pick<Clock, 'now'>): void {
  if (expiresAt === null || clock.now() < expiresAt) return
  throw new UnauthorizedError('Unauthorized', { cause: 'the credential has expired' })
}

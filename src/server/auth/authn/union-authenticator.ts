/**
 * Combines all configured authenticators. The first one that knows the caller decides. A wrong credential of one kind
 * does not hide a valid one of another kind, but it never falls through to anonymous.
 */
import { ServiceUnavailableError, StatusError, UnauthorizedError } from '../../../engine/model/status.js'
import type { Clock } from '../../../support/clock.js'
import { ANONYMOUS, type User, withAuthenticatedGroup } from '../user.js'
import { type Authenticator, RefusedCredentialError } from './authenticator.js'
import { bearerToken } from './bearer-token.js'
import type { Tickets } from './ticket.js'
import { unknownToken } from './token-file.js'

export interface UnionOptions {
  /** The order in which authenticators are asked. */
  readonly authenticators: readonly Authenticator[]
  /** Whether a request without any credential is `system:anonymous`; otherwise it gets a 401. */
  readonly anonymous: boolean
  readonly clock: Pick<Clock, 'now'>
  /** Asked before the authenticators. Default: tickets are disabled. */
  readonly tickets?: Tickets | null
}

/** A user, and whether the bearer token identified it: a caller may send a token and be identified by something else. */
export interface Authenticated extends User {
  readonly byToken: boolean
}

/** An authenticator that never answers null. */
export interface UnionAuthenticator extends Omit<Authenticator, 'readsTokens'> {
  /** Whether a caller without any credential is let in, as `system:anonymous`. */
  readonly admitsAnonymous: boolean
  /** null: tickets are disabled. */
  readonly tickets: Tickets | null
  /**
   * @throws UnauthorizedError, always with the message "Unauthorized": the reason (`cause`) is for our log, not for
   * the caller.
   */
  authenticate(request: Parameters<Authenticator['authenticate']>[0]): Promise<Authenticated>
}

export function unionAuthenticator({
  authenticators: others,
  anonymous,
  clock,
  tickets = null,
}: UnionOptions): UnionAuthenticator {
  const authenticators = tickets === null ? others : [tickets.authenticator, ...others]
  return {
    admitsAnonymous: anonymous,
    tickets,
    async authenticate(request) {
      const token = bearerToken(request)
      const errors: unknown[] = []
      for (const authenticator of authenticators) {
        try {
          const user = await authenticator.authenticate(request)
          if (user === null) continue
          requireCurrent(user, clock)
          return { ...withAuthenticatedGroup(user), byToken: authenticator.readsTokens }
        } catch (error) {
          if (error instanceof RefusedCredentialError) throw error
          errors.push(error)
        }
      }
      // A credential that could not be checked now may be tried again; one that was refused may not.
      const unavailable = errors.find((error) => !(error instanceof UnauthorizedError))
      if (unavailable !== undefined) {
        throw unavailable instanceof StatusError
          ? unavailable
          : new ServiceUnavailableError('authentication is not possible now', { cause: unavailable })
      }
      if (errors[0] !== undefined) throw errors[0]
      if (token !== null) throw unknownToken()
      if (anonymous) return NOBODY
      throw new UnauthorizedError('Unauthorized', { cause: 'no credentials' })
    },
    changesSilently: authenticators.some((authenticator) => authenticator.changesSilently),
    onChange(listener) {
      const ends = authenticators.map((authenticator) => authenticator.onChange(listener))
      return () => ends.forEach((end) => end())
    },
    close: () => authenticators.forEach((authenticator) => authenticator.close()),
  }
}

const NOBODY: Authenticated = { ...ANONYMOUS, byToken: false }

/** Used when no authenticator is configured: every caller is anonymous, even one that sends a token. */
export const nobodyAsked: UnionAuthenticator = {
  admitsAnonymous: true,
  tickets: null,
  authenticate: async () => NOBODY,
  changesSilently: false,
  onChange: () => () => {},
  close() {},
}

/**
 * TLS checks a client certificate when its connection begins, and the certificate may expire while the connection
 * lives. @throws UnauthorizedError
 */
export function requireCurrent({ expiresAt }: User, clock: Pick<Clock, 'now'>): void {
  if (expiresAt === null || clock.now() < expiresAt) return
  throw new UnauthorizedError('Unauthorized', { cause: 'the credential has expired' })
}

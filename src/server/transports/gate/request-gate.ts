/**
 * The gate in front of every transport. It authenticates the client, counts its requests and authorizes them. While a
 * watch runs, it keeps checking that the watch is still allowed. `credentials.ts` reads what the client shows,
 * `caller.ts` describes the result, and `access-record.ts` writes the access log.
 *
 * A server without authentication and authorization counts no requests, because it knows clients only by address, and
 * thousands of clients may be behind one proxy or NAT.
 */
import type { AccessGuard, Acting, Grant } from '../../auth/access-guard.js'
import type { AuditLog } from '../../auth/audit-log.js'
import { type TrustedProxies, networkOf } from '../../auth/client-address.js'
import { alwaysAllow } from '../../auth/authz/always-allow.js'
import type { Attributes } from '../../auth/authz/authorizer.js'
import type { ReviewJudge } from '../../auth/authz/reviews.js'
import type { EscalationCheck } from '../../auth/authz/escalation.js'
import type { AuthenticationRequest } from '../../auth/authn/authenticator.js'
import type { Authenticated } from '../../auth/authn/union-authenticator.js'
import { bearerToken } from '../../auth/authn/bearer-token.js'
import { refuseImpersonation, wantedUser } from '../../auth/impersonation.js'
import { ALL_UNAUTHENTICATED, ANONYMOUS, identityKey, type User } from '../../auth/user.js'
import { ForbiddenError, StatusError, UnauthorizedError } from '../../../kubernetes/model/status.js'
import type { Clock } from '../../../support/clock.js'
import { unknownResource } from '../../../kubernetes/dialect/request-path.js'
import type { Exchange, AccessResult } from '../exchange/exchange.js'
import { refuseForeignPage } from '../exchange/own-origin.js'
import { lineOf, recordAccess } from './access-record.js'
import { afterWait } from './after-wait.js'
import type { Caller, Confirmable, ForwardedCaller, KnownCaller, Reviewer } from './caller.js'
import { addressOf, type Credentials, credentialsOf } from './credentials.js'
import { identityTurn } from '../limits/arrivals.js'
import { noteIdentity } from '../limits/rapid-resets.js'
import { noteAllowed, noteKnown } from '../limits/idle-connections.js'

export interface RequestGateOptions {
  /** null if the server authenticates no one and allows everything. */
  readonly guard: AccessGuard | null
  /** Checks writes of Roles and bindings; null together with `guard`. */
  readonly escalation: Pick<EscalationCheck, 'confirm'> | null
  /** Counts a request of one identity. @throws TooManyRequestsError, synchronously or later. */
  readonly countRequest: (identity: string) => void | Promise<void>
  readonly proxies: TrustedProxies
  readonly audit: AuditLog | null
  readonly clock: Pick<Clock, 'now'>
}

/** A caller that has been authenticated and counted. */
interface Identified {
  /** The caller itself, which may act as another user. */
  readonly user: Authenticated
  readonly acting: Acting
  readonly credentials: Credentials
  readonly found: AccessResult
}

export class RequestGate {
  constructor(private readonly options: RequestGateOptions) {}

  /** @throws UnauthorizedError, ForbiddenError, TooManyRequestsError, ServiceUnavailableError */
  check(exchange: Exchange, attributes: Attributes): Caller | Promise<Caller> {
    const { guard } = this.options
    if (guard !== null) return this.#checkGuarded(guard, exchange, attributes)
    this.#admitAnybody(exchange, attributes)
    noteAllowed(exchange.request, exchange.response)
    const identity = identityOf(null, this.addressOf(exchange))
    return {
      identity,
      user: null,
      rights: '',
      isAnybody: () => Promise.resolve(true),
      confirm: nothing,
      authorize: allowed,
      may: () => Promise.resolve(true),
      confirmRights: allowed,
      keep: () => nothing,
    }
  }

  async #checkGuarded(guard: AccessGuard, exchange: Exchange, attributes: Attributes): Promise<Caller> {
    const { acting, credentials, found } = await this.#identify(guard, exchange, attributes)
    const identity = identityOf(acting.user, this.addressOf(exchange))
    const grant = await authorized(guard, found, acting, attributes)
    found.rule = grant.decision.rule
    const confirm = (): Promise<void> => confirmed(guard, found, credentials, attributes, grant)
    // Permissions may have changed while the request waited for its turn.
    await confirm()
    noteAllowed(exchange.request, exchange.response)
    return {
      identity,
      user: acting.user,
      rights: identityKey(acting.user),
      // The response to a URL with a ticket is for the ticket's holder only.
      isAnybody: async () =>
        credentials.ticket === undefined && (await guard.letsAnybody(attributes).catch(() => false)),
      confirm,
      authorize: async (more) => void (await authorized(guard, found, acting, more)),
      may: async (other) => {
        try {
          return (await guard.decide(acting.user, other)).allowed
        } catch {
          return false
        }
      },
      confirmRights: async (write) => await this.options.escalation?.confirm(acting.user, write),
      keep: (revoked) => guard.keep(credentials, attributes, grant, revoked),
    }
  }

  /**
   * Admits a request if the server authenticates no one.
   * @throws ForbiddenError for a request that impersonates someone, and for a foreign page.
   */
  #admitAnybody(exchange: Exchange, attributes: Attributes): void {
    if (this.options.audit !== null) this.#resultOf(exchange, attributes)
    refuseForeignPage(exchange, attributes.verb, false)
    refuseImpersonation(exchange.request.rawHeaders)
  }

  /**
   * Finds out who is calling and which user the caller acts as, and waits for that user's turn.
   * @throws UnauthorizedError, ForbiddenError, TooManyRequestsError, ServiceUnavailableError
   */
  async #identify(guard: AccessGuard, exchange: Exchange, attributes: Attributes): Promise<Identified> {
    const credentials = this.#credentialsOf(exchange)
    const found = this.#resultOf(exchange, attributes)
    const user = await this.#authenticate(guard, credentials, exchange)
    found.client = { user, impersonator: null }
    const acting = await this.#actingAs(guard, user, credentials, attributes, found)
    found.client = acting
    refuseForeignPage(exchange, attributes.verb, user.byProxy)
    return { user, acting, credentials, found }
  }

  /** Whether anonymous callers may do this. @throws ServiceUnavailableError while that is unknown. */
  async letsAnybody(attributes: Attributes): Promise<boolean> {
    return (await this.options.guard?.letsAnybody(attributes)) ?? true
  }

  /**
   * A rejected credential counts as a request from its address, because no user is known. So 401s are rate-limited.
   * @throws UnauthorizedError, TooManyRequestsError, ServiceUnavailableError
   */
  async #authenticate(
    guard: AccessGuard,
    credentials: Credentials,
    { request, response }: Exchange,
  ): Promise<Authenticated> {
    try {
      const user = await guard.authenticate(credentials)
      if (!user.groups.includes(ALL_UNAUTHENTICATED)) {
        noteIdentity(request, user.name)
        noteKnown(request, response, user.name)
      }
      return user
    } catch (error) {
      if (error instanceof UnauthorizedError) await this.options.countRequest(networkOf(credentials.address))
      throw error
    }
  }

  /**
   * Counts the request for the user whose permissions it uses, so that users behind a gateway do not share one limit,
   * and waits for that user's turn.
   */
  async #actingAs(
    guard: AccessGuard,
    caller: User,
    credentials: Credentials,
    on: Attributes,
    found: AccessResult,
  ): Promise<Acting> {
    let user = caller
    try {
      const acting = await guard.actingAs(caller, credentials, on)
      user = acting.user
      return acting
    } finally {
      await this.#count(found, user, credentials.address)
    }
  }

  /** A request that is rerouted passes the gate again, but is counted only once. */
  async #count(found: AccessResult, user: User | null, address: string): Promise<void> {
    if (found.isCounted) return
    found.isCounted = true
    const identity = identityOf(user, address)
    await this.options.countRequest(identity)
    if (found.client !== null) await identityTurn(identity, address)
  }

  /**
   * Admits an access review. Every authenticated caller may ask about itself; asking about others, or anonymously,
   * requires `create` on the review.
   *
   * @throws UnauthorizedError, ForbiddenError, TooManyRequestsError, ServiceUnavailableError
   */
  async checkReview(exchange: Exchange, attributes: Attributes, isSelf: boolean): Promise<Reviewer> {
    const { guard } = this.options
    if (guard === null) {
      this.#admitAnybody(exchange, attributes)
      return { user: ANONYMOUS, address: this.addressOf(exchange), judge: EVERYTHING, confirm: nothing }
    }
    const { acting, credentials, found } = await this.#identify(guard, exchange, attributes)
    const needsNoRight = isSelf && !acting.user.groups.includes(ALL_UNAUTHENTICATED)
    const needed = needsNoRight ? null : attributes
    found.rule =
      needed === null ? 'a review of its own permissions' : (await guard.authorize(acting, needed)).decision.rule
    const confirm = (): Promise<void> => confirmed(guard, found, credentials, needed, acting)
    return { user: acting.user, address: credentials.address, judge: guard, confirm }
  }

  /**
   * Admits a request that needs no permission, or whose permissions are known later.
   * @throws UnauthorizedError, ForbiddenError, TooManyRequestsError, ServiceUnavailableError
   */
  async checkKnown(exchange: Exchange, attributes: Attributes): Promise<KnownCaller> {
    const { guard } = this.options
    const address = this.addressOf(exchange)
    if (guard === null) {
      this.#admitAnybody(exchange, attributes)
      noteAllowed(exchange.request, exchange.response)
      return { identity: identityOf(null, address), isAnonymous: false, confirm: nothing }
    }
    const { acting, credentials, found } = await this.#identify(guard, exchange, attributes)
    found.rule = 'no permission needed'
    noteAllowed(exchange.request, exchange.response)
    return {
      identity: identityOf(acting.user, address),
      isAnonymous: acting.user.groups.includes(ALL_UNAUTHENTICATED),
      confirm: () => confirmed(guard, found, credentials, null, acting),
    }
  }

  /**
   * Authenticates the client of a request that another server answers; that server authorizes it.
   * @throws UnauthorizedError, ForbiddenError for a foreign page, TooManyRequestsError, ServiceUnavailableError
   */
  async checkForwarded(exchange: Exchange, attributes: Attributes): Promise<ForwardedCaller> {
    const { guard } = this.options
    const address = this.addressOf(exchange)
    const credentials = this.#credentialsOf(exchange)
    const found = this.#resultOf(exchange, attributes)
    // A forwarded ticket would appear in the other server's log.
    if (credentials.ticket !== undefined)
      throw new UnauthorizedError('Unauthorized', { cause: 'a ticket is not forwarded' })
    const user = guard === null ? null : await this.#authenticate(guard, credentials, exchange)
    if (user !== null) found.client = { user, impersonator: null }
    await this.#count(found, user, address)
    refuseForeignPage(exchange, attributes.verb, user?.byProxy === true)
    found.rule = 'forwarded'
    noteAllowed(exchange.request, exchange.response)
    const isAnonymous = user?.groups.includes(ALL_UNAUTHENTICATED) === true
    return { identity: identityOf(user, address), user, isAnonymous, byToken: user?.byToken === true, address }
  }

  /**
   * Makes a ticket for one path. The ticket identifies the caller without a header, and gives no permission that the
   * caller does not have.
   * @throws UnauthorizedError, ForbiddenError, NotFoundError, TooManyRequestsError, ServiceUnavailableError
   */
  async issueTicket(
    exchange: Exchange,
    attributes: Attributes,
    readPath: () => Promise<string>,
  ): Promise<{ readonly ticket: string; readonly path: string; readonly expiresAt: number }> {
    const { guard } = this.options
    // The access log has a line for every request, including those that end here.
    this.#resultOf(exchange, attributes)
    if (guard?.tickets === null || guard === null) throw unknownResource()
    // A ticket would outlive the permission to act as another user.
    if (wantedUser(exchange.request.rawHeaders) !== null)
      throw new ForbiddenError('a ticket is for its caller: request it without impersonation', { details: {} })
    const { user, acting, credentials, found } = await this.#identify(guard, exchange, attributes)
    if (user.groups.includes(ALL_UNAUTHENTICATED)) {
      throw new UnauthorizedError('Unauthorized', { cause: 'an anonymous caller cannot get a ticket' })
    }
    found.rule = 'a ticket for itself'
    const path = await afterWait({ confirm: () => confirmed(guard, found, credentials, null, acting) }, readPath)
    const token = user.byToken ? bearerToken(credentials) : null
    return { ...(await guard.tickets.issue(user, token, path)), path }
  }

  /**
   * Checks one of the many parts of a long request, such as one watch of a stream. Each counts as a request, and has a
   * line in the access log, in addition to that of the whole request, which stays as the first part left it. A part that
   * is refused when it is confirmed has a second line.
   * @param whole the verdict on the request so far.
   */
  async checkPart<T extends Confirmable>(
    exchange: Exchange,
    whole: AccessResult,
    attributes: Attributes,
    check: () => Promise<T>,
  ): Promise<T> {
    const { audit, guard } = this.options
    const startedMs = performance.now()
    const part = { ...whole, rule: null, attributes, isCounted: false }
    const record = (code: number): void => {
      const line = lineOf(exchange, part, this.addressOf(exchange), guard !== null)
      audit?.write({ ...line, code, latencySeconds: (performance.now() - startedMs) / 1000 })
    }
    const recordRefusal = async <R>(judge: () => R | Promise<R>): Promise<R> => {
      try {
        return await judge()
      } catch (error) {
        record(error instanceof StatusError ? error.code : 500)
        throw error
      }
    }
    exchange.access = part
    try {
      const admitted = await recordRefusal(check)
      record(200)
      return { ...admitted, confirm: () => recordRefusal(() => afterWait(admitted, nothing)) }
    } finally {
      exchange.access = whole
    }
  }

  #credentialsOf(exchange: Exchange): Credentials {
    const { guard, proxies, clock } = this.options
    return credentialsOf(exchange, proxies, (guard?.tickets ?? null) === null ? null : clock.now())
  }

  /** Returns the client's address: the peer's, or the one that a trusted proxy reports. */
  addressOf(exchange: Pick<Exchange, 'request' | 'address'>): string {
    return addressOf(exchange, this.options.proxies)
  }

  /** Returns the gate's verdict on the request, which goes into the access log. */
  #resultOf(exchange: Exchange, attributes: Attributes): AccessResult {
    if (exchange.access === null) {
      exchange.access = { client: null, rule: null, attributes, isCounted: false }
      const { audit, guard } = this.options
      const address = this.addressOf(exchange)
      if (audit !== null) recordAccess(audit, exchange, exchange.access, address, guard !== null)
    }
    return exchange.access
  }
}

/** The judge for a server without authentication: everyone may do everything. */
const EVERYTHING: ReviewJudge = {
  decide: (user, attributes) => alwaysAllow.authorize(user, attributes),
  rulesFor: (user, namespace) => alwaysAllow.rulesFor(user, namespace),
  reviewToken: () => Promise.resolve(null),
}

/**
 * Returns the name under which a request is counted: the user's name, or an anonymous client's address (for IPv6, its
 * network).
 */
function identityOf(user: User | null, address: string): string {
  return user === null || user.groups.includes(ALL_UNAUTHENTICATED) ? networkOf(address) : user.name
}

/** Like `AccessGuard.authorize`; the access log records a rejection, with what was rejected. */
async function authorized(
  guard: AccessGuard,
  found: AccessResult,
  acting: Acting,
  attributes: Attributes,
): Promise<Grant> {
  try {
    return await guard.authorize(acting, attributes)
  } catch (error) {
    found.rule = null
    found.attributes = attributes
    throw error
  }
}

/** Like `AccessGuard.confirm`; the access log records a later rejection. */
async function confirmed(
  guard: AccessGuard,
  found: AccessResult,
  credentials: AuthenticationRequest,
  attributes: Attributes | null,
  acting: Acting,
): Promise<void> {
  try {
    await guard.confirm(credentials, attributes, acting)
  } catch (error) {
    found.rule = null
    throw error
  }
}

const nothing = (): undefined => {}
const allowed = (): Promise<void> => Promise.resolve()

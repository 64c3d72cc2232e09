/**
 * The gate in front of every transport. It determines a client's address, authenticates the client, counts its requests
 * and authorizes them. While a watch runs, it keeps checking that the watch is still allowed.
 *
 * A server without authentication and authorization counts no requests, because it knows clients only by address, and
 * thousands of clients may be behind one proxy or NAT.
 */
import type { IncomingMessage } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import { TLSSocket } from 'node:tls'
import type { AccessGuard, Acting } from '../../auth/access-guard.js'
import type { AuditLog } from '../../auth/audit-log.js'
import { type TrustedProxies, clientAddress, networkOf } from '../../auth/client-address.js'
import { alwaysAllow } from '../../auth/authz/always-allow.js'
import type { Attributes } from '../../auth/authz/authorizer.js'
import type { ReviewJudge } from '../../auth/authz/reviews.js'
import type { EscalationCheck, RightsWrite } from '../../auth/authz/escalation.js'
import type { AuthenticationRequest } from '../../auth/authn/authenticator.js'
import type { Authenticated } from '../../auth/authn/union-authenticator.js'
import { bearerToken } from '../../auth/authn/bearer-token.js'
import { refuseImpersonation } from '../../auth/impersonation.js'
import { type PeerCertificate, peerCertificateOf } from '../../auth/peer-certificate.js'
import { ALL_UNAUTHENTICATED, ANONYMOUS, identityKey, type User } from '../../auth/user.js'
import { type StatusError, UnauthorizedError } from '../../../engine/model/status.js'
import type { Clock } from '../../../support/clock.js'
import { oncePer } from '../../../support/memo.js'
import { unknownResource } from '../../../kubernetes/dialect/request-path.js'
import type { Exchange, Judgement } from '../server/exchange.js'
import { identityTurn } from './arrivals.js'
import { noteIdentity } from './rapid-resets.js'
import { noteAllowed, noteKnown } from './idle-connections.js'

export interface RequestGateOptions {
  /** null if the server authenticates no one and allows everything. */
  readonly guard: AccessGuard | null
  /** Checks writes of Roles and bindings; null together with `guard`. */
  readonly escalation: Pick<EscalationCheck, 'confirm'> | null
  /** Counts a request of one identity. @throws TooManyRequestsError, synchronously or later. */
  readonly countRequest: (identity: string) => void | Promise<void>
  /** Counts the bytes of lists and initial states that are sent to one identity. @returns milliseconds to wait. */
  readonly spendInitialBytes: (identity: string, bytes: number) => number
  readonly proxies: TrustedProxies
  readonly audit: AuditLog | null
  readonly clock: Pick<Clock, 'now'>
}

/** An admitted request that may have to wait before it is answered. */
export interface Confirmable {
  /**
   * Checks again that the request is allowed; call it after a wait, before the response begins.
   * @returns undefined when nothing can have changed, so that a request that did not wait stays synchronous.
   * @throws UnauthorizedError, possibly synchronously; ForbiddenError, ServiceUnavailableError
   */
  confirm(): Promise<void> | undefined
}

/** The client of a request that has passed the gate. */
export interface Caller extends Confirmable {
  /** The name under which limits count the client: the user's name, or the address of an anonymous client. */
  readonly identity: string
  /**
   * Equal for callers with the same name, uid, groups and extra, who therefore have the same permissions; '' if the
   * server authenticates no one.
   */
  readonly rights: string
  /** Whether anyone may make this request; false while that is unknown. */
  isAnybody(): Promise<boolean>
  /** Counts the bytes of a list or initial state. @returns milliseconds to wait before sending more. */
  readonly pace: (bytes: number) => number
  /**
   * Checks a further permission, such as `create` for a PUT that would create an object.
   * @throws ForbiddenError, ServiceUnavailableError
   */
  authorize(attributes: Attributes): Promise<void>
  /**
   * Rejects a write of a Role or binding that grants more than the caller has.
   * @throws ForbiddenError, NotFoundError
   */
  confirmRights(write: RightsWrite): Promise<void>
  /** Keeps checking that a running request is still allowed. @returns a function that ends the checks. */
  keep(revoked: (error: StatusError) => void): () => void
}

/** The client of an access review, and the judge that answers it. */
export interface Reviewer extends Confirmable {
  readonly user: User
  readonly address: string
  readonly judge: ReviewJudge
}

/** The client of a request that another server answers. */
export interface ForwardedCaller {
  /** null if this server authenticates no one. */
  readonly user: User | null
  readonly isAnonymous: boolean
  /**
   * Whether this server authenticated the caller by the caller's own Authorization header. If not, the other server
   * would see a different caller in that header.
   */
  readonly byToken: boolean
  readonly address: string
}

type Credentials = AuthenticationRequest & { readonly address: string }

/** A caller that has been authenticated and counted. */
interface Identified {
  /** The caller itself, which may act as another user. */
  readonly user: Authenticated
  readonly acting: Acting
  readonly credentials: Credentials
  readonly found: Judgement
}

type Decided = 'allow' | 'forbid' | 'unauthenticated' | 'none'

export class RequestGate {
  readonly #options: RequestGateOptions
  /** A connection's certificate does not change, so it is read once. */
  readonly #certificateOn = oncePer(peerCertificateOf)

  constructor(options: RequestGateOptions) {
    this.#options = options
  }

  /** @throws UnauthorizedError, ForbiddenError, TooManyRequestsError, ServiceUnavailableError */
  check(exchange: Exchange, attributes: Attributes): Caller | Promise<Caller> {
    const { guard, spendInitialBytes } = this.#options
    if (guard !== null) return this.#checkGuarded(guard, exchange, attributes)
    this.#admitAnybody(exchange, attributes)
    noteAllowed(exchange.request, exchange.response)
    const identity = identityOf(null, this.addressOf(exchange))
    return {
      identity,
      rights: '',
      isAnybody: () => Promise.resolve(true),
      confirm: nothing,
      pace: (bytes) => spendInitialBytes(identity, bytes),
      authorize: allowed,
      confirmRights: allowed,
      keep: () => nothing,
    }
  }

  async #checkGuarded(guard: AccessGuard, exchange: Exchange, attributes: Attributes): Promise<Caller> {
    const { acting, credentials, found } = await this.#identify(guard, exchange, attributes)
    const identity = identityOf(acting.user, this.addressOf(exchange))
    const grant = await guard.authorize(acting, attributes)
    found.rule = grant.decision.rule
    const confirm = (): Promise<void> | undefined => confirmed(guard, found, credentials, attributes, grant)
    // Permissions may have changed while the request waited for its turn.
    await confirm()
    noteAllowed(exchange.request, exchange.response)
    return {
      identity,
      rights: identityKey(acting.user),
      // The response to a URL with a ticket is for the ticket's holder only.
      isAnybody: async () =>
        credentials.ticket === undefined && (await guard.letsAnybody(attributes).catch(() => false)),
      confirm,
      pace: (bytes) => this.#options.spendInitialBytes(identity, bytes),
      authorize: async (more) => void (await guard.authorize(acting, more)),
      confirmRights: async (write) => await this.#options.escalation?.confirm(acting.user, write),
      keep: (revoked) => guard.keep(credentials, attributes, grant, revoked),
    }
  }

  /**
   * Admits a request if the server authenticates no one.
   * @throws ForbiddenError for a request that impersonates someone.
   */
  #admitAnybody(exchange: Exchange, attributes: Attributes): void {
    if (this.#options.audit !== null) this.#judgementOf(exchange, attributes)
    refuseImpersonation(exchange.request.rawHeaders)
  }

  /**
   * Finds out who is calling and which user the caller acts as, and waits for that user's turn.
   * @throws UnauthorizedError, ForbiddenError, TooManyRequestsError, ServiceUnavailableError
   */
  async #identify(guard: AccessGuard, exchange: Exchange, attributes: Attributes): Promise<Identified> {
    const credentials = this.#credentialsOf(exchange)
    const found = this.#judgementOf(exchange, attributes)
    const user = await this.#authenticate(guard, credentials, exchange)
    found.client = { user, impersonator: null }
    const acting = await this.#actingAs(guard, user, credentials, attributes, found)
    found.client = acting
    return { user, acting, credentials, found }
  }

  /** Whether anonymous callers may do this. @throws ServiceUnavailableError while that is unknown. */
  async letsAnybody(attributes: Attributes): Promise<boolean> {
    return (await this.#options.guard?.letsAnybody(attributes)) ?? true
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
      if (error instanceof UnauthorizedError) await this.#options.countRequest(networkOf(credentials.address))
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
    found: Judgement,
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
  async #count(found: Judgement, user: User | null, address: string): Promise<void> {
    if (found.isCounted) return
    found.isCounted = true
    const identity = identityOf(user, address)
    await this.#options.countRequest(identity)
    if (found.client !== null) await identityTurn(identity, address)
  }

  /**
   * Admits an access review. Every authenticated caller may ask about itself; asking about others, or anonymously,
   * requires `create` on the review.
   *
   * @throws UnauthorizedError, ForbiddenError, TooManyRequestsError, ServiceUnavailableError
   */
  async checkReview(exchange: Exchange, attributes: Attributes, isSelf: boolean): Promise<Reviewer> {
    const { guard } = this.#options
    if (guard === null) {
      this.#admitAnybody(exchange, attributes)
      return { user: ANONYMOUS, address: this.addressOf(exchange), judge: EVERYTHING, confirm: nothing }
    }
    const { acting, credentials, found } = await this.#identify(guard, exchange, attributes)
    const needsNoRight = isSelf && !acting.user.groups.includes(ALL_UNAUTHENTICATED)
    const needed = needsNoRight ? null : attributes
    found.rule =
      needed === null ? 'a review of its own permissions' : (await guard.authorize(acting, needed)).decision.rule
    const confirm = (): Promise<void> | undefined => confirmed(guard, found, credentials, needed, acting)
    return { user: acting.user, address: credentials.address, judge: guard, confirm }
  }

  /**
   * Authenticates the client of a request that another server answers; that server authorizes it.
   * @throws UnauthorizedError, TooManyRequestsError, ServiceUnavailableError
   */
  async checkForwarded(exchange: Exchange, attributes: Attributes): Promise<ForwardedCaller> {
    const { guard } = this.#options
    const address = this.addressOf(exchange)
    const credentials = this.#credentialsOf(exchange)
    const found = this.#judgementOf(exchange, attributes)
    // A forwarded ticket would appear in the other server's log.
    if (credentials.ticket !== undefined)
      throw new UnauthorizedError('Unauthorized', { cause: 'a ticket is not forwarded' })
    const user = guard === null ? null : await this.#authenticate(guard, credentials, exchange)
    if (user !== null) found.client = { user, impersonator: null }
    await this.#count(found, user, address)
    found.rule = 'forwarded'
    noteAllowed(exchange.request, exchange.response)
    const isAnonymous = user?.groups.includes(ALL_UNAUTHENTICATED) === true
    return { user, isAnonymous, byToken: user?.byToken === true, address }
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
    const { guard } = this.#options
    // The access log has a line for every request, including those that end here.
    this.#judgementOf(exchange, attributes)
    if (guard?.tickets === null || guard === null) throw unknownResource()
    // A ticket would outlive the permission to act as another user.
    refuseImpersonation(exchange.request.rawHeaders)
    const { user, acting, credentials, found } = await this.#identify(guard, exchange, attributes)
    if (user.groups.includes(ALL_UNAUTHENTICATED)) {
      throw new UnauthorizedError('Unauthorized', { cause: 'an anonymous caller cannot get a ticket' })
    }
    found.rule = 'a ticket for itself'
    const path = await readPath()
    await confirmed(guard, found, credentials, null, acting)
    const token = user.byToken ? bearerToken(credentials) : null
    return { ...(await guard.tickets.issue(user, token, path)), path }
  }

  /** Collects the caller's credentials. No cache may keep a response to a request with a ticket. */
  #credentialsOf(exchange: Exchange): Credentials {
    const { request, path, query } = exchange
    const address = this.addressOf(exchange)
    const credentials = { rawHeaders: request.rawHeaders, tlsPeerCertificate: this.#certificateOf(request), address }
    const shown = (this.#options.guard?.tickets ?? null) === null ? [] : query.getAll('ticket')
    if (shown.length === 0) return credentials
    exchange.headers['cache-control'] = 'private, no-store'
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    // Two tickets count as none.
    const text = shown.length > 1 ? '' : shown[0]!
    return { ...credentials, ticket: { text, path, isRead, atMs: this.#options.clock.now() } }
  }

  /** Returns the gate's verdict on the request, which goes into the access log. */
  #judgementOf(exchange: Exchange, attributes: Attributes): Judgement {
    if (exchange.judgement === null) {
      exchange.judgement = { client: null, rule: null, isCounted: false }
      this.#audit(exchange, attributes, exchange.judgement)
    }
    return exchange.judgement
  }

  /** Writes the access log's line when the response is complete, since its code and latency are known only then. */
  #audit(exchange: Exchange, attributes: Attributes, found: Judgement): void {
    const { audit, guard } = this.#options
    if (audit === null) return
    const { startedMs, request } = exchange
    const address = this.addressOf(exchange)
    const transport = transportOf(request)
    const userAgent = request.headers['user-agent'] ?? ''
    exchange.response.once('close', () => {
      const { client, rule } = found
      const user = client?.impersonator ?? client?.user
      const impersonated =
        client === null || client.impersonator === null
          ? {}
          : { impersonatedUser: client.user.name, impersonatedGroups: client.user.groups }
      const decision: Decided =
        guard === null ? 'none' : client === null ? 'unauthenticated' : rule === null ? 'forbid' : 'allow'
      audit.write({
        user: user?.name ?? '',
        groups: user?.groups ?? [],
        ...impersonated,
        sourceAddress: address,
        userAgent,
        transport,
        verb: attributes.verb,
        group: attributes.group,
        resource: attributes.resource,
        subresource: attributes.subresource,
        namespace: attributes.namespace,
        name: attributes.name,
        path: exchange.path,
        code: exchange.statusCode,
        latencySeconds: (performance.now() - startedMs) / 1000,
        decision,
        rule,
      })
    })
  }

  /** Returns the client's address: the peer's, or the one that a trusted proxy reports. */
  addressOf(exchange: Pick<Exchange, 'request' | 'address'>): string {
    return (exchange.address ??= this.#findAddress(exchange.request))
  }

  #findAddress({ socket, rawHeaders }: IncomingMessage): string {
    const peer = socket.remoteAddress ?? ''
    const { proxies } = this.#options
    if (!proxies.has(peer)) return peer
    const forwarded: string[] = []
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
      if (rawHeaders[i]!.toLowerCase() === 'x-forwarded-for') forwarded.push(rawHeaders[i + 1]!)
    }
    return clientAddress(peer, forwarded, proxies)
  }

  #certificateOf(request: IncomingMessage): PeerCertificate | null {
    const socket = tlsSocketOf(request)
    return socket === null ? null : this.#certificateOn(socket)
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

/** Like `AccessGuard.confirm`; the access log records a later rejection. */
function confirmed(
  guard: AccessGuard,
  found: Judgement,
  credentials: AuthenticationRequest,
  attributes: Attributes | null,
  acting: Acting,
): Promise<void> | undefined {
  const refuse = (error: unknown): never => {
    found.rule = null
    throw error
  }
  try {
    return guard.confirm(credentials, attributes, acting)?.catch(refuse)
  } catch (error) {
    return refuse(error)
  }
}

const nothing = (): undefined => {}
const allowed = (): Promise<void> => Promise.resolve()

/** The socket of an HTTP/2 request is a proxy object; the session of its stream has the real socket. */
function tlsSocketOf(request: IncomingMessage): TLSSocket | null {
  const { stream } = request as { stream?: ServerHttp2Stream }
  const socket = stream === undefined ? request.socket : stream.session?.socket
  if (stream === undefined) return socket instanceof TLSSocket ? socket : null
  return stream.session?.encrypted === true ? (socket as TLSSocket) : null
}

function transportOf(request: IncomingMessage): string {
  if (request.headers.upgrade !== undefined) return 'websocket'
  return request.httpVersionMajor === 2 ? 'http2' : 'http1'
}

/**
 * The gate in front of every transport: it finds out a client's address, authenticates the client, counts its requests
 * and authorizes what it asks for; while a watch runs, it keeps checking that the watch is still allowed.
 *
 * A server that authenticates nobody and allows everything counts no requests, because an address is all that is known, and
 * behind one proxy or NAT there are thousands of clients.
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
import { refuseImpersonation } from '../../auth/impersonation.js'
import { type PeerCertificate, peerCertificateOf } from '../../auth/peer-certificate.js'
import { ALL_UNAUTHENTICATED, ANONYMOUS, identityKey, type User } from '../../auth/user.js'
import { type StatusError, UnauthorizedError } from '../../../engine/model/status.js'
import type { Exchange, Judgement } from '../server/exchange.js'
import { identityTurn } from './arrivals.js'
import { noteIdentity } from './rapid-resets.js'

export interface RequestGateOptions {
  /** null: nobody is authenticated, and everything is allowed. */
  readonly guard: AccessGuard | null
  /** Judges writes of Roles and bindings; null together with `guard`. */
  readonly escalation: Pick<EscalationCheck, 'confirm'> | null
  /** Counts a request of one identity. @throws TooManyRequestsError, at once or later. */
  readonly countRequest: (identity: string) => void | Promise<void>
  /** Counts bytes of lists and initial states of one identity. @returns milliseconds to wait. */
  readonly spendInitialBytes: (identity: string, bytes: number) => number
  readonly proxies: TrustedProxies
  readonly audit: AuditLog | null
}

/** A request that was let in, and may have to wait before it is answered. */
export interface Confirmable {
  /**
   * Checks again that the request is allowed: to be called after a wait, before the answer begins.
   * @returns undefined when nothing can have changed, so that a request that did not wait is not made to.
   * @throws UnauthorizedError, which may be at once; ForbiddenError, ServiceUnavailableError
   */
  confirm(): Promise<void> | undefined
}

/** The client of one request that has passed the gate. */
export interface Caller extends Confirmable {
  /** The name that its limits are counted under: the user, or the address of an anonymous client. */
  readonly identity: string
  /** Equal for callers with the same name, uid, groups and extra, whose rights are therefore the same; '' where nobody is authenticated. */
  readonly rights: string
  /** Whether anybody may do what this caller does; false while that cannot be said. */
  isAnybody(): Promise<boolean>
  /** Counts bytes of a list or initial state. @returns milliseconds to wait before more is sent. */
  readonly pace: (bytes: number) => number
  /** Checks a further permission, such as `create` for a PUT that would create. @throws ForbiddenError, ServiceUnavailableError */
  authorize(attributes: Attributes): Promise<void>
  /** Refuses to write a Role or binding that gives away more than the caller has. @throws ForbiddenError, NotFoundError */
  confirmRights(write: RightsWrite): Promise<void>
  /** Keeps checking a running request. @returns a function that ends the checks. */
  keep(revoked: (error: StatusError) => void): () => void
}

/** The client of an access review, and who answers it. */
export interface Reviewer extends Confirmable {
  readonly user: User
  readonly judge: ReviewJudge
}

/** The client of a request that another server answers. */
export interface ForwardedCaller {
  /** null: this server authenticates nobody. */
  readonly user: User | null
  readonly isAnonymous: boolean
  /** Whether the caller's own Authorization is what it is known by: otherwise the other server would see somebody else. */
  readonly byToken: boolean
  readonly address: string
}

type Decided = 'allow' | 'forbid' | 'unauthenticated' | 'none'

export class RequestGate {
  readonly #options: RequestGateOptions
  /** A connection's certificate does not change, so it is read once. */
  readonly #certificates = new WeakMap<TLSSocket, { readonly peer: PeerCertificate | null }>()

  constructor(options: RequestGateOptions) {
    this.#options = options
  }

  /** @throws UnauthorizedError, ForbiddenError, TooManyRequestsError, ServiceUnavailableError */
  check(exchange: Exchange, attributes: Attributes): Caller | Promise<Caller> {
    const { guard, spendInitialBytes, audit } = this.#options
    const address = this.addressOf(exchange)
    if (guard === null) {
      if (audit !== null) this.#judgementOf(exchange, attributes, address)
      refuseImpersonation(exchange.request.rawHeaders)
      const identity = identityOf(null, address)
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
    return this.#checkGuarded(guard, exchange, attributes, address)
  }

  async #checkGuarded(
    guard: AccessGuard,
    exchange: Exchange,
    attributes: Attributes,
    address: string,
  ): Promise<Caller> {
    const { request } = exchange
    const asked: AuthenticationRequest = {
      rawHeaders: request.rawHeaders,
      tlsPeerCertificate: this.#certificateOf(request),
      address,
    }
    const found = this.#judgementOf(exchange, attributes, address)
    const user = await this.#authenticate(guard, asked, address, request)
    found.client = { user, impersonator: null }
    const acting = await this.#actingAs(guard, user, asked, address, found)
    found.client = acting
    const identity = identityOf(acting.user, address)
    const grant = await guard.authorize(acting, attributes)
    found.rule = grant.decision.rule
    const confirm = (): Promise<void> | undefined => confirmed(guard, found, asked, attributes, grant)
    // It has waited for its turn.
    await confirm()
    return {
      identity,
      rights: identityKey(acting.user),
      isAnybody: () => guard.letsAnybody(attributes).catch(() => false),
      confirm,
      pace: (bytes) => this.#options.spendInitialBytes(identity, bytes),
      authorize: async (more) => void (await guard.authorize(acting, more)),
      confirmRights: async (write) => await this.#options.escalation?.confirm(acting.user, write),
      keep: (revoked) => guard.keep(asked, attributes, grant, revoked),
    }
  }

  /** Whether anybody may do this without a name. @throws ServiceUnavailableError when that cannot be said now. */
  async letsAnybody(attributes: Attributes): Promise<boolean> {
    return (await this.#options.guard?.letsAnybody(attributes)) ?? true
  }

  /**
   * A refused credential counts as a request of its address, because it has no other name: 401s have a rate.
   * @throws UnauthorizedError, TooManyRequestsError, ServiceUnavailableError
   */
  async #authenticate(
    guard: AccessGuard,
    asked: AuthenticationRequest,
    address: string,
    request: IncomingMessage,
  ): Promise<Authenticated> {
    try {
      const user = await guard.authenticate(asked)
      if (!user.groups.includes(ALL_UNAUTHENTICATED)) noteIdentity(request, user.name)
      return user
    } catch (error) {
      if (error instanceof UnauthorizedError) await this.#options.countRequest(networkOf(address))
      throw error
    }
  }

  /**
   * Counts the request for the user whose rights it uses, so that the users behind a gateway do not share one limit, and waits for
   * the user's turn.
   */
  async #actingAs(
    guard: AccessGuard,
    caller: User,
    asked: AuthenticationRequest,
    address: string,
    found: Judgement,
  ): Promise<Acting> {
    let user = caller
    try {
      const acting = await guard.actingAs(caller, asked)
      user = acting.user
      return acting
    } finally {
      await this.#count(found, identityOf(user, address), address)
    }
  }

  /** A request that is answered otherwise than was meant at first passes the gate again, and is counted once. */
  async #count(found: Judgement, identity: string, address: string): Promise<void> {
    if (found.isCounted) return
    found.isCounted = true
    await this.#options.countRequest(identity)
    if (found.client !== null) await identityTurn(identity, address)
  }

  /**
   * Lets a client ask for a review. What it may do itself anybody may ask who has a name; the rights of others, and those of
   * anonymous clients, only who may `create` the review.
   *
   * @throws UnauthorizedError, ForbiddenError, TooManyRequestsError, ServiceUnavailableError
   */
  async checkReview(exchange: Exchange, attributes: Attributes, isSelf: boolean): Promise<Reviewer> {
    const { guard, audit } = this.#options
    const { request } = exchange
    const address = this.addressOf(exchange)
    if (guard === null) {
      if (audit !== null) this.#judgementOf(exchange, attributes, address)
      refuseImpersonation(request.rawHeaders)
      return { user: ANONYMOUS, judge: EVERYTHING, confirm: nothing }
    }
    const asked = { rawHeaders: request.rawHeaders, tlsPeerCertificate: this.#certificateOf(request) }
    const found = this.#judgementOf(exchange, attributes, address)
    const user = await this.#authenticate(guard, asked, address, request)
    found.client = { user, impersonator: null }
    const acting = await this.#actingAs(guard, user, asked, address, found)
    found.client = acting
    const needsNoRight = isSelf && !acting.user.groups.includes(ALL_UNAUTHENTICATED)
    const needed = needsNoRight ? null : attributes
    found.rule = needed === null ? 'a review of its own rights' : (await guard.authorize(acting, needed)).decision.rule
    return { user: acting.user, judge: guard, confirm: () => confirmed(guard, found, asked, needed, acting) }
  }

  /**
   * Authenticates the client of a request that another server answers; that server authorizes it.
   * @throws UnauthorizedError, TooManyRequestsError, ServiceUnavailableError
   */
  async checkForwarded(exchange: Exchange, attributes: Attributes): Promise<ForwardedCaller> {
    const { guard } = this.#options
    const { request } = exchange
    const address = this.addressOf(exchange)
    const asked: AuthenticationRequest = {
      rawHeaders: request.rawHeaders,
      tlsPeerCertificate: this.#certificateOf(request),
      address,
    }
    const found = this.#judgementOf(exchange, attributes, address)
    const user = guard === null ? null : await this.#authenticate(guard, asked, address, request)
    if (user !== null) found.client = { user, impersonator: null }
    await this.#count(found, identityOf(user, address), address)
    found.rule = 'passed on'
    const isAnonymous = user?.groups.includes(ALL_UNAUTHENTICATED) === true
    return { user, isAnonymous, byToken: user?.byToken === true, address }
  }

  /** Returns the judgement of the request, which the access log will have. */
  #judgementOf(exchange: Exchange, attributes: Attributes, address: string): Judgement {
    if (exchange.judgement === null) {
      exchange.judgement = { client: null, rule: null, isCounted: false }
      this.#audit(exchange, attributes, address, exchange.judgement)
    }
    return exchange.judgement
  }

  /** Writes the line of the access log when the answer is complete, because its code and latency are known then. */
  #audit(exchange: Exchange, attributes: Attributes, address: string, found: Judgement): void {
    const { audit, guard } = this.#options
    if (audit === null) return
    const { startedMs, request } = exchange
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

  /** The client's address: its peer's, or what a trusted proxy says. */
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
    if (socket === null) return null
    let known = this.#certificates.get(socket)
    if (known === undefined) this.#certificates.set(socket, (known = { peer: peerCertificateOf(socket) }))
    return known.peer
  }
}

/** Where nobody is authenticated, everybody may do everything. */
const EVERYTHING: ReviewJudge = {
  decide: (user, attributes) => alwaysAllow.authorize(user, attributes),
  rulesFor: (user, namespace) => alwaysAllow.rulesFor(user, namespace),
}

/** The name that a request is counted under: a client without a name has all the addresses of its IPv6 network. */
function identityOf(user: User | null, address: string): string {
  return user === null || user.groups.includes(ALL_UNAUTHENTICATED) ? networkOf(address) : user.name
}

/** As `AccessGuard.confirm`; the access log says if the request is refused after all. */
function confirmed(
  guard: AccessGuard,
  found: Judgement,
  asked: AuthenticationRequest,
  attributes: Attributes | null,
  acting: Acting,
): Promise<void> | undefined {
  const refuse = (error: unknown): never => {
    found.rule = null
    throw error
  }
  try {
    return guard.confirm(asked, attributes, acting)?.catch(refuse)
  } catch (error) {
    return refuse(error)
  }
}

const nothing = (): undefined => {}
const allowed = (): Promise<void> => Promise.resolve()

/** An HTTP/2 request has a stand-in for the socket; the session of its stream has the real one. */
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

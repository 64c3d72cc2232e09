/**
 * Who is let in: the client's address, who it is, how much it may ask, and whether it may do this; and for as long as a
 * watch runs, whether it still may. One gate in front of every transport, because every request comes through one handler.
 *
 * Where nobody is asked who they are and everything is allowed, only the rate is looked at and nothing is awaited or kept.
 */
import type { IncomingMessage } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import { TLSSocket } from 'node:tls'
import type { AccessGuard, Acting } from '../../auth/access-guard.js'
import type { AuditLog } from '../../auth/audit-log.js'
import { type TrustedProxies, clientAddress } from '../../auth/client-address.js'
import type { Attributes } from '../../auth/authz/authorizer.js'
import type { AuthenticationRequest } from '../../auth/authn/authenticator.js'
import { bearerToken } from '../../auth/authn/bearer-token.js'
import { refuseImpersonation } from '../../auth/impersonation.js'
import { type PeerCertificate, peerCertificateOf } from '../../auth/peer-certificate.js'
import { ALL_UNAUTHENTICATED, type User } from '../../auth/user.js'
import type { StatusError } from '../../model/status.js'
import type { Exchange } from '../server/exchange.js'

export interface RequestGateOptions {
  /** null: nobody is asked who they are, and everything is allowed. */
  readonly guard: AccessGuard | null
  /** Requests of one identity. @throws TooManyRequestsError */
  readonly admitRequest: (identity: string) => void
  /** Bytes of lists and initial states of one identity. @returns milliseconds to wait. */
  readonly spendInitialBytes: (identity: string, bytes: number) => number
  readonly proxies: TrustedProxies
  readonly audit: AuditLog | null
}

/** One request that has been let in. */
export interface Admitted {
  /** Whose limits it counts against: the user, or the address where nobody says who they are. */
  readonly identity: string
  /** Counts bytes of a list or initial state. @returns milliseconds to wait before more is sent. */
  readonly pace: (bytes: number) => number
  /** Whether it may do this as well: a PUT that would create. @throws ForbiddenError, ServiceUnavailableError */
  authorize(attributes: Attributes): Promise<void>
  /** Watches over a running request. @returns what ends that. */
  keep(revoked: (error: StatusError) => void): () => void
}

/** Who asks for what another server answers. */
export interface ForwardedCaller {
  /** null: nobody is asked who they are. */
  readonly user: User | null
  readonly isAnonymous: boolean
  readonly hasBearerToken: boolean
  readonly address: string
}

type Who = Pick<Acting, 'user' | 'impersonator'>
type Decided = 'allow' | 'forbid' | 'unauthenticated' | 'none'

export class RequestGate {
  readonly #options: RequestGateOptions
  /** A connection's certificate does not change: looked at once. */
  readonly #certificates = new WeakMap<TLSSocket, { readonly peer: PeerCertificate | null }>()

  constructor(options: RequestGateOptions) {
    this.#options = options
  }

  /** @throws UnauthorizedError, ForbiddenError, TooManyRequestsError, ServiceUnavailableError */
  admit(exchange: Exchange, attributes: Attributes): Admitted | Promise<Admitted> {
    const { guard, admitRequest, spendInitialBytes, audit } = this.#options
    const address = this.#addressOf(exchange.request)
    if (guard === null) {
      admitRequest(address)
      if (audit !== null) this.#audit(exchange, attributes, address, null, null)
      refuseImpersonation(exchange.request.rawHeaders)
      return {
        identity: address,
        pace: (bytes) => spendInitialBytes(address, bytes),
        authorize: allowed,
        keep: () => nothing,
      }
    }
    return this.#admitGuarded(guard, exchange, attributes, address)
  }

  async #admitGuarded(
    guard: AccessGuard,
    exchange: Exchange,
    attributes: Attributes,
    address: string,
  ): Promise<Admitted> {
    const { request } = exchange
    const asked: AuthenticationRequest = {
      rawHeaders: request.rawHeaders,
      tlsPeerCertificate: this.#certificateOf(request),
    }
    let acting: Who | null = null
    let rule: string | null = null
    try {
      const caller = await guard.authenticate(asked)
      acting = { user: caller, impersonator: null }
      const admitted = await this.#actingAs(guard, caller, asked, address)
      acting = admitted
      const identity = identityOf(admitted.user, address)
      const access = await guard.authorize(admitted, attributes)
      rule = access.decision.rule
      return {
        identity,
        pace: (bytes) => this.#options.spendInitialBytes(identity, bytes),
        authorize: async (more) => void (await guard.authorize(admitted, more)),
        keep: (revoked) => guard.keep(asked, attributes, access, revoked),
      }
    } finally {
      this.#audit(exchange, attributes, address, acting, rule)
    }
  }

  /** Counts the request against whose rights it uses, so that a gateway's users do not share its limit; or the caller's. */
  async #actingAs(guard: AccessGuard, caller: User, asked: AuthenticationRequest, address: string): Promise<Acting> {
    const { admitRequest } = this.#options
    let user = caller
    try {
      const acting = await guard.actingAs(caller, asked)
      user = acting.user
      return acting
    } finally {
      admitRequest(identityOf(user, address))
    }
  }

  /**
   * For a request that another server answers: who it is, is found out here; what that one may do, is the other's to say.
   * @throws UnauthorizedError, TooManyRequestsError, ServiceUnavailableError
   */
  async admitForwarded(exchange: Exchange, attributes: Attributes): Promise<ForwardedCaller> {
    const { guard, admitRequest } = this.#options
    const { request } = exchange
    const address = this.#addressOf(request)
    const asked: AuthenticationRequest = {
      rawHeaders: request.rawHeaders,
      tlsPeerCertificate: this.#certificateOf(request),
    }
    let user: User | null = null
    try {
      const hasBearerToken = bearerToken(asked) !== null
      if (guard !== null) user = await guard.authenticate(asked)
      const isAnonymous = user?.groups.includes(ALL_UNAUTHENTICATED) === true
      admitRequest(user === null ? address : identityOf(user, address))
      return { user, isAnonymous, hasBearerToken, address }
    } finally {
      const acting = user === null ? null : { user, impersonator: null }
      this.#audit(exchange, attributes, address, acting, user === null ? null : 'passed on')
    }
  }

  /** The line is written when the answer is complete: its code and latency are known then. */
  #audit(exchange: Exchange, attributes: Attributes, address: string, acting: Who | null, rule: string | null): void {
    const { audit, guard } = this.#options
    if (audit === null) return
    const { startedMs, request } = exchange
    const transport = transportOf(request)
    const userAgent = request.headers['user-agent'] ?? ''
    const caller = acting?.impersonator ?? acting?.user
    const impersonated =
      acting === null || acting.impersonator === null
        ? {}
        : { impersonatedUser: acting.user.name, impersonatedGroups: acting.user.groups }
    exchange.response.once('close', () => {
      const decision: Decided =
        guard === null ? 'none' : acting === null ? 'unauthenticated' : rule === null ? 'forbid' : 'allow'
      audit.write({
        user: caller?.name ?? '',
        groups: caller?.groups ?? [],
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

  #addressOf(request: IncomingMessage): string {
    const peer = request.socket.remoteAddress ?? ''
    const { proxies } = this.#options
    if (!proxies.has(peer)) return peer
    const forwarded: string[] = []
    for (let i = 0; i + 1 < request.rawHeaders.length; i += 2) {
      if (request.rawHeaders[i]!.toLowerCase() === 'x-forwarded-for') forwarded.push(request.rawHeaders[i + 1]!)
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

/** Whose limits a request counts against. */
function identityOf(user: User, address: string): string {
  return user.groups.includes(ALL_UNAUTHENTICATED) ? address : user.name
}

const nothing = (): void => {}
const allowed = (): Promise<void> => Promise.resolve()

/** HTTP/2's request has a stand-in for the socket; the stream's session knows the real one. */
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

/**
 * The interface of an authenticator. Each kind is one file in this folder, and `union-authenticator.ts` puts them in
 * order. A request is reduced to the facts from which an identity is derived, so that a running watch can be
 * authenticated again.
 */
import { UnauthorizedError } from '../../../kubernetes/model/status.js'
import type { PeerCertificate } from '../peer-certificate.js'
import type { User } from '../user.js'

export interface AuthenticationRequest {
  /**
   * Alternating names and values, as they arrived (`rawHeaders`), because Node's `headers` joins repeated headers with
   * commas.
   */
  readonly rawHeaders: readonly string[]
  /** null on a plain connection, and when the client presented no certificate. */
  readonly tlsPeerCertificate: PeerCertificate | null
  /** The client's address. No identity is derived from it; it limits how long one client can make others wait. */
  readonly address?: string
  /** The ticket in the request; also absent when tickets are disabled. */
  readonly ticket?: ShownTicket
  /**
   * A token must be issued for one of these audiences, which a TokenReview names. Default: this server's own audiences.
   */
  readonly audiences?: readonly string[]
}

/** A ticket, and the request that contained it. */
export interface ShownTicket {
  readonly text: string
  /** The path without the query. */
  readonly path: string
  /** Whether the request only reads: a GET or HEAD that this server answers itself. */
  readonly isRead: boolean
  /**
   * When the request arrived, in milliseconds since the epoch. The ticket must be valid at that time, so a stream that
   * was opened in time continues.
   */
  readonly atMs: number
}

export interface Authenticator {
  /**
   * @returns null when the request has no credential of this kind.
   * @throws UnauthorizedError for a wrong credential; ServiceUnavailableError when it cannot be judged now.
   */
  authenticate(request: AuthenticationRequest): Promise<User | null>
  /**
   * Calls the listener when earlier decisions may no longer hold. These are the decisions on the users that `concerns`
   * selects, or all decisions if `concerns` is missing.
   * @returns a function that removes the listener.
   */
  onChange(listener: (concerns?: Concerns) => void): () => void
  /** Whether the credential is a bearer token, which could also be sent to another server. */
  readonly readsTokens: boolean
  /** Whether a front proxy presents the credential, and names its own client. Default: false. */
  readonly isOfProxy?: boolean
  /**
   * Whether it compares the audiences of tokens. The tokens of other authenticators are meant for this server alone.
   */
  readonly comparesAudiences?: boolean
  /** Whether decisions can change without a call of `onChange`. Running watches are then judged again periodically. */
  readonly changesSilently: boolean
  /** Stops watching files. Nothing keeps running afterwards. */
  close(): void
}

export type Concerns = (user: User) => boolean

/**
 * A refusal by the authenticator that knows most about the credential. No other authenticator may accept the credential
 * after that.
 */
export class RefusedCredentialError extends UnauthorizedError {}

/** Returns every value of a header, in order. */
export function headerValues(
  { rawHeaders }: Pick<AuthenticationRequest, 'rawHeaders'>,
  name: string,
): readonly string[] {
  const wanted = name.toLowerCase()
  const values: string[] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.toLowerCase() === wanted) values.push(rawHeaders[i + 1]!)
  }
  return values
}

/**
 * The question that an authenticator is asked and its answer. Each kind is one file here; `union-authenticator.ts` puts them in
 * order. A request is reduced to what identities come from, so that a running watch can be judged again by it.
 */
import type { PeerCertificate } from '../peer-certificate.js'
import type { User } from '../user.js'

export interface AuthenticationRequest {
  /** Names and values in turn, as they came (`rawHeaders`): Node's `headers` joins repeated ones with commas. */
  readonly rawHeaders: readonly string[]
  /** null on a plain connection, and when the client showed none. */
  readonly tlsPeerCertificate: PeerCertificate | null
}

export interface Authenticator {
  /**
   * null: the request holds no credential of this kind.
   * @throws UnauthorizedError for one that is wrong; ServiceUnavailableError when nobody could judge it now.
   */
  authenticate(request: AuthenticationRequest): Promise<User | null>
  /** The listener is called when earlier answers may no longer hold. @returns a function that removes it. */
  onChange(listener: () => void): () => void
  /** True when answers can change without `onChange`: running watches are then judged again from time to time. */
  readonly changesSilently: boolean
  /** Stops watching files; keeps nothing running. */
  close(): void
}

/** Every value of a header, in order; [] when there is none. */
export function headerValues(request: AuthenticationRequest, name: string): readonly string[] {
  const wanted = name.toLowerCase()
  const values: string[] = []
  for (let i = 0; i + 1 < request.rawHeaders.length; i += 2) {
    if (request.rawHeaders[i]?.toLowerCase() === wanted) values.push(request.rawHeaders[i + 1] ?? '')
  }
  return values
}

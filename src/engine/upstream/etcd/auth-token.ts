/**
 * The token that etcd issues for a user and password. A token expires, and a member forgets it on a restart. In both
 * cases etcd refuses a request, the token is dropped, and the next caller fetches another one. Only one request for a
 * token runs at a time.
 */
import { UpstreamError } from '../upstream.js'

export interface EtcdUser {
  readonly name: string
  readonly password: string
}

export type Authenticate = (user: EtcdUser) => Promise<string>

const NO_METADATA: Readonly<Record<string, string>> = {}

export class AuthToken {
  #user: EtcdUser | null
  readonly #authenticate: Authenticate
  #metadata: Readonly<Record<string, string>> = NO_METADATA
  #isKnown: boolean
  #pending: Promise<Readonly<Record<string, string>>> | null = null

  constructor(user: EtcdUser | null, authenticate: Authenticate) {
    this.#user = user
    this.#authenticate = authenticate
    this.#isKnown = user === null
  }

  /** Whether a refused token can be replaced. */
  get canRefresh(): boolean {
    return this.#user !== null
  }

  /** Uses another user or password from now on. The current token stays in use until etcd refuses it. */
  use(user: EtcdUser): void {
    if (this.#user !== null) this.#user = user
  }

  /**
   * Returns the metadata for a call. The object's identity tells `refuse` which token was refused.
   * @throws UpstreamError
   */
  async metadata(): Promise<Readonly<Record<string, string>>> {
    if (this.#isKnown || this.#user === null) return this.#metadata
    this.#pending ??= this.#fetch(this.#user).finally(() => {
      this.#pending = null
    })
    return this.#pending
  }

  /** Reports that etcd refused the token. Does nothing when another caller has already replaced it. */
  refuse(metadata: Readonly<Record<string, string>>): void {
    if (this.#user !== null && metadata === this.#metadata) this.#isKnown = false
  }

  async #fetch(user: EtcdUser): Promise<Readonly<Record<string, string>>> {
    try {
      this.#metadata = { token: await this.#authenticate(user) }
    } catch (error) {
      // If authentication is disabled in etcd, do not fail because a password is configured.
      if (!(error instanceof UpstreamError) || !error.message.includes('authentication is not enabled')) throw error
      this.#metadata = {}
    }
    this.#isKnown = true
    return this.#metadata
  }
}

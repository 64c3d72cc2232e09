/**
 * The token etcd gives for user and password. It expires, and a member forgets it when it restarts; either shows as a
 * refused request, after which the token is dropped and the next caller fetches another. One request for it at a time.
 */
import { UpstreamError } from '../upstream.js'

export interface EtcdUser {
  readonly name: string
  readonly password: string
}

export type Authenticate = (user: EtcdUser) => Promise<string>

const NO_METADATA: Readonly<Record<string, string>> = {}

export class AuthToken {
  readonly #user: EtcdUser | null
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

  /** The metadata of a call; the object itself names the token for `refuse`. @throws UpstreamError */
  async metadata(): Promise<Readonly<Record<string, string>>> {
    if (this.#isKnown || this.#user === null) return this.#metadata
    this.#pending ??= this.#fetch(this.#user).finally(() => {
      this.#pending = null
    })
    return this.#pending
  }

  /** etcd did not take it. Does nothing when another caller has replaced it meanwhile. */
  refuse(metadata: Readonly<Record<string, string>>): void {
    if (this.#user !== null && metadata === this.#metadata) this.#isKnown = false
  }

  async #fetch(user: EtcdUser): Promise<Readonly<Record<string, string>>> {
    try {
      this.#metadata = { token: await this.#authenticate(user) }
    } catch (error) {
      // A password for an etcd that asks for none is no reason to refuse to work with it.
      if (!(error instanceof UpstreamError) || !error.message.includes('authentication is not enabled')) throw error
      this.#metadata = {}
    }
    this.#isKnown = true
    return this.#metadata
  }
}

/**
 * Lets requests in, and keeps asking whether the running watches still belong.
 *
 * Watches with the same credential and the same attributes are one *entry*, judged once however many they are. A change
 * told by an authenticator or authorizer starts a pass over all entries; those that can change without telling are asked
 * again every few seconds, a bounded number at one time; credentials that run out are noticed within a second. A pass
 * gives the event loop back between slices. "Cannot say now" is not a no: an API server that restarts must not end ten
 * thousand watches, so an entry lives on through a bounded time of that.
 */
import { ServiceUnavailableError, StatusError, UnauthorizedError } from '../model/status.js'
import type { Clock, Timer } from '../support/clock.js'
import type { AuthenticationRequest } from './authn/authenticator.js'
import { bearerToken } from './authn/bearer-token.js'
import type { UnionAuthenticator } from './authn/union-authenticator.js'
import { type Attributes, attributesKey, type Authorizer, type Decision } from './authz/authorizer.js'
import { forbidden } from './authz/forbidden.js'
import { impersonatedUser, impersonationAttributes, refuseImpersonation, wantedUser } from './impersonation.js'
import { ALL_UNAUTHENTICATED, digest, identityKey, type User } from './user.js'

export interface AccessGuardOptions {
  readonly authenticator: UnionAuthenticator
  readonly authorizer: Authorizer
  readonly clock: Clock
  /** How often authenticators and authorizers that change without notice are asked again. Default 5 s. */
  readonly recheckMs?: number
  /** How long a watch lives on while it cannot be checked. Default 5 minutes. */
  readonly unjudgedMs?: number
}

/** The user whose rights count, and the user who asked for them. */
export interface Acting {
  readonly user: User
  /** The caller that impersonates the user; null: the user is the caller. */
  readonly impersonator: User | null
  /** The state of the rights under which the decision was made: see `keep`. */
  readonly generation: number
}

/** A request that was allowed, and under which state of the rights. */
export interface Grant extends Acting {
  readonly decision: Decision
}

interface Entry {
  readonly request: AuthenticationRequest
  readonly attributes: Attributes
  readonly identity: string
  expiresAt: number | null
  unjudgedSince: number | null
  readonly revoke: Set<(error: StatusError) => void>
}

const TICK_MS = 1_000
/** Changes come in bursts (a chart applies twenty bindings): wait a moment and judge once. */
const SETTLE_MS = 100
const CONCURRENT = 16
const SLICE = 256

export class AccessGuard {
  readonly #options: AccessGuardOptions
  readonly #entries = new Map<string, Entry>()
  readonly #ends: readonly (() => void)[]
  #generation = 0
  #tick: Timer | null = null
  #settle: Timer | null = null
  #recheckAt: number
  #passing = false
  #closed = false

  constructor(options: AccessGuardOptions) {
    this.#options = options
    this.#recheckAt = options.clock.monotonic() + this.#recheckMs
    this.#ends = [options.authenticator, options.authorizer].map((part) => part.onChange(() => this.#changed()))
  }

  /** The number of entries that are kept checked, for a metric. */
  get entries(): number {
    return this.#entries.size
  }

  /** @throws UnauthorizedError; ServiceUnavailableError when nobody could judge now. */
  authenticate(request: AuthenticationRequest): Promise<User> {
    return this.#options.authenticator.authenticate(request)
  }

  /**
   * Finds the user whose rights count: the caller, or the user that it impersonates.
   * @throws BadRequestError, ForbiddenError, ServiceUnavailableError
   */
  async actingAs(caller: User, { rawHeaders }: AuthenticationRequest): Promise<Acting> {
    const generation = this.#generation
    if (caller.groups.includes(ALL_UNAUTHENTICATED)) refuseImpersonation(rawHeaders)
    const wanted = wantedUser(rawHeaders)
    if (wanted === null) return { user: caller, impersonator: null, generation }
    for (const attributes of impersonationAttributes(wanted)) await this.#require(caller, attributes)
    return { user: impersonatedUser(wanted, caller), impersonator: caller, generation }
  }

  /** @throws ForbiddenError in the API server's words; ServiceUnavailableError when nobody could decide now. */
  async authorize(acting: Acting, attributes: Attributes): Promise<Grant> {
    return { ...acting, decision: await this.#require(acting.user, attributes) }
  }

  async #require(user: User, attributes: Attributes): Promise<Decision> {
    const decision = await this.#options.authorizer.authorize(user, attributes)
    if (!decision.allowed) throw forbidden(user, attributes, decision)
    return decision
  }

  /**
   * Keeps checking a running request until `stop`. It is synchronous, so no change is missed between the decision and this.
   *
   * @param revoked called at most once, with the 401, 403 or 503 that ends the watch; never from within `keep`.
   * @returns stop: to be called when the request ends for any other reason.
   */
  keep(
    request: AuthenticationRequest,
    attributes: Attributes,
    grant: Grant,
    revoked: (error: StatusError) => void,
  ): () => void {
    const identity = actingKey(grant)
    const key = digest(JSON.stringify([identity, credentialKey(request), attributesKey(attributes)]))
    const entry = this.#entries.get(key) ?? {
      request,
      attributes,
      identity,
      expiresAt: grant.user.expiresAt,
      unjudgedSince: null,
      revoke: new Set(),
    }
    // The same function may be given for two watches: each has its own place.
    const end = (error: StatusError): void => revoked(error)
    entry.revoke.add(end)
    this.#entries.set(key, entry)
    this.#tick ??= this.#scheduleTick()
    if (grant.generation !== this.#generation) this.#settleSoon()
    return () => {
      entry.revoke.delete(end)
      if (entry.revoke.size === 0 && this.#entries.get(key) === entry) this.#entries.delete(key)
    }
  }

  close(): void {
    this.#closed = true
    this.#tick?.cancel()
    this.#settle?.cancel()
    this.#ends.forEach((end) => end())
    this.#entries.clear()
  }

  get #recheckMs(): number {
    return this.#options.recheckMs ?? 5_000
  }

  #changed(): void {
    this.#generation++
    this.#settleSoon()
  }

  #settleSoon(): void {
    this.#settle ??= this.#options.clock.setTimer(SETTLE_MS, () => {
      this.#settle = null
      void this.#pass()
    })
  }

  #scheduleTick(): Timer {
    return this.#options.clock.setTimer(TICK_MS, () => {
      this.#tick = null
      const { authenticator, authorizer, clock } = this.#options
      for (const [key, entry] of this.#entries) {
        if (entry.expiresAt !== null && entry.expiresAt <= clock.now()) {
          this.#revoke(key, entry, new UnauthorizedError('Unauthorized', { cause: 'the credential has expired' }))
        }
      }
      if (clock.monotonic() >= this.#recheckAt) {
        this.#recheckAt = clock.monotonic() + this.#recheckMs
        if (authenticator.changesSilently || authorizer.changesSilently) void this.#pass()
      }
      if (this.#entries.size > 0) this.#tick = this.#scheduleTick()
    })
  }

  /** Never rejects: what goes wrong with an entry is that entry's. */
  async #pass(): Promise<void> {
    if (this.#passing) {
      // It may have gone by what changed just now: once more after it.
      if (this.#settle === null && !this.#closed) this.#settleSoon()
      return
    }
    this.#passing = true
    const queue = [...this.#entries]
    let next = 0
    const work = async (): Promise<void> => {
      for (let entry = queue[next++]; entry !== undefined && !this.#closed; entry = queue[next++]) {
        await this.#judge(entry[0], entry[1])
        if (next % SLICE === 0) await new Promise((resolve) => setImmediate(resolve))
      }
    }
    await Promise.all(Array.from({ length: CONCURRENT }, work))
    this.#passing = false
  }

  async #judge(key: string, entry: Entry): Promise<void> {
    if (entry.revoke.size === 0) return
    const { authenticator, clock, unjudgedMs = 300_000 } = this.#options
    try {
      const acting = await this.actingAs(await authenticator.authenticate(entry.request), entry.request)
      // The credential belongs to another user now, or to other groups, and the watch was allowed for the old ones.
      if (actingKey(acting) !== entry.identity)
        throw new UnauthorizedError('Unauthorized', { cause: 'the identity has changed' })
      await this.#require(acting.user, entry.attributes)
      entry.expiresAt = acting.user.expiresAt
      entry.unjudgedSince = null
    } catch (caught) {
      const error = StatusError.from(caught)
      if (error.code === 401 || error.code === 403) return this.#revoke(key, entry, error)
      entry.unjudgedSince ??= clock.monotonic()
      if (clock.monotonic() - entry.unjudgedSince < unjudgedMs) return
      this.#revoke(
        key,
        entry,
        new ServiceUnavailableError('nobody could judge this watch for too long', { cause: error }),
      )
    }
  }

  #revoke(key: string, entry: Entry, error: StatusError): void {
    if (this.#entries.get(key) === entry) this.#entries.delete(key)
    const all = [...entry.revoke]
    entry.revoke.clear()
    for (const end of all) end(error)
  }
}

/** Two callers that impersonate the same user are judged apart: one may lose the right to it. */
function actingKey({ user, impersonator }: Pick<Acting, 'user' | 'impersonator'>): string {
  return JSON.stringify([identityKey(user), impersonator === null ? null : identityKey(impersonator)])
}

/** A key for the credentials that the identity came from. */
function credentialKey(request: AuthenticationRequest): readonly string[] {
  return [bearerToken(request) ?? '', request.tlsPeerCertificate?.chain[0]?.fingerprint256 ?? '']
}

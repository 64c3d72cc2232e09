/**
 * Decides whether to let requests in, and keeps checking whether running watches are still allowed. A request that
 * waited is checked again before it is answered, unless nothing can have changed in the meantime.
 *
 * Watches with the same credential and the same attributes share one *entry*, which is judged once for all of them.
 * When an authenticator or authorizer reports a change, a pass judges the affected entries. Entries whose judges can
 * change without a report are judged again every few seconds. The guard notices an expired credential within a second.
 * A pass yields to the event loop between slices. If a judge cannot decide now, the entry survives for a bounded time,
 * because a restarting API server must not end ten thousand watches.
 *
 * A pass judges a bounded number of entries at a time, and waits only briefly for each: a judge that hangs must not
 * delay the revocations that others can decide. So a slow judgement continues while the pass goes on, but an entry has
 * only one at a time.
 */
import type { AccessMetrics } from '../metrics/request-metrics.js'
import {
  ForbiddenError,
  ServiceUnavailableError,
  StatusError,
  UnauthorizedError,
} from '../../kubernetes/model/status.js'
import { statusOf } from '../../kubernetes/model/status-of.js'
import type { Clock, Timer } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import { recentEntries } from '../../support/recent-entries.js'
import { turns } from '../../support/turns.js'
import type { AuthenticationRequest, Concerns } from './authn/authenticator.js'
import { bearerToken } from './authn/bearer-token.js'
import type { Tickets } from './authn/ticket.js'
import {
  type Authenticated,
  requireCurrent,
  type ReviewedToken,
  type UnionAuthenticator,
} from './authn/union-authenticator.js'
import { type Attributes, attributesKey, type Authorizer, type Decision, type UserRules } from './authz/authorizer.js'
import { forbidden } from './authz/forbidden.js'
import {
  type ImpersonationMode,
  impersonationModes,
  refuseImpersonation,
  type WantedUser,
  wantedUser,
} from './impersonation.js'
import { reasonsOf } from './judge-health.js'
import { ALL_UNAUTHENTICATED, ANONYMOUS, digest, identityKey, type User } from './user.js'

export interface AccessGuardOptions {
  readonly authenticator: UnionAuthenticator
  readonly authorizer: Authorizer
  readonly clock: Clock
  /** Logs why a caller was refused, which the caller never sees. Default: none. */
  readonly logger?: Pick<Logger, 'debug'>
  /** Counts client requests, not the checks of running watches. */
  readonly metrics?: AccessMetrics
}

/** The user whose permissions apply, and the user who asked to act with them. */
export interface Acting {
  /** The request for which the caller may act as the user. */
  readonly on: Attributes
  readonly user: User
  /** The caller that impersonates the user; null when the user is the caller. */
  readonly impersonator: User | null
  /** The generation of the permissions under which the decision was made: see `confirm` and `keep`. */
  readonly generation: number
  /** When the caller was authenticated, by the monotonic clock. */
  readonly sinceMs: number
}

/** An allowed request, with the generation of the permissions that allowed it. */
export interface Grant extends Acting {
  readonly decision: Decision
}

interface Entry {
  readonly request: AuthenticationRequest
  readonly attributes: Attributes
  readonly identity: string
  /** The owner of the credential. */
  readonly caller: User
  expiresAt: number | null
  /** When the entry was first queued for a judgement that it still waits for, by the monotonic clock. */
  unjudgedSince: number | null
  /** The reason why the last judgement failed. */
  fault: StatusError | null
  isJudging: boolean
  /** Whether another judgement must follow, because something may have changed during this one. */
  isDue: boolean
  readonly revoke: Set<(error: StatusError) => void>
}

const TICK_MS = 1_000
/** The interval at which entries are judged again if their authenticator or authorizer can change without a report. */
const RECHECK_MS = 5_000
/** How long a watch survives while it cannot be checked. */
const UNJUDGED_MS = 300_000
/** Changes come in bursts (a chart applies twenty bindings), so a pass waits this long and judges once. */
const SETTLE_MS = 100
const CONCURRENT = 16
/** Longer than judges usually take. With many entries whose judge hangs, a pass still takes seconds. */
const PATIENCE_MS = 100
/** With more changes than this pending, a pass judges all entries. */
const MAX_PENDING = 1_000
const MAX_IMPERSONATORS = 10_000
const ALL = (): boolean => true

export class AccessGuard {
  readonly #entries = new Map<string, Entry>()
  /** The names of callers whose last impersonation was allowed by the plain verb. */
  readonly #plainImpersonators = recentEntries<string, true>(MAX_IMPERSONATORS)
  readonly #ends: readonly (() => void)[]
  #generation = 0
  #tick: Timer | null = null
  #settle: Timer | null = null
  /** Functions that each select entries for the next pass to judge. */
  #pending: ((entry: Entry) => boolean)[] = []
  #recheckAt: number
  #rechecking = false
  #closed = false

  constructor(private readonly options: AccessGuardOptions) {
    this.#recheckAt = options.clock.monotonic() + RECHECK_MS
    this.#ends = [
      options.authenticator.onChange((concerns) => this.#changed(concerns)),
      options.authorizer.onChange(() => this.#changed()),
    ]
  }

  /** The number of entries being checked, for a metric. */
  get entries(): number {
    return this.#entries.size
  }

  /** null: tickets are disabled. */
  get tickets(): Tickets | null {
    return this.options.authenticator.tickets
  }

  /** @throws UnauthorizedError; ServiceUnavailableError when no authenticator can judge now. */
  async authenticate(request: AuthenticationRequest): Promise<Authenticated> {
    const startedMs = performance.now()
    let result: 'success' | 'failure' | 'error' = 'success'
    try {
      return await this.options.authenticator.authenticate(request)
    } catch (error) {
      result = error instanceof UnauthorizedError ? 'failure' : 'error'
      this.options.logger?.debug(
        { address: request.address, reason: reasonsOf(error).join(': ') },
        'caller is not authenticated',
      )
      throw error
    } finally {
      this.options.metrics?.authenticated(result)
      this.options.metrics?.authenticationSeconds(result, secondsSince(startedMs))
    }
  }

  /**
   * Finds the user whose permissions apply: the caller, or the user that it impersonates.
   * @param on the request, because some permissions to impersonate are for certain requests only.
   * @throws BadRequestError, ForbiddenError, ServiceUnavailableError
   */
  async actingAs(caller: User, request: AuthenticationRequest, on: Attributes): Promise<Acting> {
    const startedMs = performance.now()
    try {
      return await this.#actingAs(caller, request, on)
    } catch (error) {
      this.#countAuthorized(refusalOf(error), startedMs)
      throw error
    }
  }

  async #actingAs(caller: User, { rawHeaders, ticket }: AuthenticationRequest, on: Attributes): Promise<Acting> {
    const since = { on, generation: this.#generation, sinceMs: this.options.clock.monotonic() }
    if (caller.groups.includes(ALL_UNAUTHENTICATED)) refuseImpersonation(rawHeaders)
    const wanted = wantedUser(rawHeaders)
    if (wanted === null) return { user: caller, impersonator: null, ...since }
    if (ticket !== undefined) throw new ForbiddenError('a ticket is only for its own user', { details: {} })
    return { user: await this.#impersonate(wanted, caller, on), impersonator: caller, ...since }
  }

  /**
   * Any of the modes may allow the impersonation.
   * @throws ForbiddenError of the first mode; ServiceUnavailableError when a mode cannot be decided now.
   */
  async #impersonate(wanted: WantedUser, caller: User, on: Attributes): Promise<User> {
    let refused: unknown = null
    for (const mode of this.#inOrder(impersonationModes(wanted, caller), caller)) {
      try {
        for (const { needed, enough } of mode.checks(on)) {
          if (enough !== undefined && (await this.decide(mode.caller, enough)).allowed) continue
          for (const attributes of needed) await this.#require(mode.caller, attributes)
        }
        if (mode.name === 'plain') this.#plainImpersonators.set(caller.name, true)
        else this.#plainImpersonators.delete(caller.name)
        return mode.user
      } catch (error) {
        if (refused === null || (refused instanceof ForbiddenError && !(error instanceof ForbiddenError)))
          refused = error
      }
    }
    throw refused
  }

  /**
   * Puts the plain mode first if it allowed the caller's last impersonation. Most callers that impersonate have the
   * plain verb, and would otherwise cost one more decision each time. All modes give the same identity, except for
   * nodes: there the API server's answer depends on the caller's last impersonation, also for system:masters (measured
   * with 1.37.2), and ours does not.
   */
  #inOrder(modes: readonly ImpersonationMode[], { name }: User): readonly ImpersonationMode[] {
    const isNode = modes.some((mode) => mode.name === 'arbitrary-node')
    return !isNode && this.#plainImpersonators.has(name) ? modes.toReversed() : modes
  }

  /** @throws ForbiddenError in the API server's words; ServiceUnavailableError when no authorizer can decide now. */
  async authorize(acting: Acting, attributes: Attributes): Promise<Grant> {
    const startedMs = performance.now()
    let result: 'allowed' | 'denied' | 'error' = 'allowed'
    try {
      return { ...acting, decision: await this.#require(acting.user, attributes) }
    } catch (error) {
      result = refusalOf(error)
      throw error
    } finally {
      this.#countAuthorized(result, startedMs)
    }
  }

  #countAuthorized(result: 'allowed' | 'denied' | 'error', startedMs: number): void {
    this.options.metrics?.authorized(result)
    this.options.metrics?.authorizationSeconds(result, secondsSince(startedMs))
  }

  /**
   * Decides an access review, which is only a question and changes nothing.
   * @throws ServiceUnavailableError when no authorizer can decide now.
   */
  decide(user: User, attributes: Attributes): Promise<Decision> {
    return this.options.authorizer.authorize(user, attributes)
  }

  /** Whether anonymous callers may do this. @throws ServiceUnavailableError when no authorizer can decide now. */
  async letsAnybody(attributes: Attributes): Promise<boolean> {
    const { authenticator, authorizer } = this.options
    return authenticator.admitsAnonymous && (await authorizer.authorize(ANONYMOUS, attributes)).allowed
  }

  /**
   * Like `UnionAuthenticator.review`. It is not counted, because the token is not the client's own.
   * @throws ServiceUnavailableError
   */
  reviewToken(...token: Parameters<UnionAuthenticator['review']>): Promise<ReviewedToken | null> {
    return this.options.authenticator.review(...token)
  }

  rulesFor(user: User, namespace: string): Promise<UserRules> {
    return this.options.authorizer.rulesFor(user, namespace)
  }

  async #require(user: User, attributes: Attributes): Promise<Decision> {
    const decision = await this.options.authorizer.authorize(user, attributes)
    if (!decision.allowed) throw forbidden(user, attributes, decision)
    return decision
  }

  /**
   * Checks a request again before it is answered, because it may have waited for a revision, a slot or a body after it
   * was admitted.
   *
   * @param attributes null for a request that needs no permission.
   * @returns undefined, without another check, when nothing can have changed since.
   * @throws UnauthorizedError, possibly synchronously; ForbiddenError; ServiceUnavailableError when no decision is
   * possible now.
   */
  confirm(request: AuthenticationRequest, attributes: Attributes | null, acting: Acting): Promise<void> | undefined {
    const { authenticator, authorizer, clock } = this.options
    requireCurrent(acting.user, clock)
    const changesSilently = authenticator.changesSilently || authorizer.changesSilently
    const isFresh = !changesSilently || clock.monotonic() - acting.sinceMs < RECHECK_MS
    if (acting.generation === this.#generation && isFresh) return undefined
    return this.#requireAgain(request, attributes, acting.on, actingKey(acting)).then(() => undefined)
  }

  /**
   * @param identity the `actingKey` for which the request was allowed.
   * @throws UnauthorizedError, ForbiddenError, ServiceUnavailableError
   */
  async #requireAgain(
    request: AuthenticationRequest,
    attributes: Attributes | null,
    on: Attributes,
    identity: string,
  ): Promise<Acting> {
    const acting = await this.#actingAs(await this.options.authenticator.authenticate(request), request, on)
    // The credential now belongs to another user or to other groups, but the request was allowed for the old identity.
    if (actingKey(acting) !== identity) {
      throw new UnauthorizedError('Unauthorized', { cause: 'the identity has changed' })
    }
    if (attributes !== null) await this.#require(acting.user, attributes)
    return acting
  }

  /**
   * Keeps checking a running request until `stop`. It is synchronous, so no change is missed between the decision and
   * this call.
   *
   * @param revoked called at most once, with the 401, 403 or 503 that ends the watch; never from within `keep`.
   * @returns `stop`, which must be called when the request ends for any other reason.
   */
  keep(
    request: AuthenticationRequest,
    attributes: Attributes,
    grant: Grant,
    revoked: (error: StatusError) => void,
  ): () => void {
    const identity = actingKey(grant)
    const key = digest(
      JSON.stringify([identity, credentialKey(request), attributesKey(attributes), attributes.namesFrom]),
    )
    const entry = this.#entries.get(key) ?? {
      request,
      attributes,
      identity,
      caller: grant.impersonator ?? grant.user,
      expiresAt: grant.user.expiresAt,
      unjudgedSince: null,
      fault: null,
      isJudging: false,
      isDue: false,
      revoke: new Set(),
    }
    // Two watches may pass the same function; the wrapper keeps them apart.
    const end = (error: StatusError): void => revoked(error)
    entry.revoke.add(end)
    this.#entries.set(key, entry)
    this.#tick ??= this.#scheduleTick()
    if (grant.generation !== this.#generation) this.#settleSoon((other) => other === entry)
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

  #changed(concerns?: Concerns): void {
    this.#generation++
    this.#settleSoon(concerns === undefined ? ALL : ({ caller }) => concerns(caller))
  }

  #settleSoon(concerns: (entry: Entry) => boolean): void {
    if (this.#pending.length >= MAX_PENDING) this.#pending = [ALL]
    else this.#pending.push(concerns)
    this.#settle ??= this.options.clock.setTimer(SETTLE_MS, () => {
      this.#settle = null
      const pending = this.#pending
      this.#pending = []
      void this.#pass((entry) => pending.some((one) => one(entry)))
    })
  }

  #scheduleTick(): Timer {
    return this.options.clock.setTimer(TICK_MS, () => {
      this.#tick = null
      const { authenticator, authorizer, clock } = this.options
      for (const [key, entry] of this.#entries) {
        if (entry.expiresAt !== null && entry.expiresAt <= clock.now()) {
          this.#revoke(key, entry, new UnauthorizedError('Unauthorized', { cause: 'the credential has expired' }))
        } else if (entry.unjudgedSince !== null && clock.monotonic() - entry.unjudgedSince > UNJUDGED_MS) {
          const message = 'the permission for this watch could not be checked again in time'
          this.#revoke(key, entry, new ServiceUnavailableError(message, { cause: entry.fault }))
        }
      }
      if (clock.monotonic() >= this.#recheckAt && !this.#rechecking) {
        this.#recheckAt = clock.monotonic() + RECHECK_MS
        const changesSilently = authenticator.changesSilently || authorizer.changesSilently
        this.#rechecking = true
        void this.#pass(changesSilently ? ALL : ({ unjudgedSince }) => unjudgedSince !== null).then(() => {
          this.#rechecking = false
        })
      }
      if (this.#entries.size > 0) this.#tick = this.#scheduleTick()
    })
  }

  /** Never rejects: a failure affects only its own entry. */
  async #pass(concerns: (entry: Entry) => boolean): Promise<void> {
    const { clock } = this.options
    const queue = [...this.#entries].filter(([, entry]) => concerns(entry))
    // Those that have waited long have a judge that does not answer, so they come last.
    queue.sort(([, a], [, b]) => (b.unjudgedSince ?? Infinity) - (a.unjudgedSince ?? Infinity) || 0)
    for (const [, entry] of queue) entry.unjudgedSince ??= clock.monotonic()
    let next = 0
    const work = async (): Promise<void> => {
      for (let entry = queue[next++]; entry !== undefined && !this.#closed; entry = queue[next++]) {
        await this.#brieflyJudge(entry[0], entry[1])
        if (turns.isOver) await turns.take()
      }
    }
    await Promise.all(Array.from({ length: CONCURRENT }, work))
  }

  /** Resolves once the entry is judged, or when its judge turns out to be slow. */
  #brieflyJudge(key: string, entry: Entry): Promise<void> {
    return new Promise((resolve) => {
      const patience = this.options.clock.setTimer(PATIENCE_MS, resolve)
      void this.#judge(key, entry).then(() => {
        patience.cancel()
        resolve()
      })
    })
  }

  async #judge(key: string, entry: Entry): Promise<void> {
    entry.isDue = true
    if (entry.isJudging) return
    entry.isJudging = true
    while (entry.isDue && entry.revoke.size > 0 && !this.#closed) {
      entry.isDue = false
      await this.#judgeOnce(key, entry)
    }
    entry.isJudging = false
  }

  /** Never rejects. */
  async #judgeOnce(key: string, entry: Entry): Promise<void> {
    try {
      const { user } = await this.#requireAgain(entry.request, entry.attributes, entry.attributes, entry.identity)
      entry.expiresAt = user.expiresAt
      entry.unjudgedSince = null
    } catch (caught) {
      const error = statusOf(caught)
      if (error.code === 401 || error.code === 403) this.#revoke(key, entry, error)
      entry.unjudgedSince ??= this.options.clock.monotonic()
      entry.fault = error
    }
  }

  #revoke(key: string, entry: Entry, error: StatusError): void {
    if (this.#entries.get(key) === entry) this.#entries.delete(key)
    const all = [...entry.revoke]
    entry.revoke.clear()
    for (const end of all) end(error)
  }
}

/** An invalid request counts as denied, not as a failure of an authenticator or authorizer. */
function refusalOf(error: unknown): 'denied' | 'error' {
  return statusOf(error).code < 500 ? 'denied' : 'error'
}

function secondsSince(startedMs: number): number {
  return (performance.now() - startedMs) / 1000
}

/**
 * Callers that impersonate the same user are judged separately, since one of them may lose the permission to
 * impersonate.
 */
function actingKey({ user, impersonator }: Pick<Acting, 'user' | 'impersonator'>): string {
  return JSON.stringify([identityKey(user), impersonator === null ? null : identityKey(impersonator)])
}

/** Returns a key for the credentials from which the identity was derived. */
function credentialKey(request: AuthenticationRequest): readonly string[] {
  return [
    bearerToken(request) ?? '',
    request.tlsPeerCertificate?.chain[0]?.fingerprint256 ?? '',
    request.ticket?.text ?? '',
  ]
}

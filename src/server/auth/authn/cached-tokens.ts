/**
 * Asks a token authenticator once for each token and remembers its verdict for a while. A verification costs 235 µs or
 * a round trip, and ten thousand agents may reconnect at once. Keys are digests, so the cache contains no token. A
 * refusal is remembered for a shorter time, so that a client in a loop costs little. A failure to decide is not
 * remembered.
 */
import { UnauthorizedError } from '../../../kubernetes/model/status.js'
import type { Clock } from '../../../support/clock.js'
import { digest, type User } from '../user.js'
import type { AuthenticationRequest, Authenticator } from './authenticator.js'
import { bearerToken } from './bearer-token.js'
import { recentEntries } from '../../../support/recent-entries.js'
import { MAX_TOKENS } from '../../limits/fixed-limits.js'

export interface CachedTokensOptions {
  readonly clock: Clock
  /** A token is never remembered beyond its own expiry. */
  readonly positiveMs: number
  readonly negativeMs: number
  /** Returns null for a token of another kind, which the union then passes on. @throws UnauthorizedError */
  readonly judge: (token: string, context: TokenContext) => Promise<User | null>
  readonly changesSilently: boolean
  /** As in `Authenticator`. Default: false. */
  readonly comparesAudiences?: boolean
  readonly close: () => void
}

/** The request for which a token is judged. */
export interface TokenContext {
  readonly address: string
  /** Whether the token has been accepted before, however long ago, and so is not a guess. */
  readonly isKnownToken: boolean
  /** As in `AuthenticationRequest`. */
  readonly audiences: readonly string[] | undefined
}

type Verdict = { readonly user: User | null } | { readonly error: UnauthorizedError }

interface Kept {
  readonly verdict: Verdict
  /** By the monotonic clock, so that setting the clock back does not extend a verdict. */
  readonly until: number
  /** When the token itself expires, in milliseconds since the epoch; null if the token does not say. */
  readonly expiresAt: number | null
}

export function cachedTokens(options: CachedTokensOptions): Authenticator {
  const { clock, judge } = options
  // Refused tokens have a separate cache, because anyone can invent them by the thousand.
  const accepted = recentEntries<string, Kept>(MAX_TOKENS)
  const refused = recentEntries<string, Kept>(MAX_TOKENS)
  const running = new Map<string, Promise<Verdict>>()

  async function requestVerdict(
    key: string,
    token: string,
    { address = '', audiences }: AuthenticationRequest,
  ): Promise<Verdict> {
    let verdict: Verdict
    try {
      verdict = { user: await judge(token, { address, audiences, isKnownToken: accepted.has(key) }) }
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error
      verdict = { error }
    }
    const user = 'user' in verdict ? verdict.user : null
    const until = clock.monotonic() + (user === null ? options.negativeMs : options.positiveMs)
    const kept = { verdict, until, expiresAt: user?.expiresAt ?? null }
    if (user === null) {
      accepted.delete(key)
      refused.set(key, kept)
    } else {
      refused.delete(key)
      accepted.set(key, kept)
    }
    return verdict
  }

  const isValid = ({ until, expiresAt }: Kept): boolean =>
    clock.monotonic() < until && (expiresAt === null || clock.now() < expiresAt)

  return {
    readsTokens: true,
    changesSilently: options.changesSilently,
    comparesAudiences: options.comparesAudiences === true,
    onChange: () => () => {},
    async authenticate(request) {
      const token = bearerToken(request)
      if (token === null) return null
      // In JSON even without audiences, so that no token can look like a different token with audiences.
      const key = digest(JSON.stringify([token, request.audiences]))
      const kept = accepted.get(key) ?? refused.get(key)
      let verdict = kept !== undefined && isValid(kept) ? kept.verdict : undefined
      if (verdict === undefined) {
        // A thousand simultaneous connections with one token share one review.
        const pending = running.get(key) ?? requestVerdict(key, token, request).finally(() => running.delete(key))
        running.set(key, pending)
        verdict = await pending
      }
      if ('error' in verdict) throw verdict.error
      return verdict.user
    },
    close: () => options.close(),
  }
}

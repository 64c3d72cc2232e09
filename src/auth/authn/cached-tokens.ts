/**
 * A token authenticator that is asked once for each token and remembered for a while. A verification costs 235 µs or a
 * round trip, and ten thousand agents reconnect at one time. Keys are digests: the cache holds no token. A "no" is kept
 * too, for a shorter time, so that a client in a loop costs little; "cannot say now" is not kept at all.
 */
import { LRUCache } from 'lru-cache'

import { UnauthorizedError } from '../../model/status.js'
import type { Clock } from '../../support/clock.js'
import { digest, type User } from '../user.js'
import type { Authenticator } from './authenticator.js'
import { bearerToken } from './bearer-token.js'

export interface CachedTokensOptions {
  readonly clock: Clock
  /** Never beyond the token's own end. */
  readonly positiveMs: number
  readonly negativeMs: number
  /** null: not a token of this kind, for which the union goes on. @throws UnauthorizedError */
  readonly judge: (token: string) => Promise<User | null>
  readonly changesSilently: boolean
  readonly close: () => void
}

type Verdict = { readonly user: User | null } | { readonly error: UnauthorizedError }

/** A user with many groups is about 1 KB: 16 MB at the most. */
const MAX_TOKENS = 16_384

export function cachedTokens(options: CachedTokensOptions): Authenticator {
  const { clock, judge } = options
  const verdicts = new LRUCache<string, { readonly verdict: Verdict; readonly until: number }>({ max: MAX_TOKENS })
  const running = new Map<string, Promise<Verdict>>()

  async function ask(key: string, token: string): Promise<Verdict> {
    let verdict: Verdict
    try {
      verdict = { user: await judge(token) }
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error
      verdict = { error }
    }
    const user = 'user' in verdict ? verdict.user : null
    const until = clock.now() + (user === null ? options.negativeMs : options.positiveMs)
    verdicts.set(key, { verdict, until: Math.min(until, user?.expiresAt ?? until) })
    return verdict
  }

  return {
    changesSilently: options.changesSilently,
    onChange: () => () => {},
    async authenticate(request) {
      const token = bearerToken(request)
      if (token === null) return null
      const key = digest(token)
      const kept = verdicts.get(key)
      let verdict = kept !== undefined && clock.now() < kept.until ? kept.verdict : undefined
      if (verdict === undefined) {
        // A thousand connections with one token at one time ask once.
        const asking = running.get(key) ?? ask(key, token).finally(() => running.delete(key))
        running.set(key, asking)
        verdict = await asking
      }
      if ('error' in verdict) throw verdict.error
      return verdict.user
    },
    close: () => options.close(),
  }
}

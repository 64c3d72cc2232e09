/**
 * Authenticates bearer tokens by asking an API server (TokenReview, `authentication.k8s.io/v1`). The responses are
 * cached for a short time.
 *
 * Anyone can invent tokens, and each new token costs a request. Tokens that were never accepted share a few
 * connections, one per address, and a short queue; tokens that were accepted before never wait behind them.
 */
import { UnauthorizedError } from '../../../kubernetes/model/status.js'
import type { Clock } from '../../../support/clock.js'
import type { IdentitySemaphore } from '../../../engine/model/shared-limits.js'
import { networkOf } from '../client-address.js'
import { FairSemaphore } from '../../limits/fair-semaphore.js'
import { ReviewServer, type ReviewServerOptions } from '../review-server.js'
import { readUser, type User } from '../user.js'
import type { Authenticator } from './authenticator.js'
import { cachedTokens } from './cached-tokens.js'
import { field, textsAt } from '../../../support/fields.js'
import { MAX_UNKNOWN_TOKENS_WAITING, UNKNOWN_TOKENS_AT_ONCE } from '../../limits/fixed-limits.js'

/**
 * The client has the identity of `--authentication-kubeconfig`, which needs the permission to `create` tokenreviews.
 */
export interface TokenReviewOptions extends ReviewServerOptions {
  readonly cacheMs: number
  /**
   * A token must be issued for one of these audiences. If there are none, it must be issued for the API server's own.
   */
  readonly audiences?: readonly string[]
  /** Slots, by address, for reviews of tokens that were never accepted. Default: those of a single process. */
  readonly unknown?: IdentitySemaphore
}

/** The client has eight connections. */
const KNOWN_AT_ONCE = 5
const MAX_KNOWN_WAITING = 4_096
const MAX_WAITING_PER_ADDRESS = 32
const MAX_WAIT_MS = 5_000

const WAIT = { maxWaitMs: MAX_WAIT_MS, message: 'too many tokens are being checked', onRejected: () => {} }

/** @param processes the number of processes that share the slots when each process counts only its own requests. */
export function unknownTokenSemaphore(clock: Clock, processes: number): FairSemaphore {
  return new FairSemaphore({
    ...WAIT,
    clock,
    slots: Math.ceil(UNKNOWN_TOKENS_AT_ONCE / processes),
    maxSlotsPerIdentity: 1,
    maxWaiting: MAX_UNKNOWN_TOKENS_WAITING,
    maxWaitingPerIdentity: MAX_WAITING_PER_ADDRESS,
  })
}

export function tokenReview(options: TokenReviewOptions): Authenticator {
  const { cacheMs, audiences = [], clock, unknown = unknownTokenSemaphore(clock, 1) } = options
  const server = new ReviewServer({ ...options, kind: 'TokenReview', accepts })
  // Equal tokens share one review, so every known token has its own place in the queue.
  const known = new FairSemaphore({
    ...WAIT,
    clock,
    slots: KNOWN_AT_ONCE,
    maxSlotsPerIdentity: KNOWN_AT_ONCE,
    maxWaiting: MAX_KNOWN_WAITING,
    maxWaitingPerIdentity: MAX_KNOWN_WAITING,
  })
  return cachedTokens({
    clock,
    positiveMs: cacheMs,
    negativeMs: cacheMs,
    changesSilently: true,
    comparesAudiences: true,
    close: () => server.close(),
    async judge(token, { address, isKnownToken, audiences: wanted = audiences }) {
      const leave = await (isKnownToken ? known.acquire('') : unknown.acquire(networkOf(address)))
      return await review(server, token, wanted).finally(leave)
    },
  })
}

async function review(server: ReviewServer, token: string, audiences: readonly string[]): Promise<User> {
  const spec = { token, ...(audiences.length === 0 ? {} : { audiences }) }
  return await server.review(spec, (status, isAccepted) => {
    if (!isAccepted) throw new UnauthorizedError('Unauthorized', { cause: 'the API server does not know the token' })
    // A server that does not support audiences has not compared them, and so names none.
    const compared = textsAt(status, 'audiences')
    const found = audiences.length === 0 ? compared : compared.filter((one) => audiences.includes(one))
    if (audiences.length > 0 && found.length === 0) {
      throw new UnauthorizedError('Unauthorized', { cause: `the token is not meant for ${audiences.join(', ')}` })
    }
    // The review does not say when the token expires; the time in the cache bounds how long the verdict is trusted.
    const user = readUser(field(status, 'user'), 'username')
    if (user.name === '') throw server.unavailable(new Error('TokenReview returned a user without a name'))
    return found.length === 0 ? user : { ...user, audiences: found }
  })
}

function accepts(status: unknown): boolean | null {
  return status === undefined ? null : field(status, 'authenticated') === true
}

/**
 * Authenticates bearer tokens by asking an API server: TokenReview, `authentication.k8s.io/v1`. Answers are cached for
 * a short time.
 */
import { ServiceUnavailableError, UnauthorizedError } from '../../model/status.js'
import type { Clock } from '../../support/clock.js'
import { type JsonClient, member, textOf, textsOf } from '../https-json.js'
import type { User } from '../user.js'
import type { Authenticator } from './authenticator.js'
import { cachedTokens } from './cached-tokens.js'

export interface TokenReviewOptions {
  /** The client from `--authentication-kubeconfig`, whose identity needs `create` on tokenreviews. */
  readonly client: Pick<JsonClient, 'post' | 'close'>
  readonly cacheMs: number
  readonly clock: Clock
}

export function tokenReview({ client, cacheMs, clock }: TokenReviewOptions): Authenticator {
  return cachedTokens({
    clock,
    positiveMs: cacheMs,
    negativeMs: cacheMs,
    changesSilently: true,
    close: () => client.close(),
    async judge(token) {
      const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } }
      const answer = await client.post('/apis/authentication.k8s.io/v1/tokenreviews', body).catch((error: unknown) => {
        throw unavailable(error)
      })
      const status = member(answer.body, 'status')
      if (answer.status < 200 || answer.status > 299 || status === undefined) {
        throw unavailable(new Error(`TokenReview answered ${answer.status}`))
      }
      if (member(status, 'authenticated') !== true) {
        throw new UnauthorizedError('Unauthorized', { cause: 'the API server does not know the token' })
      }
      return userOf(member(status, 'user'))
    },
  })
}

function userOf(user: unknown): User {
  const name = textOf(member(user, 'username'))
  if (name === '') throw unavailable(new Error('TokenReview answered a user without a name'))
  const extra = member(user, 'extra')
  return {
    name,
    uid: textOf(member(user, 'uid')),
    groups: textsOf(member(user, 'groups')),
    extra: Object.fromEntries(
      Object.entries(typeof extra === 'object' && extra !== null ? extra : {}).map(([key, value]) => [
        key,
        textsOf(value),
      ]),
    ),
    // The review does not say when the token expires; the time in the cache bounds how long the answer is trusted.
    expiresAt: null,
  }
}

function unavailable(cause: unknown): ServiceUnavailableError {
  return new ServiceUnavailableError('authentication is not possible now', { cause, details: { retryAfterSeconds: 1 } })
}

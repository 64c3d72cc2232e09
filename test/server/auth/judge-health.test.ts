/**
 * A failing authentication or authorization server is logged: when it starts failing, once a minute, and when it
 * recovers.
 */
import t, { type Test } from 'tap'
import { JudgeHealth } from '../../../src/server/auth/judge-health.js'
import {
  ServiceUnavailableError,
  TooManyRequestsError,
  UnauthorizedError,
} from '../../../src/kubernetes/model/status.js'
import { silentLogger } from '../../../src/support/log.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const unavailable = (...reasons: readonly string[]): ServiceUnavailableError =>
  new ServiceUnavailableError('authentication is currently unavailable', {
    cause: reasons.reduceRight<unknown>((cause, reason) => new Error(reason, { cause }), undefined),
  })

function watched(_t: Test) {
  const lines: string[] = []
  const line =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push(`${level} ${message} ${JSON.stringify(fields)}`)
  const clock = new VirtualClock()
  const logger = { ...silentLogger, info: line('info'), error: line('error') }
  const health = new JudgeHealth({ webhook: 'oidc', clock, logger })
  const judge = async (outcome: Error | string): Promise<void> => {
    const judging = typeof outcome === 'string' ? Promise.resolve(outcome) : Promise.reject(outcome)
    await health.note(judging).then(
      (judged) => t.equal(judged, outcome),
      (error: unknown) => t.equal(error, outcome),
    )
  }
  return { health, clock, judge, take: () => lines.splice(0) }
}

void t.test('a working webhook is not worth a line, nor are callers that it rejects', async (t) => {
  const { health, judge, take } = watched(t)
  await judge('ann')
  await judge(new UnauthorizedError('Unauthorized'))
  await judge(new TooManyRequestsError('too many', 1))
  t.same(take(), [])
  t.equal(health.problem, null)
})

void t.test('the first failure is logged with all its reasons, and then one in a minute', async (t) => {
  const { health, clock, judge, take } = watched(t)
  await judge(unavailable('the keys cannot be fetched', 'https://issuer.example/keys answered 406'))
  t.same(take(), [
    'error the review server fails; callers get 503 {"webhook":"oidc","reason":"the keys cannot be fetched: https://issuer.example/keys answered 406","failures":1}',
  ])
  t.equal(health.problem, 'the keys cannot be fetched (0 s ago)', 'the rest is for the operator alone')
  for (let i = 0; i < 59; i++) {
    clock.advance(1_000)
    await judge(unavailable('away'))
  }
  t.same(take(), [])
  clock.advance(1_000)
  await judge(unavailable('away'))
  t.match(take(), [/"failures":60/])
  clock.advance(5_000)
  t.equal(health.problem, 'away (5 s ago)')
  await judge('ann')
  t.match(take(), [/^info the review server answers again/])
  t.equal(health.problem, null)
})

void t.test('one that fails now and then logs at most two lines a minute', async (t) => {
  const { clock, judge, take } = watched(t)
  for (let i = 0; i < 600; i++) {
    await judge(i % 2 === 0 ? unavailable('away') : 'ann')
    clock.advance(100)
  }
  t.equal(take().length, 2)
})

void t.test('a bug in a webhook is reported too, and a reason of any length and depth is cut', async (t) => {
  const { judge, take } = watched(t)
  await judge(new TypeError('x'.repeat(10_000)))
  t.ok(take()[0]!.length < 1_000)
  const circle = new Error('round')
  circle.cause = circle
  const { judge: other, take: taken } = watched(t)
  await other(circle)
  t.match(taken(), [/"reason":"round: round: /])
})

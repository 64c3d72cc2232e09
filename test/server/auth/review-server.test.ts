/**
 * An API server that is starting refuses everybody: Kubernetes 1.37.2 answers `allowed: false`, without a reason, until
 * it has read its roles and bindings.
 */
import t, { type Test } from 'tap'

import { AccessGuard } from '../../../src/server/auth/access-guard.js'
import { tokenReview } from '../../../src/server/auth/authn/token-review.js'
import { parseTokenFile, tokenFile } from '../../../src/server/auth/authn/token-file.js'
import { unionAuthenticator } from '../../../src/server/auth/authn/union-authenticator.js'
import { resourceAttributes } from '../../../src/server/auth/authz/authorizer.js'
import { webhook } from '../../../src/server/auth/authz/webhook.js'
import { JsonClient } from '../../../src/server/auth/https-json.js'
import { ServiceUnavailableError, type StatusError } from '../../../src/kubernetes/model/status.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { until } from '../../support/until.js'
import { bearer, changeable, jsonServer } from './fixtures.js'

const CACHE_MS = 10_000
const PODS = { group: '', version: 'v1', plural: 'pods' }
const watchPods = resourceAttributes({ verb: 'watch', resource: PODS, namespace: 'web', name: '', path: '/' })
/** No response at all also means that the server is not ready. */
const NONE = 0
const STARTING = [500, 503, 403, 429, NONE] as const

const UNDECIDED = 'webhook authorizer failed'

/** Starts an API server. `accepts` is its decision once it is ready, and `readyz` the status of its health check. */
async function startJudges(t: Test) {
  const state = { accepts: true, readyz: 200, evaluationError: '' }
  const clock = new VirtualClock()
  const { url, asked, closeConnections } = await jsonServer(t, (path) => {
    if (path === '/readyz') return state.readyz === NONE ? null : { status: state.readyz, body: 'ok' }
    const accepts = state.accepts && !(STARTING as readonly number[]).includes(state.readyz)
    const status = path.includes('token')
      ? { authenticated: accepts, user: { username: 'ann' } }
      : { allowed: accepts, reason: '', evaluationError: state.evaluationError }
    return { status: 201, body: { status } }
  })
  const client = () => new JsonClient({ server: url })
  const authenticator = tokenReview({ client: client(), cacheMs: CACHE_MS, clock })
  const ttl = { authorizedMs: CACHE_MS, unauthorizedMs: CACHE_MS }
  const authorizer = webhook({ client: client(), ...ttl, clock })
  t.teardown(() => authenticator.close())
  t.teardown(() => authorizer.close())
  const ann = { name: 'ann', uid: '', groups: [], extra: {}, expiresAt: null }
  /** Each decides whether the caller is admitted. @throws StatusError when that cannot be decided now. */
  const judges = {
    TokenReview: async (who: string) =>
      await authenticator.authenticate(bearer(who)).then(
        () => true,
        (error: StatusError) => {
          if (error.code !== 401) throw error
          return false
        },
      ),
    SubjectAccessReview: async (who: string) => (await authorizer.authorize({ ...ann, name: who }, watchPods)).allowed,
  }
  const paths = (): readonly string[] => asked.splice(0).map(({ path }) => path.replace(/.*\//, '/'))
  return { state, clock, judges, authorizer, paths, restart: closeConnections }
}

for (const name of ['TokenReview', 'SubjectAccessReview'] as const) {
  for (const readyz of STARTING) {
    void t.test(`${name}: a refusal of a server that is starting does not count (readyz ${readyz})`, async (t) => {
      const { state, clock, judges, restart } = await startJudges(t)
      const judge = judges[name]
      t.equal(await judge('ann'), true)
      clock.advance(CACHE_MS)
      restart()
      state.readyz = readyz
      await t.rejects(judge('ann'), ServiceUnavailableError)
      await t.rejects(judge('ann'), ServiceUnavailableError, 'also over a connection that was used before')
      state.readyz = 200
      t.equal(await judge('ann'), true, 'at once, when it is ready')
    })
  }

  void t.test(`${name}: a refusal of a server that is ready counts, and is kept`, async (t) => {
    const { state, clock, judges, paths } = await startJudges(t)
    const judge = judges[name]
    state.accepts = false
    t.equal(await judge('ann'), false)
    const review = `/${name.toLowerCase()}s`
    t.same(paths(), [review, '/readyz', review])
    t.equal(await judge('ann'), false)
    t.same(paths(), [])
    t.equal(await judge('bob'), false)
    clock.advance(CACHE_MS)
    t.equal(await judge('ann'), false)
    t.same(paths(), [review, review], 'a known connection costs no further question')
    state.accepts = true
    clock.advance(CACHE_MS)
    t.equal(await judge('ann'), true)
  })

  for (const readyz of [403, NONE]) {
    void t.test(
      `${name}: a server that never becomes ready is believed after a minute (readyz ${readyz})`,
      async (t) => {
        const { state, clock, judges, restart } = await startJudges(t)
        const judge = judges[name]
        state.readyz = readyz
        await t.rejects(judge('ann'), ServiceUnavailableError)
        clock.advance(59_999)
        await t.rejects(judge('ann'), ServiceUnavailableError)
        clock.advance(1)
        t.equal(await judge('ann'), false)
        restart()
        t.equal(await judge('bob'), false, 'and further connections cost no time')
      },
    )
  }

  for (const waitMs of [0, 61_000]) {
    void t.test(`${name}: each restart gets its own minute, even if ${waitMs} ms pass without a request`, async (t) => {
      const { state, clock, judges, paths, restart } = await startJudges(t)
      const judge = judges[name]
      for (let i = 0; i < 3; i++) {
        restart()
        state.readyz = 500
        await t.rejects(judge('ann'), ServiceUnavailableError, `start ${i}`)
        paths()
        state.readyz = 200
        clock.advance(waitMs)
        t.equal(await judge('ann'), true)
        await until(() => paths().includes('/readyz'), 'it is found ready, although it denies nobody any more')
        clock.advance(120_000)
      }
    })
  }

  void t.test(`${name}: a server without /readyz is believed at once`, async (t) => {
    const { state, judges } = await startJudges(t)
    Object.assign(state, { readyz: 404, accepts: false })
    t.equal(await judges[name]('ann'), false)
  })
}

void t.test('access that the API server could not evaluate is neither denied nor kept', async (t) => {
  const { state, judges } = await startJudges(t)
  const judge = judges.SubjectAccessReview
  Object.assign(state, { accepts: false, evaluationError: UNDECIDED })
  await t.rejects(judge('ann'), ServiceUnavailableError)
  await t.rejects(judge('bob'), ServiceUnavailableError, 'also over a connection that is known')
  state.evaluationError = ''
  t.equal(await judge('bob'), false, 'a denial without an error counts')
  state.accepts = true
  t.equal(await judge('ann'), true, 'nothing was kept')
  state.evaluationError = UNDECIDED
  t.equal(await judge('eve'), true, 'another authorizer has allowed it')
})

void t.test('a watch survives a restart of the API server that reviews access, but not a revocation', async (t) => {
  const { state, clock, authorizer, restart, paths } = await startJudges(t)
  const tokens = changeable(parseTokenFile, 't1,ann,1', clock)
  const authenticator = unionAuthenticator({ authenticators: [tokenFile(tokens.files)], anonymous: false, clock })
  const guard = new AccessGuard({ authenticator, authorizer, clock })
  t.teardown(() => guard.close())
  const acting = await guard.actingAs(await guard.authenticate(bearer('t1')), bearer('t1'), watchPods)
  let ended: StatusError | null = null
  guard.keep(bearer('t1'), watchPods, await guard.authorize(acting, watchPods), (error) => (ended = error))
  const judged = async (last: string): Promise<void> => {
    const seen: string[] = []
    clock.advance(CACHE_MS + 5_000)
    await until(() => seen.push(...paths()) > 0 && seen.includes(last), 'the watch is judged again')
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
  }
  restart()
  state.readyz = 500
  for (let i = 0; i < 3; i++) {
    await judged('/readyz')
    t.equal(ended, null)
  }
  state.readyz = 200
  await judged('/subjectaccessreviews')
  t.equal(ended, null)
  Object.assign(state, { accepts: false, evaluationError: UNDECIDED })
  await judged('/subjectaccessreviews')
  t.equal(ended, null, 'an authorizer of the API server failed')
  state.evaluationError = ''
  await judged('/subjectaccessreviews')
  t.match(ended, { code: 403 })
})

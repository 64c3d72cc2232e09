import t from 'tap'
import { alwaysAllow } from '../../../src/server/auth/authz/always-allow.js'

import { AccessGuard } from '../../../src/server/auth/access-guard.js'
import type { AuthenticationRequest, Concerns } from '../../../src/server/auth/authn/authenticator.js'
import { parseTokenFile, tokenFile } from '../../../src/server/auth/authn/token-file.js'
import { unionAuthenticator, type UnionAuthenticator } from '../../../src/server/auth/authn/union-authenticator.js'
import { type Attributes, type Authorizer, resourceAttributes } from '../../../src/server/auth/authz/authorizer.js'
import { parsePolicy, policy } from '../../../src/server/auth/authz/policy.js'
import { ServiceUnavailableError, type StatusError, UnauthorizedError } from '../../../src/kubernetes/model/status.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { bearer, changeable, request } from './fixtures.js'

const watchPods = (namespace: string): Attributes =>
  resourceAttributes({
    verb: 'watch',
    resource: { group: '', version: 'v1', plural: 'pods' },
    namespace,
    name: '',
    path: '/',
  })

const policyFor = (...users: string[]): string =>
  users.length === 0
    ? 'rules: []'
    : `rules: [{users: [${users.join()}], verbs: [watch], apiGroups: [""], resources: [pods], namespaces: [web]}]`

const turns = async (count = 20): Promise<void> => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

interface Watch {
  ended: StatusError | null
  stop: () => void
}

async function start(guard: AccessGuard, request: AuthenticationRequest, attributes: Attributes): Promise<Watch> {
  const user = await guard.authenticate(request)
  const access = await guard.authorize(await guard.actingAs(user, request, attributes), attributes)
  const watch: Watch = { ended: null, stop: () => {} }
  watch.stop = guard.keep(request, attributes, access, (error) => {
    if (watch.ended !== null) throw new Error('revoked twice')
    watch.ended = error
  })
  return watch
}

function setup(t: { teardown(f: () => void): void }) {
  const clock = new VirtualClock()
  const tokens = changeable(parseTokenFile, 't1,ann,1\nt2,bob,2,web', clock)
  const rules = changeable(parsePolicy, policyFor('ann', 'bob'), clock)
  const authenticator = unionAuthenticator({ authenticators: [tokenFile(tokens.files)], anonymous: false, clock })
  const guard = new AccessGuard({ authenticator, authorizer: policy(rules.files), clock })
  t.teardown(() => guard.close())
  const settle = async () => {
    clock.advance(200)
    await turns()
  }
  return { clock, tokens, rules, guard, settle }
}

void t.test('a caller without the permission is refused, with a message that names it', async (t) => {
  const { guard } = setup(t)
  await t.rejects(guard.authenticate(bearer('t9')), { code: 401 })
  await t.rejects(start(guard, bearer('t1'), watchPods('db')), { code: 403, message: /in the namespace "db"/ })
  await t.rejects(start(guard, bearer('t1'), watchPods('')), { code: 403, message: /at the cluster scope/ })
  t.equal(guard.entries, 0)
})

void t.test('revoking a permission ends the watches that depend on it, and no others', async (t) => {
  const { guard, rules, settle } = setup(t)
  const ann = [await start(guard, bearer('t1'), watchPods('web')), await start(guard, bearer('t1'), watchPods('web'))]
  const bob = await start(guard, bearer('t2'), watchPods('web'))
  t.equal(guard.entries, 2, 'two watches of the same right are one entry')
  rules.change(policyFor('bob'))
  await settle()
  for (const watch of ann) t.match(watch.ended, { code: 403, message: /User "ann" cannot watch/ })
  t.equal(bob.ended, null)
  t.equal(guard.entries, 1)
})

void t.test('a change that does not affect the permission ends no watch', async (t) => {
  const { guard, rules, settle } = setup(t)
  const ann = await start(guard, bearer('t1'), watchPods('web'))
  rules.change(policyFor('carl', 'ann'))
  await settle()
  t.equal(ann.ended, null)
})

void t.test('a revoked token ends its watches with 401', async (t) => {
  const { guard, tokens, settle } = setup(t)
  const ann = await start(guard, bearer('t1'), watchPods('web'))
  tokens.change('t2,bob,2')
  await settle()
  t.match(ann.ended, { code: 401 })
})

void t.test('a change that affects one user takes effect at once, for that user alone', async (t) => {
  const clock = new VirtualClock()
  const asked: string[] = []
  const gone = new Set<string>()
  let tell: (concerns?: Concerns) => void = () => {}
  const authenticator: UnionAuthenticator = {
    admitsAnonymous: false,
    async authenticate({ rawHeaders }) {
      const uid = rawHeaders[1]!.slice('Bearer '.length)
      asked.push(uid)
      if (gone.has(uid)) throw new UnauthorizedError('Unauthorized')
      return { name: 'agent', uid, groups: [], extra: {}, expiresAt: null, byToken: true, byProxy: false }
    },
    onChange(listener) {
      tell = listener
      return () => {}
    },
    review: () => Promise.resolve(null),
    changesSilently: true,
    tickets: null,
    close() {},
  }
  const guard = new AccessGuard({ authenticator, authorizer: alwaysAllow, clock })
  t.teardown(() => guard.close())
  const watches = new Map<string, Watch>()
  for (const uid of ['a', 'b', 'c']) watches.set(uid, await start(guard, bearer(uid), watchPods('web')))
  asked.length = 0
  gone.add('a').add('b').add('c')
  tell((user) => user.uid === 'a')
  tell((user) => user.uid === 'b')
  clock.advance(200)
  await turns()
  t.same(asked, ['a', 'b'])
  for (const uid of ['a', 'b']) t.match(watches.get(uid)?.ended, { code: 401 })
  t.equal(watches.get('c')?.ended, null)
  tell()
  clock.advance(200)
  await turns()
  t.match(watches.get('c')?.ended, { code: 401 })
})

void t.test('a token that now identifies another user, or other groups, ends its watches', async (t) => {
  for (const file of ['t1,bob,2', 't1,ann,1,web']) {
    const { guard, tokens, settle } = setup(t)
    const ann = await start(guard, bearer('t1'), watchPods('web'))
    tokens.change(file)
    await settle()
    t.match(ann.ended, { code: 401 }, file)
  }
})

void t.test('a stopped watch is not notified, and its entry goes with the last of them', async (t) => {
  const { guard, rules, settle } = setup(t)
  const [a, b] = [
    await start(guard, bearer('t1'), watchPods('web')),
    await start(guard, bearer('t1'), watchPods('web')),
  ]
  a.stop()
  a.stop()
  t.equal(guard.entries, 1)
  rules.change(policyFor())
  await settle()
  t.equal(a.ended, null)
  t.match(b.ended, { code: 403 })
  b.stop()
  t.equal(guard.entries, 0)
})

void t.test('a permission revoked between the decision and the start of the watch is detected', async (t) => {
  const { guard, rules, settle } = setup(t)
  const user = await guard.authenticate(bearer('t1'))
  const access = await guard.authorize(await guard.actingAs(user, bearer('t1'), watchPods('web')), watchPods('web'))
  rules.change(policyFor())
  await settle()
  let ended: StatusError | null = null
  guard.keep(bearer('t1'), watchPods('web'), access, (error) => {
    ended = error
  })
  await settle()
  t.match(ended, { code: 403 })
})

void t.test('a request that waited needs no new check if no permission has changed', async (t) => {
  const { guard, rules, tokens, clock, settle } = setup(t)
  const asked = bearer('t1')
  const allow = async () =>
    await guard.authorize(
      await guard.actingAs(await guard.authenticate(asked), asked, watchPods('web')),
      watchPods('web'),
    )
  const grant = await allow()
  clock.advance(3_600_000)
  t.equal(guard.confirm(asked, watchPods('web'), grant), undefined)
  rules.change(policyFor('carl', 'ann'))
  await settle()
  t.equal(await guard.confirm(asked, watchPods('web'), grant), undefined, 'a change that leaves the right as it was')
  rules.change(policyFor('carl'))
  await settle()
  await t.rejects(async () => guard.confirm(asked, watchPods('web'), grant), {
    code: 403,
    message: /User "ann" cannot watch/,
  })
  t.equal(await guard.confirm(asked, null, grant), undefined, 'one that needs no right')
  tokens.change('t1,ann,1,web')
  await settle()
  await t.rejects(async () => guard.confirm(asked, null, grant), { code: 401 }, 'it speaks for other groups now')
})

void t.test(
  'a confirmation re-checks authorizers that change silently, but no sooner than a watch would',
  async (t) => {
    const clock = new VirtualClock()
    const state: Fake = { allowed: true, expiresAt: 60_000, failing: false, asked: 0, running: 0, mostRunning: 0 }
    const guard = new AccessGuard({ ...silent(clock, state), clock })
    t.teardown(() => guard.close())
    const asked = request([['Authorization', 'ann']])
    const grant = await guard.authorize(
      await guard.actingAs(await guard.authenticate(asked), asked, watchPods('web')),
      watchPods('web'),
    )
    const confirm = async (): Promise<void> => await guard.confirm(asked, watchPods('web'), grant)
    clock.advance(4_999)
    t.equal(guard.confirm(asked, watchPods('web'), grant), undefined)
    t.equal(state.asked, 1)
    clock.advance(1)
    await confirm()
    t.equal(state.asked, 2)
    state.failing = true
    await t.rejects(confirm(), { code: 503 }, 'nobody can say')
    Object.assign(state, { failing: false, allowed: false })
    await t.rejects(confirm(), { code: 403 })
    clock.advance(55_000)
    t.throws(() => guard.confirm(asked, watchPods('web'), grant), { code: 401 }, 'the credential has expired')
  },
)

interface Fake {
  allowed: boolean
  expiresAt: number | null
  failing: boolean
  asked: number
  running: number
  mostRunning: number
}

/** An authenticator and an authorizer that change without notice, as an API server does. */
function silent(clock: VirtualClock, state: Fake): { authenticator: UnionAuthenticator; authorizer: Authorizer } {
  const rest = { changesSilently: true, onChange: () => () => {}, close() {} }
  return {
    authenticator: {
      ...rest,
      admitsAnonymous: false,
      tickets: null,
      review: () => Promise.resolve(null),
      authenticate: async (request) => ({
        name: request.rawHeaders[1] ?? '',
        uid: '',
        groups: [],
        extra: {},
        byToken: true,
        byProxy: false,
        expiresAt: state.expiresAt === null ? null : clock.startMs + state.expiresAt,
      }),
    },
    authorizer: {
      ...rest,
      rulesFor: (...asked) => alwaysAllow.rulesFor(...asked),
      authorize: async () => {
        state.asked++
        state.running++
        state.mostRunning = Math.max(state.mostRunning, state.running)
        await new Promise((resolve) => setImmediate(resolve))
        state.running--
        if (state.failing) throw new ServiceUnavailableError('away')
        return { allowed: state.allowed, reason: '', rule: null }
      },
    },
  }
}

function silentSetup(t: { teardown(f: () => void): void }, more: Partial<Fake> = {}) {
  const clock = new VirtualClock()
  const state: Fake = { allowed: true, expiresAt: null, failing: false, asked: 0, running: 0, mostRunning: 0, ...more }
  const guard = new AccessGuard({ ...silent(clock, state), clock })
  t.teardown(() => guard.close())
  const pass = async (ms: number) => {
    await clock.advanceInTurns(ms, 1_000)
    await turns()
  }
  return { clock, state, guard, pass }
}

void t.test('rights that change silently are checked every few seconds', async (t) => {
  const { state, guard, pass } = silentSetup(t)
  const watch = await start(guard, bearer('x'), watchPods(''))
  await pass(4_000)
  t.equal(state.asked, 1)
  state.allowed = false
  await pass(2_000)
  t.match(watch.ended, { code: 403 })
})

void t.test('an expired credential ends its watch within a second', async (t) => {
  const { guard, pass } = silentSetup(t, { expiresAt: 3_500 })
  const watch = await start(guard, bearer('x'), watchPods(''))
  await pass(3_000)
  t.equal(watch.ended, null)
  await pass(1_000)
  t.match(watch.ended, { code: 401 })
})

void t.test('an unreachable authorizer ends no watch for five minutes, and then all of them', async (t) => {
  const { state, guard, pass } = silentSetup(t)
  const watch = await start(guard, bearer('x'), watchPods(''))
  state.failing = true
  await pass(300_000)
  t.equal(watch.ended, null)
  state.failing = false
  await pass(6_000)
  state.failing = true
  await pass(300_000)
  t.equal(watch.ended, null, 'an answer restarts the clock')
  await pass(10_000)
  t.match(watch.ended, { code: 503 })
})

void t.test('a thousand entries are checked a few at a time', async (t) => {
  const { state, guard, pass } = silentSetup(t)
  const watches: Watch[] = []
  for (let i = 0; i < 1_000; i++) watches.push(await start(guard, bearer(`x${i}`), watchPods('')))
  t.equal(guard.entries, 1_000)
  state.mostRunning = 0
  state.allowed = false
  await pass(6_000)
  await turns(200)
  t.equal(watches.filter((watch) => watch.ended !== null).length, 1_000)
  t.ok(state.mostRunning <= 16, `${state.mostRunning} at one time`)
  t.equal(guard.entries, 0)
})

void t.test('a closed guard leaves no timer behind', async (t) => {
  const { clock, guard } = silentSetup(t)
  await start(guard, bearer('x'), watchPods(''))
  t.ok(clock.pending > 0)
  guard.close()
  t.equal(clock.pending, 0)
})

import t from 'tap'

import type { Authenticator } from '../../../../src/server/auth/authn/authenticator.js'
import { parseTokenFile, tokenFile } from '../../../../src/server/auth/authn/token-file.js'
import { anonymousOnly, unionAuthenticator } from '../../../../src/server/auth/authn/union-authenticator.js'
import { alwaysAllow } from '../../../../src/server/auth/authz/always-allow.js'
import { type Authorizer, pathAttributes, resourceAttributes } from '../../../../src/server/auth/authz/authorizer.js'
import { forbidden } from '../../../../src/server/auth/authz/forbidden.js'
import { unionAuthorizer } from '../../../../src/server/auth/authz/union-authorizer.js'
import type { User } from '../../../../src/server/auth/user.js'
import {
  ServiceUnavailableError,
  type StatusError,
  TooManyRequestsError,
  UnauthorizedError,
} from '../../../../src/kubernetes/model/status.js'
import { BusyError } from '../../../../src/engine/model/errors.js'
import { VirtualClock } from '../../../support/virtual-clock.js'
import { bearer, changeable, request } from '../fixtures.js'

const quiet = { changesSilently: false, onChange: () => () => {}, close() {} }
const ANN: User = { name: 'ann', uid: '', groups: [], extra: {}, expiresAt: null }
const says = (outcome: User | null | Error): Authenticator => ({
  ...quiet,
  readsTokens: false,
  authenticate: async () => {
    if (outcome instanceof Error) throw outcome
    return outcome
  },
})
const clock = new VirtualClock(1_000)
const ended = says({ ...ANN, name: 'ended', expiresAt: 1_000 })
const current = says({ ...ANN, name: 'current', expiresAt: 1_001 })
const wrong = says(new UnauthorizedError('Unauthorized'))
const away = says(new ServiceUnavailableError('away'))
const full = says(new BusyError('too many reviews of tokens', 1))
const broken = says(new Error('a bug'))

type Refusal = new (...args: never[]) => StatusError

void t.test(
  'the first authenticator that knows the caller decides, and no bad credential falls through to anonymous',
  async (t) => {
    const rows: readonly (readonly [string, readonly Authenticator[], boolean, string | Refusal])[] = [
      ['one knows', [says(null), says(ANN)], false, 'ann'],
      ['a wrong credential of another kind does not hide it', [wrong, says(ANN)], false, 'ann'],
      ['nor does one that is away', [away, says(ANN)], false, 'ann'],
      ['a credential that ends later', [current], false, 'current'],
      ['one that has ended, on a connection that lives', [ended], false, UnauthorizedError],
      ['one that has ended, anonymous on', [ended], true, UnauthorizedError],
      ['one that has ended does not hide a right one', [ended, says(ANN)], false, 'ann'],
      ['nobody has any', [says(null)], false, UnauthorizedError],
      ['nobody has any, anonymous on', [says(null)], true, 'system:anonymous'],
      ['a wrong one, anonymous on', [wrong, says(null)], true, UnauthorizedError],
      ['away, anonymous on', [away], true, ServiceUnavailableError],
      ['a full limit, anonymous on', [full], true, TooManyRequestsError],
      ['a bug, anonymous on', [broken], true, ServiceUnavailableError],
      ['wrong and away: it may be right another time', [wrong, away], false, ServiceUnavailableError],
    ]
    for (const [name, authenticators, anonymous, expected] of rows) {
      const asked = unionAuthenticator({ authenticators, anonymous, clock }).authenticate(request([]))
      if (typeof expected === 'string') t.equal((await asked).name, expected, name)
      else await t.rejects(asked, expected, name)
    }
  },
)

void t.test('an unknown token is answered with 401 without a reason, even with anonymous access', async (t) => {
  const known = tokenFile(changeable(parseTokenFile, 't1,ann,1').files)
  for (const anonymous of [false, true]) {
    const union = unionAuthenticator({ authenticators: [known], anonymous, clock })
    t.match(await union.authenticate(bearer('t1')), { name: 'ann', groups: ['system:authenticated'] })
    const error: unknown = await union.authenticate(bearer('t2')).catch((e: unknown) => e)
    t.match(error, { code: 401, reason: 'Unauthorized', message: 'Unauthorized' })
  }
  t.match(
    await anonymousOnly.authenticate(bearer('t2')),
    { name: 'system:anonymous' },
    'without authenticators nobody is asked',
  )
})

void t.test('one authorizer that allows is enough, and without any opinion the request is refused', async (t) => {
  const answers = (outcome: boolean | Error, reason = ''): Authorizer => ({
    ...quiet,
    rulesFor: (...asked) => alwaysAllow.rulesFor(...asked),
    authorize: async () => {
      if (outcome instanceof Error) throw outcome
      return { allowed: outcome, reason, rule: outcome ? 'yes' : null }
    },
  })
  const ask = (...authorizers: Authorizer[]) =>
    unionAuthorizer(authorizers.map((authorizer, i) => ({ name: `mode${i}`, authorizer }))).authorize(
      ANN,
      pathAttributes('GET', '/'),
    )
  t.match(await ask(answers(false), answers(true)), { allowed: true, rule: 'yes' })
  t.match(await ask(answers(new Error('x')), alwaysAllow), { allowed: true, rule: 'AlwaysAllow' })
  t.same(await ask(answers(false, 'a'), answers(false), answers(false, 'b')), {
    allowed: false,
    reason: 'mode0: a\nmode2: b',
    rule: null,
  })
  t.match(await ask(), { allowed: false })
  await t.rejects(
    ask(answers(false), answers(new Error('x'))),
    ServiceUnavailableError,
    'who could not be asked might have said yes',
  )
})

void t.test("a 403 is worded as the API server's", async (t) => {
  const user = { ...ANN, name: 'x' }
  const on = (group: string, resource: string, namespace: string, name = '', subresource = '', verb = 'list') =>
    resourceAttributes({
      verb,
      resource: { group, version: 'v1', plural: resource },
      subresource,
      namespace,
      name,
      path: '/',
    })
  const rows: readonly (readonly [ReturnType<typeof on>, string, string])[] = [
    [
      on('', 'pods', 'y'),
      '',
      'pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "y"',
    ],
    [
      on('', 'pods', ''),
      '',
      'pods is forbidden: User "x" cannot list resource "pods" in API group "" at the cluster scope',
    ],
    [
      on('apps', 'deployments', 'y', 'd', 'scale', 'get'),
      'why',
      'deployments.apps "d" is forbidden: User "x" cannot get resource "deployments/scale" in API group "apps" in the namespace "y": why',
    ],
    [pathAttributes('GET', '/metrics'), '', 'forbidden: User "x" cannot get path "/metrics"'],
    [pathAttributes('GET', '/<b>&'), '', 'forbidden: User "x" cannot get path "/&lt;b&gt;&amp;"'],
  ]
  for (const [attributes, reason, expected] of rows) t.equal(forbidden(user, attributes, { reason }).message, expected)
  t.same(forbidden(user, on('apps', 'deployments', 'y', 'd', '', 'get'), { reason: '' }).toStatus(), {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message:
      'deployments.apps "d" is forbidden: User "x" cannot get resource "deployments" in API group "apps" in the namespace "y"',
    reason: 'Forbidden',
    details: { name: 'd', group: 'apps', kind: 'deployments' },
    code: 403,
  })
})

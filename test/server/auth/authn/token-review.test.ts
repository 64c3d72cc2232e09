import { BusyError } from '../../../../src/engine/model/errors.js'
import { rmSync } from 'node:fs'
import t from 'tap'

import { ConnectionCount } from '../../../../src/support/connection-count.js'
import { tokenReview } from '../../../../src/server/auth/authn/token-review.js'
import { pathAttributes, resourceAttributes } from '../../../../src/server/auth/authz/authorizer.js'
import { webhook } from '../../../../src/server/auth/authz/webhook.js'
import { JsonClient } from '../../../../src/server/auth/https-json.js'
import { field } from '../../../../src/support/fields.js'
import { loadKubeconfig } from '../../../../src/server/auth/kubeconfig.js'
import type { User } from '../../../../src/server/auth/user.js'
import { ServiceUnavailableError, UnauthorizedError } from '../../../../src/kubernetes/model/status.js'
import { VirtualClock } from '../../../support/virtual-clock.js'
import { bearer, Folder, jsonServer } from '../fixtures.js'

const ANN: User = { name: 'ann', uid: 'u1', groups: ['web'], extra: { k: ['v'] }, expiresAt: null }
const PODS = { group: '', version: 'v1', plural: 'pods' }
const listPods = resourceAttributes({ verb: 'list', resource: PODS, namespace: 'web', name: '', path: '/' })

type Answer = { status?: number; body: unknown } | null

void t.test('a webhook reviews tokens', async (t) => {
  const clock = new VirtualClock()
  let answer = null as Answer
  const { url, asked } = await jsonServer(t, () => answer)
  const authenticator = tokenReview({
    client: new JsonClient({ server: url, authorization: () => 'Bearer own' }),
    cacheMs: 10_000,
    clock,
  })
  t.teardown(() => authenticator.close())
  const good = {
    body: {
      status: {
        authenticated: true,
        user: { username: 'ann', uid: 'u1', groups: ['web', 5], extra: { scopes: ['a'] } },
      },
    },
  }

  answer = good
  const users = await Promise.all(Array.from({ length: 20 }, () => authenticator.authenticate(bearer('t1'))))
  t.same(users[0], { name: 'ann', uid: 'u1', groups: ['web'], extra: { scopes: ['a'] }, expiresAt: null })
  t.same(
    asked,
    [
      {
        path: '/apis/authentication.k8s.io/v1/tokenreviews',
        authorization: 'Bearer own',
        body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token: 't1' } },
      },
    ],
    'twenty who ask at one time ask once, as ourselves',
  )

  answer = { body: { status: { authenticated: false, error: 'no' } } }
  t.ok(await authenticator.authenticate(bearer('t1')), 'kept')
  clock.advance(10_000)
  await t.rejects(authenticator.authenticate(bearer('t1')), UnauthorizedError, 'asked again: taken back')
  answer = good
  await t.rejects(authenticator.authenticate(bearer('t1')), UnauthorizedError, 'a no is kept too')

  const wrong: readonly Answer[] = [
    null,
    { status: 500, body: {} },
    { status: 403, body: { kind: 'Status' } },
    { body: 'not json' },
    { body: [] },
    { body: { status: null } },
    { body: { status: { authenticated: true, user: {} } } },
    { status: 302, body: { status: { authenticated: true, user: { username: 'ann' } } } },
  ]
  for (const [i, one] of wrong.entries()) {
    answer = one
    const outcome = await authenticator.authenticate(bearer(`w${i}`)).then(
      (user) => user,
      (error: unknown) => error,
    )
    t.ok(outcome instanceof ServiceUnavailableError || outcome instanceof UnauthorizedError, JSON.stringify(one))
  }
  answer = good
  t.match(await authenticator.authenticate(bearer('w1')), { name: 'ann' }, '"cannot say now" is not kept')
})

for (const [source, addressOf] of [
  ['an address', () => '10.6.6.6'],
  ['an IPv6 network', (i: number) => `2001:db8::${(i % 0xff_ff).toString(16)}`],
] as const) {
  void t.test(
    `a flood of invented tokens from ${source} delays neither known tokens nor other addresses`,
    async (t) => {
      const clock = new VirtualClock()
      const running = new Map<string, () => void>()
      const reviewed: string[] = []
      const authenticator = tokenReview({
        client: {
          connections: new ConnectionCount(),
          get: async () => ({ status: 200, body: {} }),
          async post(_path, body) {
            const token = String(field(body, 'spec', 'token'))
            reviewed.push(token)
            if (token.startsWith('invented')) await new Promise<void>((resolve) => running.set(token, resolve))
            const isGood = token.startsWith('good')
            return {
              status: 201,
              body: { status: { authenticated: isGood, ...(isGood ? { user: { username: token } } : {}) } },
            }
          },
          close: () => {},
        },
        cacheMs: 10_000,
        clock,
      })
      const from = (address: string, token: string) => authenticator.authenticate({ ...bearer(token), address })
      t.match(await from('10.0.0.1', 'good-1'), { name: 'good-1' })
      clock.advance(11_000)
      const refusals: unknown[] = []
      const flood = Array.from({ length: 20_000 }, (_, i) =>
        from(addressOf(i), `invented-${i}`).catch((error: unknown) => refusals.push(error)),
      )
      await new Promise((resolve) => setImmediate(resolve))
      t.equal(running.size, 1, 'one client has one question')
      t.equal(refusals.length, 20_000 - 1 - 32, 'and a short queue')
      t.ok(refusals.every((error) => error instanceof BusyError))
      t.match(await from(addressOf(0), 'good-1'), { name: 'good-1' }, 'a known token passes, from the same address too')
      t.match(await from('10.0.0.2', 'good-2'), { name: 'good-2' }, 'and a new one of another address')
      for (let i = 0; i < 100; i++) await from(`10.1.0.${i}`, `bad-${i}`).catch(() => {})
      t.equal(reviewed.filter((token) => token.startsWith('bad')).length, 100)
      while (running.size > 0) {
        for (const [token, go] of running) {
          running.delete(token)
          go()
        }
        await new Promise((resolve) => setImmediate(resolve))
      }
      await Promise.all(flood)
      clock.advance(11_000)
      t.match(await from('10.0.0.1', 'good-1'), { name: 'good-1' }, 'the known ones are not forgotten for the invented')
    },
  )
}

void t.test('a review of access carries selectors, and an answer is for those selectors', async (t) => {
  const { url, asked } = await jsonServer(t, () => ({ body: { status: { allowed: asked.length === 1 } } }))
  const client = new JsonClient({ server: url })
  const authorizer = webhook({ client, authorizedMs: 10_000, unauthorizedMs: 10_000, clock: new VirtualClock() })
  t.teardown(() => authorizer.close())
  const fieldSelector = [{ key: 'spec.nodeName', operator: 'In', values: ['n1'] }] as const
  const labelSelector = [{ key: 'web', operator: 'Exists' }] as const
  const selected = { ...listPods, fieldSelector, labelSelector }
  for (let i = 0; i < 2; i++) t.equal((await authorizer.authorize(ANN, selected)).allowed, true)
  t.match(asked, [
    {
      body: {
        spec: {
          resourceAttributes: {
            fieldSelector: { requirements: fieldSelector },
            labelSelector: { requirements: labelSelector },
          },
        },
      },
    },
  ])
  t.equal((await authorizer.authorize(ANN, listPods)).allowed, false, 'the whole list is another question')
  t.equal((await authorizer.authorize(ANN, { ...selected, fieldSelector: [] })).allowed, false)
})

void t.test('a webhook reviews access', async (t) => {
  const clock = new VirtualClock()
  let answer = { body: { status: { allowed: true, reason: 'because' } } } as Answer
  const { url, asked } = await jsonServer(t, () => answer)
  const authorizer = webhook({
    client: new JsonClient({ server: url }),
    authorizedMs: 10_000,
    unauthorizedMs: 2_000,
    clock,
  })
  t.teardown(() => authorizer.close())
  const ask = (user: User = ANN) => authorizer.authorize(user, listPods)

  await Promise.all(Array.from({ length: 20 }, () => ask()))
  t.same(asked.splice(0), [
    {
      path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
      authorization: undefined,
      body: {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: {
          user: 'ann',
          uid: 'u1',
          groups: ['web'],
          extra: { k: ['v'] },
          resourceAttributes: {
            verb: 'list',
            group: '',
            version: 'v1',
            resource: 'pods',
            subresource: '',
            namespace: 'web',
            name: '',
          },
        },
      },
    },
  ])
  t.same(await ask(), { allowed: true, reason: '', rule: 'Webhook: because' })

  answer = { body: { status: { allowed: false, reason: 'no right' } } }
  t.equal((await ask()).allowed, true, 'a yes is kept for its time')
  clock.advance(9_999)
  t.equal((await ask()).allowed, true)
  clock.advance(1)
  t.same(await ask(), { allowed: false, denied: false, reason: 'no right', rule: null })
  answer = { body: { status: { allowed: true } } }
  t.equal((await ask()).allowed, false, 'a no is kept for its own')
  clock.advance(2_000)
  t.equal((await ask()).allowed, true)

  asked.length = 0
  const others: readonly User[] = [
    { ...ANN, name: 'bob' },
    { ...ANN, groups: ['web', 'ops'] },
    { ...ANN, extra: {} },
    { ...ANN, uid: '' },
    { ...ANN, name: 'a', groups: ['nnweb'] },
  ]
  for (const user of others) await ask(user)
  t.equal(asked.length, others.length, 'no identity gets an answer meant for another')

  asked.length = 0
  await authorizer.authorize(ANN, pathAttributes('GET', '/metrics'))
  t.match(field(asked[0]?.body, 'spec', 'nonResourceAttributes'), { verb: 'get', path: '/metrics' })

  const wrong: readonly Answer[] = [
    null,
    { status: 500, body: { status: { allowed: true } } },
    { status: 302, body: { status: { allowed: true } } },
    { body: 'not json' },
    { body: { status: { allowed: 'true' } } },
    { body: {} },
  ]
  for (const [i, one] of wrong.entries()) {
    answer = one
    await t.rejects(ask({ ...ANN, name: `w${i}` }), ServiceUnavailableError, JSON.stringify(one))
  }
  answer = { body: { status: { allowed: true, denied: true } } }
  t.equal((await ask({ ...ANN, name: 'denied' })).allowed, false)
})

void t.test('an endless answer is cut off', async (t) => {
  const { url } = await jsonServer(t, () => ({ body: 'x'.repeat(2 ** 20 + 1) }))
  const client = new JsonClient({ server: url })
  t.teardown(() => client.close())
  await t.rejects(client.post('/', {}), /more than 1048576 bytes/)
})

void t.test('the kubeconfig of a webhook is read', async (t) => {
  const folder = new Folder(t)
  folder.write('ca.pem', 'CA')
  folder.write('token', 'first\n')
  const config = (user: string, cluster = 'server: https://api.example:6443') =>
    folder.write(
      'config',
      `
current-context: c
contexts: [{name: other, context: {cluster: x, user: x}}, {name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {${cluster}}}]
users: [{name: u, user: {${user}}}]
`,
    )
  const authorization = (user: string) => loadKubeconfig(config(user)).authorization?.() ?? null
  t.equal(authorization('token: abc'), 'Bearer abc')
  t.equal(authorization('username: a, password: b'), `Basic ${Buffer.from('a:b').toString('base64')}`)
  t.equal(authorization(''), null)
  const fromFile = loadKubeconfig(config('tokenFile: token'))
  t.equal(fromFile.authorization?.(), 'Bearer first')
  folder.write('token', 'second')
  t.equal(fromFile.authorization?.(), 'Bearer second', 'a rotated token is read again')
  const token = folder.write('token', '\n')
  t.equal(fromFile.authorization?.(), 'Bearer second', 'the last token counts while the file is being written')
  rmSync(token)
  t.equal(fromFile.authorization?.(), 'Bearer second', 'and while it is missing')
  folder.write('token', '')
  t.throws(() => loadKubeconfig(config('tokenFile: token')), /token is empty/)
  const data = Buffer.from('CERT').toString('base64')
  t.match(
    loadKubeconfig(
      config(
        `client-certificate-data: ${data}, client-key-data: ${data}`,
        'server: https://a, certificate-authority: ca.pem, tls-server-name: b',
      ),
    ),
    {
      server: 'https://a',
      ca: Buffer.from('CA'),
      cert: Buffer.from('CERT'),
      key: Buffer.from('CERT'),
      tlsServerName: 'b',
    },
    'paths are relative to the file',
  )
  const bad: readonly (readonly [string, RegExp])[] = [
    ['', /no context/],
    ['current-context: c', /no context "c"/],
    ['current-context: c\ncontexts: [{name: c, context: {cluster: k}}]', /no cluster "k"/],
    ['contexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k, cluster: {}}]', /server "" is not a URL/],
    [
      'contexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {server: "https://a"}}]',
      /no user "u"/,
    ],
    ['[', /./],
  ]
  for (const [text, expected] of bad) t.throws(() => loadKubeconfig(folder.write('bad', text)), expected, text)
  t.throws(
    () =>
      loadKubeconfig(
        config('exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}'),
      ),
    /has an exec plugin/,
  )
  t.throws(() => loadKubeconfig(config('tokenFile: missing')), /ENOENT/)
})

void t.test('a token is reviewed for the audiences of this server, and counts if the API server says so', async (t) => {
  const status = { authenticated: true, user: { username: 'ann' } }
  let answer: object = { ...status, audiences: ['edge'] }
  const { url, asked } = await jsonServer(t, () => ({ body: { status: answer } }))
  const authenticator = tokenReview({
    client: new JsonClient({ server: url }),
    cacheMs: 0,
    audiences: ['edge', 'other'],
    clock: new VirtualClock(),
  })
  t.teardown(() => authenticator.close())
  t.match(await authenticator.authenticate(bearer('t1')), { name: 'ann' })
  t.match(asked, [{ body: { spec: { token: 't1', audiences: ['edge', 'other'] } } }])
  for (const one of [
    status,
    { ...status, audiences: ['https://kubernetes.default.svc'] },
    { ...status, audiences: 5 },
  ]) {
    answer = one
    await t.rejects(authenticator.authenticate(bearer('t1')), UnauthorizedError, JSON.stringify(one))
  }
})

void t.test('a clock that is set back keeps no decision longer than configured', async (t) => {
  const clock = new VirtualClock()
  let isAllowed = true
  const { url } = await jsonServer(t, (path) => ({
    body: {
      status: path.includes('token')
        ? { authenticated: isAllowed, user: { username: 'ann' } }
        : { allowed: isAllowed, reason: '' },
    },
  }))
  const [reviewer, judge] = [new JsonClient({ server: url }), new JsonClient({ server: url })]
  const authenticator = tokenReview({ client: reviewer, cacheMs: 10_000, clock })
  const authorizer = webhook({ client: judge, authorizedMs: 10_000, unauthorizedMs: 10_000, clock })
  t.teardown(() => authenticator.close())
  t.teardown(() => authorizer.close())
  t.match(await authenticator.authenticate(bearer('t1')), { name: 'ann' })
  t.match(await authorizer.authorize(ANN, listPods), { allowed: true })
  isAllowed = false
  clock.jump(-3_600_000)
  clock.advance(9_999)
  t.match(await authenticator.authenticate(bearer('t1')), { name: 'ann' }, 'kept so long')
  t.match(await authorizer.authorize(ANN, listPods), { allowed: true })
  clock.advance(1)
  await t.rejects(authenticator.authenticate(bearer('t1')), UnauthorizedError)
  t.match(await authorizer.authorize(ANN, listPods), { allowed: false })
})

/** TokenReviews answered by a server that stands alone, and who may not use them to try tokens. */
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../support/app.js'

const PATH = '/apis/authentication.k8s.io/v1/tokenreviews'
const TOKENS = 'web-token,web,uid-2,"team-web"\njudge-token,judge,uid-3\n'
const POLICY = `rules:
  - name: judge reviews tokens
    users: [judge]
    verbs: [create]
    apiGroups: [authentication.k8s.io]
    resources: [tokenreviews]
`

async function start(t: Test, ...flags: readonly string[]): Promise<AppHarness> {
  const folder = t.testdir({ 'tokens.csv': TOKENS, 'policy.yaml': POLICY })
  return await startApp(t, {
    flags: [
      `--token-auth-file=${folder}/tokens.csv`,
      '--authorization-mode=Policy',
      `--authorization-policy-file=${folder}/policy.yaml`,
      ...flags,
    ],
  })
}

interface Answer {
  readonly code: number
  readonly body: { readonly status?: unknown; readonly message?: string; readonly metadata?: unknown }
}

async function review(url: string, caller: string | null, spec: object): Promise<Answer> {
  const headers: Record<string, string> = { 'content-type': 'application/json' }
  if (caller !== null) headers['authorization'] = `Bearer ${caller}`
  const answer = await fetch(`${url}${PATH}`, { method: 'POST', headers, body: JSON.stringify({ spec }) })
  return { code: answer.status, body: (await answer.json()) as Answer['body'] }
}

void t.test('a token review says whose token it is', async (t) => {
  const { url } = await start(t, '--enable-writes')
  const found = await review(url, 'judge-token', { token: 'web-token' })
  t.strictSame(found, {
    code: 201,
    body: {
      kind: 'TokenReview',
      apiVersion: 'authentication.k8s.io/v1',
      metadata: {},
      spec: { token: 'web-token' },
      status: {
        authenticated: true,
        user: { username: 'web', uid: 'uid-2', groups: ['team-web', 'system:authenticated'] },
      },
    },
  })
  const unknown = await review(url, 'judge-token', { token: 'wrong' })
  t.strictSame(unknown.body.status, { user: {}, error: 'invalid bearer token' })
  t.equal(unknown.code, 201)
  t.match(await review(url, 'judge-token', {}), { code: 400, body: { message: /token is required/ } })
})

void t.test('a token of the token file is valid for the audiences of this server alone', async (t) => {
  const { url } = await start(
    t,
    '--enable-writes',
    '--service-account-issuer=https://issuer.example',
    '--api-audiences=a,b',
  )
  const status = async (audiences: readonly string[]): Promise<unknown> =>
    (await review(url, 'judge-token', { token: 'web-token', audiences })).body.status
  t.match(await status([]), { authenticated: true, audiences: ['a', 'b'] })
  t.match(await status(['b', 'vault']), { authenticated: true, audiences: ['b'] })
  t.strictSame(await status(['vault']), { user: {}, error: 'invalid bearer token' })
})

void t.test('callers without permission to review tokens learn nothing about them', async (t) => {
  const { url } = await start(t, '--enable-writes', '--anonymous-auth')
  for (const caller of ['web-token', null]) {
    const [valid, invalid] = [
      await review(url, caller, { token: 'judge-token' }),
      await review(url, caller, { token: 'wrong' }),
    ]
    t.equal(valid.code, 403)
    t.strictSame(valid, invalid)
  }
})

void t.test('only the token is checked: not the caller, and not an absent credential', async (t) => {
  const { url } = await start(t, '--enable-writes', '--anonymous-auth')
  for (const token of [' ', '\t', ' web-token', 'Bearer web-token', 'web-token,judge-token', 'web\r\ntoken']) {
    const { code, body } = await review(url, 'judge-token', { token })
    t.equal(code, 201)
    t.strictSame(body.status, { user: {}, error: 'invalid bearer token' }, JSON.stringify(token))
  }
})

void t.test('beside an API server, that server reviews tokens', async (t) => {
  const { url } = await start(t)
  t.equal((await review(url, 'web-token', { token: 'web-token' })).code, 403)
  t.equal((await review(url, 'judge-token', { token: 'web-token' })).code, 404)
})

void t.test('a server without writes reviews no tokens', async (t) => {
  const { url } = await start(t)
  t.match(await review(url, 'judge-token', { token: 'web-token' }), { code: 404, body: { status: 'Failure' } })
})

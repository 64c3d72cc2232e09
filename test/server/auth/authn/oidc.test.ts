import { createSecretKey } from 'node:crypto'

import { type CryptoKey, exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import t, { type Test } from 'tap'

import { oidc, type OidcOptions } from '../../../../src/server/auth/authn/oidc.js'
import { JsonClient } from '../../../../src/server/auth/https-json.js'
import { ServiceUnavailableError, UnauthorizedError } from '../../../../src/kubernetes/model/status.js'
import { until } from '../../../support/until.js'
import { VirtualClock } from '../../../support/virtual-clock.js'
import { bearer, jsonServer, request } from '../fixtures.js'

interface Key {
  readonly kid: string
  readonly privateKey: CryptoKey
  readonly publicKey: CryptoKey
}

async function makeKey(kid: string): Promise<Key> {
  return { kid, ...(await generateKeyPair('RS256')) }
}

const KEYS = { one: await makeKey('one'), two: await makeKey('two'), foreign: await makeKey('one') }

/** An issuer on loopback with discovery and a key set over HTTP; its keys can be rotated. */
async function issuer(t: Test, more: Partial<OidcOptions> = {}) {
  const state = {
    keys: [KEYS.one],
    away: false,
    discovery: {} as Record<string, unknown>,
    keysFail: false,
    /** The required type of the key set. */
    keySetType: 'application/json',
  }
  const server = await jsonServer(t, (path, _body, accept) => {
    if (state.away) return null
    if (path === '/.well-known/openid-configuration') {
      return { body: { issuer: url, jwks_uri: `${url}/keys`, ...state.discovery } }
    }
    if (path !== '/keys' || state.keysFail) return { status: 500, body: {} }
    if (!accept.split(', ').includes(state.keySetType)) return { status: 406, body: {} }
    return { body: { keys: jwks(state.keys) } }
  })
  const { url, asked } = server
  const clock = new VirtualClock()
  const authenticator = oidc({
    issuerUrl: url,
    oidcClientId: ['distributary', 'other'],
    oidcUsernameClaim: 'sub',
    oidcUsernamePrefix: null,
    oidcGroupsClaim: 'groups',
    oidcGroupsPrefix: null,
    oidcSigningAlgs: ['RS256', 'ES256'],
    client: new JsonClient({ server: url }),
    clock,
    ...more,
  })
  t.teardown(() => authenticator.close())
  const seconds = () => Math.floor(clock.now() / 1_000)
  const token = (claims: JWTPayload = {}, key: Key = KEYS.one, header: Record<string, unknown> = {}) =>
    new SignJWT({ iss: url, aud: 'distributary', sub: 'ann', exp: seconds() + 600, ...claims })
      .setProtectedHeader({ alg: 'RS256', kid: key.kid, ...header })
      .sign(key.privateKey)
  const ask = (text: string) => authenticator.authenticate(bearer(text))
  return { state, url, asked, clock, authenticator, token, ask, seconds }
}

const published = new Map(
  await Promise.all(
    Object.values(KEYS).map(
      async (key) => [key, { ...(await exportJWK(key.publicKey)), kid: key.kid, use: 'sig' }] as const,
    ),
  ),
)
const jwks = (keys: readonly Key[]) => keys.map((key) => published.get(key))

void t.test('a valid token identifies a user until it expires', async (t) => {
  const { token, ask, url, seconds, clock } = await issuer(t)
  t.same(await ask(await token({ groups: ['web', 'ops'] })), {
    name: `${url}#ann`,
    uid: '',
    groups: ['web', 'ops'],
    extra: {},
    expiresAt: (seconds() + 600) * 1_000 + 10_000,
  })
  const text = await token({ exp: seconds() + 60 })
  t.ok(await ask(text))
  clock.advance(60_000)
  t.ok(await ask(text), 'within the clock skew')
  clock.advance(11_000)
  await t.rejects(ask(text), UnauthorizedError, 'a kept decision does not outlive the token')
})

void t.test('every attack is answered with 401', async (t) => {
  const { token, ask, url, seconds } = await issuer(t)
  const claims = { iss: url, aud: 'distributary', sub: 'ann', exp: seconds() + 600 }
  const b64 = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const unsigned = (header: object, signature = '') => `${b64(header)}.${b64(claims)}.${signature}`
  const publicPem = await exportSPKI(KEYS.one.publicKey)
  const good = await token()
  const [head = '', body = '', signature = ''] = good.split('.')
  const rows: readonly (readonly [string, string])[] = [
    ['alg none', unsigned({ alg: 'none' })],
    ['alg None', unsigned({ alg: 'None' })],
    ['alg none with the kid', unsigned({ alg: 'none', kid: 'one' }, signature)],
    ['no alg', unsigned({ kid: 'one' }, signature)],
    [
      'HS256 keyed with the public key',
      await new SignJWT(claims)
        .setProtectedHeader({ alg: 'HS256', kid: 'one' })
        .sign(createSecretKey(Buffer.from(publicPem))),
    ],
    ['signed by another key of the same kid', await token({}, KEYS.foreign)],
    ['an unknown kid', await token({}, KEYS.one, { kid: 'nowhere' })],
    ['a kid that is a path', await token({}, KEYS.foreign, { kid: '../../../dev/null' })],
    ['a kid that is __proto__', await token({}, KEYS.foreign, { kid: '__proto__' })],
    ['a kid that is not text', unsigned({ alg: 'RS256', kid: { a: 1 } }, signature)],
    ['its own key in the header', await token({}, KEYS.foreign, { jwk: published.get(KEYS.foreign), kid: 'one' })],
    ['a key set of its own', await token({}, KEYS.foreign, { jku: 'http://127.0.0.1:1/keys' })],
    ['an algorithm not allowed', unsigned({ alg: 'PS256', kid: 'one' }, signature)],
    ['a critical header nobody knows', unsigned({ alg: 'RS256', kid: 'one', crit: ['x'], x: 1 }, signature)],
    ['expired', await token({ exp: seconds() - 11 })],
    ['no end', await token({ exp: undefined as never })],
    ['an expiry that is not a number', await token({ exp: 'tomorrow' as never })],
    ['not yet valid', await token({ nbf: seconds() + 30 })],
    ['another audience', await token({ aud: 'someone-else' })],
    ['no audience', await token({ aud: undefined as never })],
    ['no subject', await token({ sub: undefined as never })],
    ['an empty subject', await token({ sub: '' })],
    ['a subject that is not text', await token({ sub: ['ann'] as never })],
    ['a changed body', `${head}.${b64({ ...claims, sub: 'root' })}.${signature}`],
    ['a cut signature', good.slice(0, -10)],
    ['no signature', `${head}.${body}.`],
  ]
  for (const [name, text] of rows) await t.rejects(ask(text), UnauthorizedError, name)
  t.ok(await ask(good), 'the good one still counts after all that')
})

void t.test('a token from another issuer is left to other authenticators', async (t) => {
  const { token, ask, authenticator, asked } = await issuer(t)
  for (const text of ['opaque', 'a.b', 'a.b.c', 'a.b.c.d.e', '..', await token({ iss: 'https://elsewhere.example' })]) {
    t.equal(await ask(text), null, text.slice(0, 30))
  }
  t.equal(await authenticator.authenticate(request([])), null)
  t.same(asked, [], 'and the issuer is not asked about it')
})

void t.test('one of several audiences is enough', async (t) => {
  const { token, ask } = await issuer(t)
  t.ok(await ask(await token({ aud: ['x', 'other'] })))
})

void t.test('claims become names', async (t) => {
  const rows: readonly (readonly [Partial<OidcOptions>, JWTPayload, object | null])[] = [
    [{ oidcUsernamePrefix: 'o:' }, {}, { name: 'o:ann' }],
    [{ oidcUsernamePrefix: '-' }, {}, { name: 'ann' }],
    [{ oidcUsernameClaim: 'email' }, { email: 'a@x' }, { name: 'a@x' }],
    [{ oidcUsernameClaim: 'email' }, { email: 'a@x', email_verified: true }, { name: 'a@x' }],
    [{ oidcUsernameClaim: 'email' }, { email: 'a@x', email_verified: false }, null],
    [{ oidcUsernameClaim: 'email' }, { email: 'a@x', email_verified: 'true' }, null],
    [{ oidcUsernameClaim: 'email' }, {}, null],
    [{}, { groups: 'web' }, { groups: ['web'] }],
    [{}, { groups: ['web', 5, null] }, { groups: ['web'] }],
    [{}, { groups: { web: true } }, { groups: [] }],
    [{ oidcGroupsClaim: null }, { groups: ['web'] }, { groups: [] }],
    [{ oidcGroupsPrefix: 'o:' }, { groups: ['web', 'system:masters'] }, { groups: ['o:web', 'o:system:masters'] }],
    [{}, { groups: ['system:masters', 'web'] }, { groups: ['web'] }],
    [{ oidcGroupsPrefix: '' }, { groups: ['system:masters'] }, { groups: [] }],
    [{ oidcUsernamePrefix: '-' }, { sub: 'system:admin' }, null],
    [{ oidcUsernameClaim: '__proto__' }, {}, null],
  ]
  for (const [options, claims, expected] of rows) {
    const { token, ask } = await issuer(t, options)
    const text = await token(claims)
    const name = JSON.stringify([options, claims])
    if (expected === null) await t.rejects(ask(text), UnauthorizedError, name)
    else t.match(await ask(text), expected, name)
  }
})

void t.test('new keys are fetched when keys rotate, and invented key ids do not hammer the issuer', async (t) => {
  const { state, token, ask, asked, clock } = await issuer(t)
  const looks = () => asked.filter(({ path }) => path === '/keys').length
  t.ok(await ask(await token()))
  t.equal(looks(), 1)
  state.keys = [KEYS.one, KEYS.two]
  clock.advance(31_000)
  for (let i = 0; i < 20; i++)
    await t.rejects(ask(await token({}, KEYS.foreign, { kid: `invented-${i}` })), UnauthorizedError)
  t.ok(looks() <= 2, `${looks()} looks at the key set`)
  t.ok(await ask(await token({}, KEYS.two)), 'the new key was among them')
})

void t.test('a token without a key id is tried with each key, as by the API server', async (t) => {
  const { state, token, ask } = await issuer(t)
  state.keys = [KEYS.one, KEYS.two]
  for (const kid of [undefined, '']) {
    t.match(await ask(await token({}, KEYS.two, { kid })), { name: /#ann$/ }, String(kid))
    await t.rejects(ask(await token({}, KEYS.foreign, { kid })), UnauthorizedError, 'none of the keys')
    await t.rejects(ask(await token({ aud: 'x' }, KEYS.two, { kid })), UnauthorizedError, 'another audience')
  }
})

void t.test('a key set is read again for a signature that no key verifies, at most every 30 seconds', async (t) => {
  const { state, token, ask, asked, clock } = await issuer(t)
  const looks = () => asked.filter(({ path }) => path === '/keys').length
  t.ok(await ask(await token()))
  state.keys = [KEYS.two]
  clock.advance(31_000)
  t.match(await ask(await token({}, KEYS.two, { kid: undefined })), { name: /#ann$/ })
  for (let i = 0; i < 20; i++) {
    const forged = await token({ jti: String(i) }, KEYS.foreign, { kid: i % 2 === 0 ? 'two' : undefined })
    await t.rejects(ask(forged), UnauthorizedError)
  }
  t.equal(looks(), 2)
})

void t.test('a clock that is set back neither keeps a withdrawn key nor keeps a new one out', async (t) => {
  const { state, token, ask, clock } = await issuer(t)
  t.ok(await ask(await token()))
  state.keys = [KEYS.two]
  clock.jump(-86_400_000)
  clock.advance(30_000)
  t.match(await ask(await token({}, KEYS.two)), { name: /#ann$/ }, 'the new key is fetched after 30 s as ever')
  state.keys = [KEYS.one]
  clock.jump(-86_400_000)
  clock.advance(600_000)
  await t.rejects(ask(await token({}, KEYS.two)), UnauthorizedError, 'the old one is forgotten after ten minutes')
})

void t.test('a decision is cached and shared; so is a refusal, for a shorter time', async (t) => {
  const { token, ask, asked, state, clock } = await issuer(t)
  const text = await token()
  await Promise.all(Array.from({ length: 50 }, () => ask(text)))
  const bad = await token({ aud: 'nobody' })
  await t.rejects(ask(bad), UnauthorizedError)
  t.equal(asked.length, 2, 'one discovery and one key set for all')
  state.away = true
  t.ok(await ask(text))
  await t.rejects(ask(bad), UnauthorizedError)
  clock.advance(10_001)
  await t.rejects(ask(bad), UnauthorizedError)
})

void t.test('an unreachable issuer gives 503, which is not cached as a refusal, and recovers', async (t) => {
  const { state, token, ask, clock } = await issuer(t)
  state.away = true
  const text = await token()
  await t.rejects(ask(text), ServiceUnavailableError)
  await t.rejects(ask(text), ServiceUnavailableError, 'at once, without asking again')
  state.away = false
  clock.advance(1_000)
  t.ok(await ask(text))
})

for (const keySetType of ['application/jwk-set+json', 'application/json']) {
  void t.test(`a key set is also requested as ${keySetType}, for issuers that have no other`, async (t) => {
    const { state, token, ask, url } = await issuer(t)
    state.keySetType = keySetType
    t.match(await ask(await token()), { name: `${url}#ann` })
  })
}

void t.test('a key set that cannot be fetched gives 503', async (t) => {
  const { state, token, ask } = await issuer(t)
  state.keysFail = true
  await t.rejects(ask(await token()), ServiceUnavailableError)
})

void t.test('known keys are used for a day while the key set cannot be fetched', async (t) => {
  const { state, token, ask, asked, clock } = await issuer(t)
  const looks = () => asked.filter(({ path }) => path === '/keys').length
  let tokens = 0
  const next = (key = KEYS.one) => token({ jti: String(tokens++) }, key)
  t.ok(await ask(await next()))
  state.keysFail = true
  clock.advance(3_600_000)
  for (let i = 0; i < 10; i++) t.ok(await ask(await next()))
  await t.rejects(ask(await next(KEYS.two)), ServiceUnavailableError, 'it may be a new key')
  t.equal(looks(), 2)
  await until(async () => {
    clock.advance(30_000)
    t.ok(await ask(await next()))
    return looks() >= 4
  }, 'the set is requested again and again')

  state.keysFail = false
  state.keys = [KEYS.two]
  await until(async () => {
    clock.advance(30_000)
    return (await ask(await next()).catch((error: unknown) => error)) instanceof UnauthorizedError
  }, 'the key is withdrawn')
  t.ok(await ask(await next(KEYS.two)))

  state.keysFail = true
  clock.advance(86_400_000)
  await t.rejects(ask(await next(KEYS.two)), ServiceUnavailableError, 'the set is too old')
  state.keysFail = false
  t.ok(await ask(await next(KEYS.two)), 'then it is requested for each token')
})

void t.test('a discovery document of another issuer is not trusted', async (t) => {
  for (const discovery of [{ issuer: 'https://elsewhere.example' }, { jwks_uri: 'no url' }, { jwks_uri: undefined }]) {
    const { state, token, ask } = await issuer(t)
    state.discovery = discovery
    await t.rejects(ask(await token()), ServiceUnavailableError, JSON.stringify(discovery))
  }
})

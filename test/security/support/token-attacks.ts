/** False bearer tokens against the stage's issuer and token file; each must be answered with 401. */
import { createSecretKey } from 'node:crypto'
import { exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { type Random, randomInteger } from '../../../src/support/random.js'
import { BAIT, type Stage, TOKENS } from './stage.js'

/** The request header lines with credentials. */
export type Credentials = readonly [name: string, lines: readonly string[]]

export async function goodToken({ issuerUrl, key }: Pick<Stage, 'issuerUrl' | 'key'>): Promise<string> {
  return await new SignJWT(claimsOf(issuerUrl)).setProtectedHeader({ alg: 'RS256', kid: key.kid }).sign(key.privateKey)
}

function claimsOf(issuerUrl: string, more: JWTPayload = {}): JWTPayload {
  const exp = Math.floor(Date.now() / 1_000) + 600
  return { iss: issuerUrl, aud: 'distributary', sub: 'ann', exp, note: BAIT, ...more }
}

export async function tokenAttacks(stage: Stage, random: Random, count: number): Promise<readonly Credentials[]> {
  const { issuerUrl, key } = stage
  const foreign = await generateKeyPair('RS256', { extractable: true })
  const now = Math.floor(Date.now() / 1_000)
  const b64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const sign = (more: JWTPayload, header: object = {}, by = key.privateKey): Promise<string> =>
    new SignJWT(claimsOf(issuerUrl, more)).setProtectedHeader({ alg: 'RS256', kid: key.kid, ...header }).sign(by)
  const unsigned = (header: object, signature = ''): string => `${b64(header)}.${b64(claimsOf(issuerUrl))}.${signature}`
  const good = await goodToken(stage)
  const [head = '', body = '', signature = ''] = good.split('.')
  const publicKey = await exportSPKI(key.publicKey)
  const hmac = (kid: string): Promise<string> =>
    new SignJWT(claimsOf(issuerUrl))
      .setProtectedHeader({ alg: 'HS256', kid })
      .sign(createSecretKey(Buffer.from(publicKey)))
  const jwk = await exportJWK(foreign.publicKey)
  const forged = claimsOf(issuerUrl, { sub: 'admin', groups: ['system:masters'] })
  const tokens: readonly (readonly [string, string])[] = [
    ['alg none', unsigned({ alg: 'none' })],
    ['alg nOnE', unsigned({ alg: 'nOnE', kid: 'one' })],
    ['alg none with a signature', unsigned({ alg: 'none', kid: 'one' }, signature)],
    ['no alg', unsigned({ kid: 'one' }, signature)],
    ['HS256 keyed with the public key', await hmac('one')],
    ['another key of the same kid', await sign({}, {}, foreign.privateKey)],
    ['another key, its own jwk in the header', await sign({}, { jwk }, foreign.privateKey)],
    ['another key, its jku in the header', await sign({}, { jku: `${issuerUrl}/keys` }, foreign.privateKey)],
    ['a kid that is a path', await sign({}, { kid: '../../../../dev/null' }, foreign.privateKey)],
    ['a kid that is SQL', await sign({}, { kid: "' OR 1=1 --" }, foreign.privateKey)],
    ['a kid that is __proto__', await sign({}, { kid: '__proto__' }, foreign.privateKey)],
    ['a kid of 8 KB', await sign({}, { kid: 'k'.repeat(8_000) }, foreign.privateKey)],
    ['an unknown kid', await sign({}, { kid: 'nowhere' })],
    ['expired', await sign({ exp: now - 3_600 })],
    ['not yet valid', await sign({ nbf: now + 3_600 })],
    ['another audience', await sign({ aud: 'elsewhere' })],
    ['another issuer', await sign({ iss: 'https://evil.example' })],
    ['no end', await sign({ exp: undefined as never })],
    ['an end that is text', await sign({ exp: '9999999999' as never })],
    ['another body under the signature', `${head}.${b64(forged)}.${signature}`],
    ['no signature', `${head}.${body}.`],
    ['a signature of zeros', `${head}.${body}.${'A'.repeat(signature.length)}`],
    ['four parts', `${good}.x`],
    ['a header that is no JSON', `${'!'.repeat(20)}.${body}.${signature}`],
    ['a header of deep JSON', `${Buffer.from('{"a":'.repeat(2_000)).toString('base64url')}.${body}.${signature}`],
    ['16 KB and more', `${BAIT}${'x'.repeat(17_000)}`],
    ['60 KB', `${BAIT}${'x'.repeat(60_000)}`],
    ['a prefix of a good one', TOKENS.admin.slice(0, -1)],
    ['a good one and more', `${TOKENS.admin}x`],
    ['in capitals', TOKENS.admin.toUpperCase()],
    ['the name of the user', 'admin'],
    ['__proto__', '__proto__'],
    ['constructor', 'constructor'],
    ['a line of the token file', `${TOKENS.admin},admin,0`],
    ...Array.from({ length: count }, (_, i) => [`a good one with a bit changed ${i}`, changed(good, random)] as const),
  ]
  return [
    ...tokens.map(([name, token]): Credentials => [`token: ${name}`, [`Authorization: Bearer ${token}`]]),
    ['token: two headers', [`Authorization: Bearer ${TOKENS.low}`, `Authorization: Bearer ${TOKENS.admin}`]],
    ['token: the same twice', [`Authorization: Bearer ${TOKENS.admin}`, `Authorization: Bearer ${TOKENS.admin}`]],
    ['token: a wrong one first', [`Authorization: Bearer ${BAIT}`, `authorization: Bearer ${TOKENS.admin}`]],
    ['token: another scheme', [`Authorization: Basic ${Buffer.from(`admin:${TOKENS.admin}`).toString('base64')}`]],
    ['token: no scheme', [`Authorization: ${TOKENS.admin}`]],
    ['token: in a cookie', [`Cookie: token=${TOKENS.admin}; Authorization=Bearer ${TOKENS.admin}`]],
    ['token: in another header', [`X-Authorization: Bearer ${TOKENS.admin}`, `Proxy-Authorization: Bearer ${TOKENS.admin}`]], // prettier-ignore
    ['token: a subprotocol without an upgrade', [`Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.${Buffer.from(TOKENS.admin).toString('base64url')}`]], // prettier-ignore
  ]
}

/** Changes one character in a significant bit; the last character of a part may contain unused bits. */
function changed(token: string, random: Random): string {
  const at = randomInteger(random, 0, token.length - 3)
  if (token[at] === '.' || token[at + 1] === '.') return `${token.slice(0, at)}..${token.slice(at + 2)}`
  const other = token[at] === 'A' ? 'B' : 'A'
  return token.slice(0, at) + other + token.slice(at + 1)
}

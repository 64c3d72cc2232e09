import t from 'tap'

import { BEARER_PROTOCOL_PREFIX, bearerToken } from '../../../../src/server/auth/authn/bearer-token.js'
import { UnauthorizedError } from '../../../../src/kubernetes/model/status.js'
import { request } from '../fixtures.js'

const protocol = (token: string) => BEARER_PROTOCOL_PREFIX + Buffer.from(token).toString('base64url')
const socket = (...protocols: string[]) =>
  [
    ['Upgrade', 'websocket'],
    ['Connection', 'keep-alive, Upgrade'],
    ...protocols.map((one) => ['Sec-WebSocket-Protocol', one] as const),
  ] as const

void t.test('a bearer token is found in a header or a subprotocol', async (t) => {
  const rows: readonly (readonly [string, readonly (readonly [string, string])[], string | null])[] = [
    ['the header', [['Authorization', 'Bearer abc']], 'abc'],
    ['in any case', [['AUTHORIZATION', 'bEaReR abc']], 'abc'],
    ['with spaces around', [['authorization', '  Bearer abc  ']], 'abc'],
    ['no header', [], null],
    ['another scheme', [['Authorization', 'Basic abc']], null],
    ['no token', [['Authorization', 'Bearer']], null],
    ['an empty token', [['Authorization', 'Bearer  ']], null],
    ['the scheme run into the token', [['Authorization', 'Bearerabc']], null],
    ['a subprotocol', socket(protocol('abc.def')), 'abc.def'],
    ['a subprotocol among others', socket(`v1, ${protocol('abc')}`), 'abc'],
    ['a subprotocol of its own header', socket('v1', protocol('abc')), 'abc'],
    ['a subprotocol without an upgrade', [['Sec-WebSocket-Protocol', protocol('abc')]], null],
    [
      'a subprotocol of an upgrade that Connection does not list',
      [
        ['Upgrade', 'websocket'],
        ['Connection', 'keep-alive'],
        ['Sec-WebSocket-Protocol', protocol('abc')],
      ],
      null,
    ],
    [
      'a subprotocol of an upgrade to something else',
      [
        ['Upgrade', 'SPDY/3.1'],
        ['Connection', 'Upgrade'],
        ['Sec-WebSocket-Protocol', protocol('abc')],
      ],
      null,
    ],
    ['other subprotocols only', socket('v4.channel.k8s.io'), null],
    ['as long as headers may be', [['Authorization', `Bearer ${'a'.repeat(60_000)}`]], 'a'.repeat(60_000)],
  ]
  for (const [name, headers, expected] of rows) t.equal(bearerToken(request(headers)), expected, name)
})

void t.test('a doubtful token is rejected, not guessed at', async (t) => {
  const rows: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
    [
      'two headers',
      [
        ['Authorization', 'Bearer a'],
        ['authorization', 'Bearer b'],
      ],
    ],
    ['a header and a subprotocol', [...socket(protocol('a')), ['Authorization', 'Bearer b']]],
    ['two subprotocols', socket(`${protocol('a')}, ${protocol('b')}`)],
    ['a subprotocol that is not base64url', socket(`${BEARER_PROTOCOL_PREFIX}a+b`)],
    ['an empty subprotocol token', socket(BEARER_PROTOCOL_PREFIX)],
    ['bytes that are not text', socket(BEARER_PROTOCOL_PREFIX + Buffer.from([0xff, 0xfe]).toString('base64url'))],
  ]
  for (const [name, headers] of rows) t.throws(() => bearerToken(request(headers)), UnauthorizedError, name)
})

import t from 'tap'

import {
  decodeContinueToken,
  encodeContinueToken,
  expiredTokenError,
  startKeyOf,
  tokenAfter,
} from '../../../src/kubernetes/dialect/continue-token.js'
import { type Key, keyFromText } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { BadRequestError } from '../../../src/kubernetes/model/status.js'

const prefix = keyFromText('/registry/pods/')
const revision = toRevision(7)

const encoded = (content: unknown): string => Buffer.from(JSON.stringify(content)).toString('base64url')

void t.test('the token equals the API server’s', async (t) => {
  const token = encodeContinueToken(tokenAfter(prefix, keyFromText('/registry/pods/default/a'), revision))
  t.equal(Buffer.from(token, 'base64url').toString(), '{"v":"meta.k8s.io/v1","rv":7,"start":"default/a\\u0000"}')
  t.notMatch(token, /[=+/]/)
})

void t.test('every key survives a round trip exactly, and is under the prefix', async (t) => {
  const names = ['default/a', 'é', '\xff\xfe' as Key, '../x', 'a/./b', '/a', 'a//b', '..', 'a/', '', '"\\']
  for (const name of names) {
    const key = (prefix + (name === '\xff\xfe' ? name : keyFromText(name))) as Key
    for (const at of [revision, null]) {
      const back = decodeContinueToken(encodeContinueToken(tokenAfter(prefix, key, at)))
      t.equal(startKeyOf(back, prefix), `${key}\0`, JSON.stringify(name))
      t.equal(back.revision, at)
    }
  }
  t.throws(() => tokenAfter(prefix, keyFromText('/registry/nodes/a'), revision), RangeError)
})

void t.test('text that is not a token is rejected with 400', async (t) => {
  const v = 'meta.k8s.io/v1'
  const bad = [
    'x',
    'e30=',
    '!!',
    encoded({}),
    encoded(null),
    encoded([]),
    encoded('x'),
    encoded({ v: 'meta.k8s.io/v2', rv: 1, start: 'a' }),
    encoded({ v, rv: 0, start: 'a' }),
    encoded({ v, rv: 1.5, start: 'a' }),
    encoded({ v, rv: '1', start: 'a' }),
    encoded({ v, rv: 2 ** 60, start: 'a' }),
    encoded({ v, rv: 1, start: '' }),
    encoded({ v, rv: 1, start: 7 }),
    encoded({ v, rv: 1 }),
    encoded({ v, rv: 1, start: '../secrets/a' }),
    encoded({ v, rv: 1, start: 'a/../../secrets' }),
    encoded({ v, rv: 1, start: '/' }),
    encoded({ v, rv: 1, start: '//a' }),
    encoded({ v, rv: 1, start: '/../a' }),
    encoded({ v, rv: 1, start: 'a/./b' }),
    encoded({ v, rv: 1, start: 'a//b' }),
    encoded({ v, rv: 1, start: 'a', startBytes: 7 }),
    'A'.repeat(16_385),
  ]
  for (const token of bad) {
    t.throws(
      () => decodeContinueToken(token),
      { constructor: BadRequestError, message: /^invalid continue token: continue key is not valid/ },
      Buffer.from(token.slice(0, 200), 'base64url').toString(),
    )
  }
  t.equal(decodeContinueToken(encoded({ v, rv: -1, start: 'a' })).revision, null, 'as Kubernetes says inconsistent')
})

void t.test('a token from the API server begins its key with a slash, and is accepted', async (t) => {
  const token = 'eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NTM0LCJzdGFydCI6Ii9kZWZhdWx0L2J5LWhhbmQtYmFyZVx1MDAwMCJ9'
  t.strictSame(decodeContinueToken(token), { revision: 534, start: 'default/by-hand-bare\0' })
})

void t.test('an expired token is answered with one that continues from the same key', async (t) => {
  const status = expiredTokenError({ revision, start: keyFromText('default/a\0') }).toStatus()
  t.match(status, { code: 410, reason: 'Expired' })
  t.strictSame(decodeContinueToken(status.metadata.continue!), { revision: null, start: 'default/a\0' })
})

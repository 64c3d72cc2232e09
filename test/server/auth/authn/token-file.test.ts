import t from 'tap'

import { parseTokenFile, tokenFile } from '../../../../src/server/auth/authn/token-file.js'
import { parseCsv } from '../../../../src/server/auth/csv.js'
import { digest } from '../../../../src/server/auth/user.js'
import { bearer, changeable, request } from '../fixtures.js'

void t.test('CSV is read as Go reads it', async (t) => {
  const rows: readonly (readonly [string, readonly (readonly string[])[]])[] = [
    ['', []],
    ['\n\r\n\n', []],
    ['a,b,c', [['a', 'b', 'c']]],
    ['a,b\n', [['a', 'b']]],
    [
      'a,b\r\nc,d\r\n',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    ['a,,', [['a', '', '']]],
    [',', [['', '']]],
    [' a , b', [[' a ', ' b']]],
    ['"a,b",c', [['a,b', 'c']]],
    ['"a""b"', [['a"b']]],
    ['""', [['']]],
    ['"a\nb",c\nd', [['a\nb', 'c'], ['d']]],
    ['"a\r\nb"', [['a\nb']]],
    ['"a"\r\n"b"', [['a'], ['b']]],
    ['# not a comment,b', [['# not a comment', 'b']]],
    ['a\rb,c', [['a\rb', 'c']]],
    ['a,"b",c', [['a', 'b', 'c']]],
  ]
  for (const [text, expected] of rows) t.same(parseCsv(text), expected, JSON.stringify(text))
})

void t.test('broken CSV is rejected with its line', async (t) => {
  const rows: readonly (readonly [string, RegExp])[] = [
    ['a\n"b', /line 2: a quoted field is not closed/],
    ['a,b"c', /line 1: a quote inside a field/],
    ['a\n "b"', /line 2: a quote inside a field/],
    ['"a"b', /line 1: something follows a closing quote/],
    ['"a\nb" ,c', /line 2: something follows a closing quote/],
    ['"', /not closed/],
  ]
  for (const [text, expected] of rows) t.throws(() => parseCsv(text), expected, JSON.stringify(text))
})

void t.test('a token file identifies users, and a wrong one is rejected', async (t) => {
  const of = (text: string, token: string) => parseTokenFile(text).get(digest(token))
  t.same(of('t1,ann,1,"web,ops"', 't1'), { name: 'ann', uid: '1', groups: ['web', 'ops'], extra: {}, expiresAt: null })
  t.match(of('t1,ann,1', 't1'), { groups: [] })
  t.match(of('t1,ann,1,web', 't1'), { groups: ['web'] })
  t.match(of('t1,ann,1,', 't1'), { groups: [] })
  t.match(of('t1,ann,1,web,beyond', 't1'), { groups: ['web'] }, 'columns beyond the fourth mean nothing')
  t.match(of('t1,ann,1\nt1,bob,2', 't1'), { name: 'bob' }, 'of equal tokens the later counts')
  t.match(of('\ufefft1,ann,1', 't1'), { name: 'ann' }, 'a byte order mark is not part of the token')
  t.equal(parseTokenFile(',ann,1').size, 0, 'an empty token is nobody')
  t.equal(of('t1,ann,1', ''), undefined)
  t.throws(() => parseTokenFile('t1,ann,1\nt2,bob'), /record 2: needs at least token, user name and user uid, has 2/)
  try {
    parseTokenFile('geheim,ann')
  } catch (error) {
    t.notMatch(String(error), /geheim/, 'no token in a message')
  }
})

void t.test('a token removed from the file is no longer known; a broken file is ignored', async (t) => {
  const { files, change } = changeable(parseTokenFile, 't1,ann,1')
  const authenticator = tokenFile(files)
  let told = 0
  authenticator.onChange(() => told++)
  t.match(await authenticator.authenticate(bearer('t1')), { name: 'ann' })
  change('t1,ann')
  t.match(await authenticator.authenticate(bearer('t1')), { name: 'ann' })
  t.equal(told, 0)
  change('t2,bob,2')
  t.equal(told, 1)
  t.equal(await authenticator.authenticate(bearer('t1')), null)
  t.match(await authenticator.authenticate(bearer('t2')), { name: 'bob' })
  t.equal(await authenticator.authenticate(request([])), null, 'no token is not a credential')
  authenticator.close()
})

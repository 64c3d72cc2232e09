import t from 'tap'
import { goQuoted, goQuotedList } from '../../../../src/server/auth/authz/go-quoted.js'

void t.test('texts are quoted as Go quotes them', (t) => {
  const cases: Readonly<Record<string, string>> = {
    '': '""',
    'a b': '"a b"',
    'a"b\\c': String.raw`"a\"b\\c"`,
    'é\u{1f600}': '"é\u{1f600}"',
    '\u0000\u0007\n\u007f': String.raw`"\x00\a\n\x7f"`,
    '\u2028\u00a0': String.raw`"\u2028\u00a0"`,
    '\u{e0001}': String.raw`"\U000e0001"`,
  }
  for (const [text, quoted] of Object.entries(cases)) t.equal(goQuoted(text), quoted)
  t.equal(goQuotedList(['a', 'b']), '["a" "b"]')
  t.equal(goQuotedList([]), '[]')
  t.end()
})

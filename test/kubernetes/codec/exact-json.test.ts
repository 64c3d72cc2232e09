import t from 'tap'
import { exactText, parseExactJson } from '../../../src/kubernetes/codec/exact-json.js'

void t.test('no integer loses a digit, in either direction', async (t) => {
  for (const text of [
    '{"a":9007199254740993,"b":[-9223372036854775808,1],"c":{"d":null,"e":true}}',
    '{"__proto__":1,"a":"9007199254740993"}',
    '[18446744073709551616]',
    '"text"',
    '1',
  ]) {
    t.equal(exactText(parseExactJson(Buffer.from(text))), text)
  }
  t.same(parseExactJson(Buffer.from('[9007199254740993,1.5,9007199254740993.5]')), [
    9_007_199_254_740_993n,
    1.5,
    9_007_199_254_740_994,
  ])
  t.equal(exactText({ a: undefined, b: 2n ** 60n }), '{"b":1152921504606846976}', 'what is undefined is left out')
  t.throws(() => parseExactJson(Buffer.from('{')), SyntaxError)
  t.throws(() => parseExactJson(Buffer.from('[1234567890123456')), SyntaxError)
})

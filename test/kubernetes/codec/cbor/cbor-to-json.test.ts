/** The rules are those of k8s.io/apimachinery 0.37, internal/modes; the judge compares with the real encoder. */
import { encode } from 'cborg'
import t from 'tap'
import { CBOR_MAGIC, cborToJson } from '../../../../src/kubernetes/codec/cbor/cbor-to-json.js'
import { CodecError } from '../../../../src/kubernetes/codec/protobuf/codec-error.js'
import { MAX_JSON_DEPTH } from '../../../../src/kubernetes/model/limits.js'

const json = (hex: string): string => cborToJson(Buffer.from(hex, 'hex')).toString()

void t.test('values are shown as in the JSON of an API server', (t) => {
  const cases: [what: string, hex: string, json: string][] = [
    ['a byte string is a string', '4161', '"a"'],
    ['a text string as well', '63c3bc7a', '"üz"'],
    ['an empty text string', '60', '""'],
    ['a byte order mark stays', '63efbbbf', '"\ufeff"'],
    ['bytes that are not UTF-8 are replaced one by one, as in Go', '45e28261ff62', '"\ufffd\ufffda\ufffdb"'],
    ['a sign that is cut short, too long or out of range', '4ae282c080f4908080c3bc', `"${'\ufffd'.repeat(8)}ü"`],
    ['half of a surrogate pair is not UTF-8', '43eda080', '"\ufffd\ufffd\ufffd"'],
    ['signs that pages would read are escaped', '473c3e26e280a861', '"\\u003c\\u003e\\u0026\\u2028a"'],
    ['control characters', '430a0001', '"\\n\\u0000\\u0001"'],
    ['bytes in base64', 'd643fbff61', '"+/9h"'],
    ['bytes in base64 for addresses', 'd543fbff61', '"-_9h"'],
    ['bytes in hexadecimal', 'd743fbff61', '"fbff61"'],
    ['the encoding of a tag is that of bytes only', 'd66161', '"a"'],
    ['other tags add nothing', 'd818d9d9f74161', '"a"'],
    ['the largest integer', '1b7fffffffffffffff', '9223372036854775807'],
    ['the smallest integer', '3b7fffffffffffffff', '-9223372036854775808'],
    ['an integer above 2^53', '1b0020000000000001', '9007199254740993'],
    ['a negative one below -2^53', '3b0020000000000000', '-9007199254740993'],
    ['a whole float', 'f93c00', '1'],
    ['minus zero', 'f98000', '-0'],
    ['a large float', 'fb444b1ae4d6e2ef50', '1e+21'],
    ['a float of 32 bits', 'fa3fa00000', '1.25'],
    ['a small float', 'fb3e7ad7f29abcaf48', '1e-7'],
    ['constants', '83f4f5f6', '[false,true,null]'],
    ['members in the order of their names', 'a34162f5426161f54161f5', '{"a":true,"aa":true,"b":true}'],
    ['and by their bytes, not by their halves of surrogate pairs', 'a244f09f98800143efbfbd02', '{"\ufffd":2,"😀":1}'],
    ['keys that differ only in bytes that are not UTF-8', 'a241fe0141ff02', '{"\ufffd":1,"\ufffd":2}'],
    ['a prototype is a name like any other', 'a1495f5f70726f746f5f5fa0', '{"__proto__":{}}'],
    ['containers of indefinite length', 'bf41619f0102ffff', '{"a":[1,2]}'],
  ]
  for (const [what, hex, expected] of cases) t.equal(json(hex), expected, what)
  t.end()
})

void t.test('what an API server would refuse is refused', (t) => {
  const cases: [what: string, hex: string, message: RegExp][] = [
    ['repeated keys', 'a2416101416102', /the key "a" is repeated/],
    ['repeated keys of both kinds of string', 'a2416101616102', /the key "a" is repeated/],
    ['not a number', 'f97e00', /NaN/],
    ['infinity', 'f97c00', /Infinity/],
    ['a big number', 'c249010000000000000000', /tag 2/],
    ['a negative big number', 'c349010000000000000000', /tag 3/],
    ['a time', 'c11a514b67b0', /tag 1/],
    ['an integer above 2^63', '1b8000000000000000', /more than 64 bits/],
    ['a negative one beyond -2^63', '3b8000000000000000', /more than 64 bits/],
    ['undefined', 'f7', /undefined/],
    ['other simple values', 'f0', /simple values/],
    ['text that is not UTF-8', '61ff', /not UTF-8/],
    ['a key that is not a string', 'a10101', /cannot be the key/],
    ['a key with a tag', 'a1d6416101', /cannot be the key/],
    ['a break without a beginning', 'ff', /break/],
    ['a break in a container with a length', '8101ff', /more data follows its end/],
    ['a break for a value', 'bf4161ffff', /break/],
    ['reserved lengths', '1c', /invalid minor/],
    ['two values', '0101', /more data follows its end/],
    ['nothing', '', /ends before/],
    ['a string that ends too early', '4261', /CBOR/],
    ['an array that ends too early', '8201', /ends before/],
    ['an array that claims more than any memory', '9b00ffffffffffffff01', /length|ends within|integer/],
    ['a string that claims more than any memory', '5bffffffffffffffff01', /length/],
  ]
  for (const [what, hex, message] of cases) {
    t.throws(() => json(hex), { name: 'CodecError', message }, what)
  }
  t.end()
})

void t.test('depth and size are limited', (t) => {
  const nested = (levels: number, start: string): string => start.repeat(levels) + '01'
  for (const start of ['81', 'a14161', 'd818']) {
    t.doesNotThrow(() => json(nested(MAX_JSON_DEPTH, start)), start)
    t.throws(() => json(nested(MAX_JSON_DEPTH + 1, start)), { code: 'too-deep' }, start)
    t.throws(() => json(nested(1_000_000, start)), { code: 'too-deep' }, start)
  }
  // A control character takes six bytes of JSON.
  t.equal(json(`58c8${'01'.repeat(200)}`).length, 1202)
  const controls = Buffer.concat([Buffer.from('5a01600000', 'hex'), Buffer.alloc(0x1600000, 1)])
  t.throws(() => cborToJson(controls), { code: 'too-large' })
  t.end()
})

void t.test('every prefix and every changed byte of a value is refused or is JSON', (t) => {
  const value = Buffer.concat([
    CBOR_MAGIC,
    encode({ kind: 'Widget', metadata: { name: 'ä' }, list: [1, -5, 2 ** 40, 1.5, null, true, { a: [] }] }),
  ])
  let refused = 0
  const attempt = (bytes: Buffer): void => {
    try {
      JSON.parse(cborToJson(bytes).toString())
    } catch (error) {
      if (!(error instanceof CodecError)) throw error
      refused++
    }
  }
  for (let length = 0; length < value.length; length++) attempt(value.subarray(0, length))
  t.equal(refused, value.length, 'no prefix is whole')
  for (let at = 0; at < value.length; at++) {
    for (let byte = 0; byte < 256; byte++) {
      const changed = Buffer.from(value)
      changed[at] = byte
      attempt(changed)
    }
  }
  t.ok(refused > value.length)
  t.end()
})

/** The responses are those of Kubernetes 1.37.2, which `npm run judge -- reference` compares. */
import t from 'tap'
import { parseShardSelector } from '../../../src/kubernetes/dialect/shard-selector.js'
import { BadRequestError } from '../../../src/kubernetes/model/status.js'
import { rangesText } from '../../support/shards.js'
import { MAX_SELECTOR_LENGTH, MAX_SELECTOR_TERMS } from '../../../src/kubernetes/model/limits.js'

const LOW = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
const HIGH = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
const NAMESPACES = LOW.replace('uid', 'namespace')

void t.test('a shard selector is written back as the API server writes it', async (t) => {
  const same: [string, string][] = [
    [LOW, LOW],
    [` ${LOW}\n`, LOW],
    [`${LOW} || ${HIGH}`, `${LOW} || ${HIGH}`],
    [`${HIGH}||${LOW}`, `${HIGH} || ${LOW}`],
    [`((${LOW}) || (${HIGH} || ${LOW}))`, `${LOW} || ${HIGH} || ${LOW}`],
    [LOW.replaceAll("'", '"').replaceAll(' ', ''), LOW],
    [`shardRange( object . metadata\t.uid,// the first half\n'0x0000000000000000','0x8000000000000000')`, LOW],
    [NAMESPACES, NAMESPACES],
  ]
  for (const [text, expected] of same) t.equal(parseShardSelector(text)!.text, expected)
  t.equal(parseShardSelector(''), null)
})

void t.test('the ranges of a selector are those that it names', async (t) => {
  const half = { high: 0x80000000, low: 0 }
  t.match(parseShardSelector(LOW), { field: 'identity', ranges: [{ start: { high: 0, low: 0 }, end: half }] })
  t.match(parseShardSelector(NAMESPACES), { field: 'scope' })
  const whole = [{ start: { high: 0, low: 0 }, end: { high: 2 ** 32, low: 0 } }]
  t.strictSame(parseShardSelector(`${HIGH} || ${LOW}`)!.ranges, whole)
})

void t.test('a malformed selector is refused in the words of the API server', async (t) => {
  const range = (field: string, start: string, end: string): string => `shardRange(${field}, ${start}, ${end})`
  const [uid, zero, end] = ['object.metadata.uid', "'0x0000000000000000'", "'0x10000000000000000'"]
  const supported = 'supported: object.metadata.uid, object.metadata.namespace'
  const refusals: [string, string][] = [
    [' ', 'empty shard selector is not allowed; omit the parameter for unfiltered lists'],
    [`${LOW} || ${NAMESPACES}`, 'all shard ranges must use the same field, got "object.metadata.uid" and "object.metadata.namespace"'],
    ['true', 'unexpected expression kind 5; expected shardRange() call or || operator'],
    ['object', 'unexpected expression kind 3; expected shardRange() call or || operator'],
    ['object.metadata', 'unexpected expression kind 7; expected shardRange() call or || operator'],
    [`${LOW} || 1`, 'unexpected expression kind 5; expected shardRange() call or || operator'],
    [`has(${uid})`, 'unsupported function "has"; only shardRange() and || are allowed'],
    ['shardRange()', 'shardRange() requires exactly 3 arguments, got 0'],
    [`shardRange(${uid}, ${zero})`, 'shardRange() requires exactly 3 arguments, got 2'],
    [range(`'${uid}'`, zero, end), 'shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5'],
    [range('metadata.uid', zero, end), `unsupported field path "metadata.uid"; ${supported}`],
    [range('object.metadata.name', zero, end), `unsupported field path "object.metadata.name"; ${supported}`],
    [range(uid, '0', end), 'hexStart must be a string literal, got int64'],
    [range(uid, '1u', end), 'hexStart must be a string literal, got uint64'],
    [range(uid, '1.5', end), 'hexStart must be a string literal, got float64'],
    [range(uid, 'true', end), 'hexStart must be a string literal, got bool'],
    [range(uid, 'null', end), 'hexStart must be a string literal, got structpb.NullValue'],
    [range(uid, 'x', end), "hexStart must be a string literal (e.g. '0xff'), got expression kind 3"],
    [range(uid, zero, 'x.y'), "hexEnd must be a string literal (e.g. '0xff'), got expression kind 7"],
    [range(uid, zero, `${zero} || ${zero}`), "hexEnd must be a string literal (e.g. '0xff'), got expression kind 1"],
    [range(uid, "'00'", end), 'hexStart must have \'0x\' prefix, got "00"'],
    [range(uid, "''", end), 'hexStart must have \'0x\' prefix, got ""'],
    [range(uid, "'0x'", end), "hexStart: hex value is required after '0x'"],
    [range(uid, "'0x0'", end), 'hexStart must be a 0x-prefixed 16-digit hex value, got "0x0" (did you mean "0x0000000000000000"?)'],
    [range(uid, zero, "'0xFFFFFFFFFFFFFFFF'"), 'hexEnd: invalid hex character "F" in "0xFFFFFFFFFFFFFFFF"'],
    [range(uid, zero, "'0x10000000000000001'"), 'hexEnd: 17-digit hex value must be \'0x10000000000000000\' (2^64), got "0x10000000000000001"'],
    [range(uid, zero, "'0x100000000000000000'"), 'hexEnd: hex value too long (18 chars, max 17): "100000000000000000"'],
    [range(uid, zero, zero), 'shard range start 0x0000000000000000 must be less than end 0x0000000000000000'],
    [range(uid, end, "'0xffffffffffffffff'"), 'shard range start 0x10000000000000000 must be less than end 0xffffffffffffffff'],
  ] // prettier-ignore
  for (const [text, message] of refusals) {
    const error = { constructor: BadRequestError, message: `invalid shard selector: ${message}` }
    t.throws(() => parseShardSelector(text), error, text)
  }
})

void t.test('text that is not an expression is refused with its position', async (t) => {
  const places: [string, number][] = [
    ['shardRange(', 12],
    [`${LOW} ||`, LOW.length + 4],
    [`${LOW} && ${HIGH}`, LOW.length + 2],
    [`${LOW} ${HIGH}`, LOW.length + 2],
    [`!${LOW}`, 1],
    [`(${LOW}`, LOW.length + 2],
    [`${LOW})`, LOW.length + 1],
    ["shardRange(object.metadata.uid, '0x0", 33],
    ['object..uid', 8],
  ]
  for (const [text, place] of places) {
    const message = new RegExp(`^invalid shard selector: CEL parse error: unexpected .*\\(character ${place}\\)$`)
    t.throws(() => parseShardSelector(text), { constructor: BadRequestError, message }, text)
  }
})

void t.test('oversized selectors are refused', async (t) => {
  const many = (count: number): string =>
    rangesText(Array.from({ length: count }, (_, i) => [BigInt(i), BigInt(i) + 1n]))
      .replaceAll(', ', ',')
      .replaceAll(' || ', '||')
  t.throws(() => parseShardSelector('x'.repeat(MAX_SELECTOR_LENGTH + 1)), { code: 400, message: /at most 16384/ })
  t.throws(() => parseShardSelector(`a${'||a'.repeat(MAX_SELECTOR_TERMS)}`), {
    code: 400,
    message: /257 ranges, at most 256/,
  })
  t.throws(() => parseShardSelector('('.repeat(MAX_SELECTOR_LENGTH)), { code: 400, message: /250 levels/ })
  t.throws(() => parseShardSelector('f('.repeat(MAX_SELECTOR_LENGTH / 2)), { code: 400, message: /250 levels/ })
  t.equal(parseShardSelector(many(200))!.ranges.length, 1, 'ranges that touch are one')
})

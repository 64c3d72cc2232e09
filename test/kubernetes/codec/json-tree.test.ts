import t from 'tap'
import {
  canonicalText,
  cloneTree,
  encodeJsonTree,
  equalTrees,
  isRecord,
  type Json,
  parseJsonTree,
} from '../../../src/kubernetes/codec/json-tree.js'
import { parseYamlTree } from '../../../src/kubernetes/codec/yaml-tree.js'

const parse = (text: string): Json => parseJsonTree(Buffer.from(text)).value
const again = (text: string): string => encodeJsonTree(parse(text)).toString()

void t.test('a tree is written as it was read', (t) => {
  for (const text of [
    '{}',
    '[]',
    'null',
    '"a\\u0000\\"b"',
    '{"a":[1,-0,1.0,1e3,9007199254740993,-9223372036854775808,0.1,1E400],"b":{"c":[[],{}]}}',
    '{"__proto__":{"a":1},"constructor":1,"toString":null,"":""}',
    `${'['.repeat(400)}${']'.repeat(400)}`,
  ]) {
    t.equal(again(text), text)
    t.equal(encodeJsonTree(cloneTree(parse(text))).toString(), text)
  }
  t.equal(again(' { "a" : [ 1 , 2 ] , "b" : { } } '), '{"a":[1,2],"b":{}}')
  t.equal(({} as Record<string, unknown>)['a'], undefined)
  t.end()
})

void t.test('text that is not JSON is rejected', (t) => {
  for (const text of ['', '{', '{"a":}', '[1,]', '01', 'NaN', '{"a":1}x', `${'['.repeat(600)}${']'.repeat(600)}`]) {
    t.throws(() => parse(text), SyntaxError, text.slice(0, 20))
  }
  t.throws(() => parseJsonTree(Buffer.from([0x22, 0xff, 0x22])), SyntaxError)
  t.end()
})

void t.test('duplicate members are reported, and the last counts', (t) => {
  const { value, duplicates } = parseJsonTree(Buffer.from('{"a":1,"a":2,"b":[{"c":1,"c":2}]}'))
  t.same(duplicates, ['duplicate field "a"', 'duplicate field "b[0].c"'])
  t.equal(encodeJsonTree(value).toString(), '{"a":2,"b":[{"c":2}]}')
  const many = `{"a":0${',"a":1'.repeat(100)},"b":1,"b":2}`
  t.same(parseJsonTree(Buffer.from(many)).duplicates, ['duplicate field "a"'], 'only a hundred cost the text of a path')
  const long = 'n'.repeat(100_000)
  const [below] = parseJsonTree(Buffer.from(`{"${long}":{"b":1,"b":2}}`)).duplicates
  t.match(below, /^duplicate field "n{2048}…"$/, 'of a limited length')
  const [inYaml] = parseYamlTree(`{${long}: 1, ${long}: 2}`).duplicates
  t.match(inYaml, /: key "n{2048}…" already set in map$/)
  t.end()
})

void t.test('trees are equal by value', (t) => {
  t.ok(equalTrees(parse('{"a":1,"b":[1.0]}'), parse('{"b":[1.0],"a":1}')))
  t.notOk(equalTrees(parse('[1]'), parse('[1.0]')), 'a number is its text')
  t.notOk(equalTrees(parse('{"a":null}'), parse('{}')))
  t.notOk(equalTrees(parse('[]'), parse('{}')))
  t.end()
})

void t.test('YAML is parsed into the same trees as JSON', (t) => {
  const rows: readonly (readonly [yaml: string, json: string])[] = [
    ['a: 1\nb: [x, "2", true, null, ~]\n', '{"a":1,"b":["x","2",true,null,null]}'],
    [
      'big: 9007199254740993\nfloat: 1.0\nexp: 1e3\noctal: 0o17\n',
      '{"big":9007199254740993,"float":1,"exp":1000,"octal":15}',
    ],
    ['base: &b {x: 1}\nother: *b\n', '{"base":{"x":1},"other":{"x":1}}'],
    ['1: one\ntrue: yes\n', '{"1":"one","true":true}'],
    ['text: |\n  two\n  lines\n', '{"text":"two\\nlines\\n"}'],
    ['{"json": [1, 2]}', '{"json":[1,2]}'],
    ['---\na: 1\n', '{"a":1}'],
    ['__proto__: {a: 1}\n', '{"__proto__":{"a":1}}'],
  ]
  for (const [yaml, json] of rows) t.equal(encodeJsonTree(parseYamlTree(yaml).value).toString(), json, yaml)
  t.same(parseYamlTree('a: 1\na: 2\nb:\n  c: 1\n  c: 2\n').duplicates, [
    'yaml: unmarshal errors:\n  line 2: key "a" already set in map\n  line 5: key "c" already set in map',
  ])
  for (const yaml of ['a: [', 'a: 1\n---\nb: 2\n', 'a: .inf', 'a: *x\n', '? {x: 1}\n: 2\n'])
    t.throws(() => parseYamlTree(yaml), SyntaxError, yaml)
  const bomb = Array.from({ length: 20 }, (_, i) => `a${i}: &a${i} [${i === 0 ? 'x' : `*a${i - 1}, *a${i - 1}`}]`).join(
    '\n',
  )
  t.throws(() => parseYamlTree(bomb), /aliases/, 'a few lines that stand for gigabytes')
  t.notOk(isRecord(parseYamlTree('').value))
  t.end()
})

void t.test('YAML is read as the API server reads it: octal numbers, underscores, yes and on', async (t) => {
  // kube-apiserver 1.37 or its YAML library has read each of these, with the same result.
  const rows: readonly (readonly [yaml: string, json: string])[] = [
    ['0644', '420'],
    ['-010', '-8'],
    ['0o10', '8'],
    ['00', '0'],
    ['09', '9'],
    ['0x1F', '31'],
    ['-0x1F', '-31'],
    ['0b11', '3'],
    ['1_000', '1000'],
    ['1_0.5', '10.5'],
    ['+1', '1'],
    ['.5', '0.5'],
    ['1.', '1'],
    ['yes', 'true'],
    ['on', 'true'],
    ['y', 'true'],
    ['No', 'false'],
    ['off', 'false'],
    ['"0644"', '"0644"'],
    ["'yes'", '"yes"'],
    ['!!str 5', '"5"'],
    ['1:30', '"1:30"'],
    ['2020-01-01', '"2020-01-01"'],
    ['0x', '"0x"'],
    ['0b', '"0b"'],
    ['[1, 010]', '[1,8]'],
    ['{a: yes}', '{"a":true}'],
    ['12345678901234567890', '12345678901234567890'],
    ['3.0', '3'],
    ['1e3', '1000'],
    ['1E+3', '1000'],
    ['5.e3', '5000'],
    ['-0', '0'],
    ['-0.0', '-0'],
    ['1e20', '100000000000000000000'],
    ['1e21', '1e+21'],
    ['0.0000001', '1e-7'],
    ['1e400', '"1e400"'],
    ['-1e400', '"-1e400"'],
    ['1e400_', '"1e400_"'],
    ['9007199254740993', '9007199254740993'],
    ['9007199254740993.0', '9007199254740992'],
    ['-9223372036854775808', '-9223372036854775808'],
    ['-9223372036854775809', '-9223372036854776000'],
    ['18446744073709551616', '18446744073709552000'],
    ['0xffffffffffffffff', '18446744073709551615'],
    ['0xffffffffffffffffff', '"0xffffffffffffffffff"'],
    ['0777777777777777777777777', '7.777777777777778e+23'],
    ['!!float 1.0', '1'],
    ['!!int 9007199254740993', '9007199254740993'],
  ]
  for (const [yaml, json] of rows) {
    t.equal(encodeJsonTree(parseYamlTree(`a: ${yaml}\n`).value).toString(), `{"a":${json}}`, yaml)
  }
  t.throws(() => parseYamlTree('a: !!float 1e400'), SyntaxError)
  const keys: readonly (readonly [yaml: string, key: string])[] = [
    ['1.0', '1'],
    ['1e3', '1000'],
    ['2.10', '2.1'],
    ['.5', '0.5'],
    ['0x10', '16'],
    ['-0.0', '-0'],
    ['123456.0', '123456'],
    ['16777217.0', '1.6777216e+07'],
    ['1e-7', '1e-07'],
    ['1e400', '1e400'],
    ['9007199254740993', '9007199254740993'],
    ['18446744073709551616', '1.8446744e+19'],
    ['"1.0"', '1.0'],
  ]
  for (const [yaml, key] of keys) t.same(Object.keys(parseYamlTree(`${yaml}: x\n`).value as object), [key], yaml)
})

void t.test('YAML aliases stand for the last value of their anchor, and for a bounded number of values', (t) => {
  const rows: readonly (readonly [yaml: string, json: string])[] = [
    ['a: &x 1\nb: *x\nc: &x 2\nd: *x\n', '{"a":1,"b":1,"c":2,"d":2}'],
    ['a: &x {b: &y [1]}\nc: *x\nd: *y\n', '{"a":{"b":[1]},"c":{"b":[1]},"d":[1]}'],
    ['&k a: 1\nb: *k\n', '{"a":1,"b":"a"}'],
    ['a: &x\nb: *x\n', '{"a":null,"b":null}'],
  ]
  for (const [yaml, json] of rows) t.equal(encodeJsonTree(parseYamlTree(yaml).value).toString(), json, yaml)
  const aliases = (count: number): string => Array.from({ length: count }, (_, i) => `k${i}: *x\n`).join('')
  const many = Array.from({ length: 150_000 }, () => '0').join(',')
  t.throws(() => parseYamlTree(`a: &x [${many}]\n${aliases(99)}`), SyntaxError, 'many values')
  t.throws(() => parseYamlTree(`a: &x ${'x'.repeat(1_000_000)}\n${aliases(99)}`), SyntaxError, 'a long text')
  t.throws(() => parseYamlTree(`a: &x\n  ? ${'x'.repeat(1_000_000)}\n  : 1\n${aliases(99)}`), SyntaxError, 'a long key')
  t.throws(() => parseYamlTree('a: &x [*x, *x]\n'), SyntaxError, 'one that holds itself')
  t.equal(Object.keys(parseYamlTree(`a: &x [1]\n${aliases(99)}`).value as object).length, 100, 'a hundred small ones')
  t.end()
})

void t.test('YAML merge keys take the members of other maps, as in the API server', (t) => {
  const again = (line: number): readonly string[] => [
    `yaml: unmarshal errors:\n  line ${line}: key "x" already set in map`,
  ]
  // The API server's YAML library has read each of these, with the same result.
  const rows: readonly (readonly [yaml: string, json: string, duplicates?: readonly string[]])[] = [
    ['b: &b {x: 1, z: 2}\nd: {<<: *b, q: 3}\n', '{"b":{"x":1,"z":2},"d":{"q":3,"x":1,"z":2}}'],
    ['b: &b {x: 1}\nd: {<<: *b, x: 3}\n', '{"b":{"x":1},"d":{"x":3}}', again(2)],
    ['b: &b {x: 1}\nd: {x: 3, <<: *b}\n', '{"b":{"x":1},"d":{"x":1}}', again(1)],
    ['b: &b {x: {p: 1}}\nd: {<<: *b, x: {q: 1}}\n', '{"b":{"x":{"p":1}},"d":{"x":{"q":1}}}', again(2)],
    ['b: &b {x: 1}\nd: {<<: [{x: 2}, *b, {z: 3}], q: 1}\n', '{"b":{"x":1},"d":{"q":1,"x":2,"z":3}}', again(2)],
    ['b: &b {x: 1}\nc: &c {<<: *b, z: 2}\nd: {<<: *c}\n', '{"b":{"x":1},"c":{"x":1,"z":2},"d":{"x":1,"z":2}}'],
    ['<<: {x: 1}\n<<: {z: 2}\n', '{"x":1,"z":2}'],
    ['!!merge <<: {x: 1}\n', '{"x":1}'],
    ['"<<": {x: 1}\n', '{"<<":{"x":1}}'],
    ['a: <<\n', '{"a":"<<"}'],
  ]
  for (const [yaml, json, duplicates = []] of rows) {
    const tree = parseYamlTree(yaml)
    t.equal(canonicalText(tree.value), json, yaml)
    t.same(tree.duplicates, duplicates, yaml)
  }
  for (const yaml of [
    '<<: 1',
    '<<:',
    '<<: [1]',
    'b: &b [{x: 1}]\n<<: *b',
    '<<: [[{x: 1}]]',
    '<<: *b',
    'a: &a {<<: *a}',
  ]) {
    t.throws(() => parseYamlTree(yaml), SyntaxError, yaml)
  }
  const many = Array.from({ length: 10_000 }, (_, i) => `k${i}: 0`).join(',')
  const merges = Array.from({ length: 90 }, (_, i) => `m${i}: {<<: *b}\n`).join('')
  t.throws(() => parseYamlTree(`b: &b {${many}}\n${merges}`), /aliases expand to/)
  const nested = `${'{<<: '.repeat(600)}{}${'}'.repeat(600)}`
  t.throws(() => parseYamlTree(nested), /nested more than/)
  t.end()
})

void t.test('equal trees have the same canonical text', (t) => {
  const values = ['1', '1.0', '"1"', 'null', '[1,2]', '[2,1]', '{"a":1,"b":{"d":[],"c":{}}}', '{"a":{},"b":1}']
  for (const a of values) {
    for (const b of values) t.equal(canonicalText(parse(a)) === canonicalText(parse(b)), equalTrees(parse(a), parse(b)))
  }
  t.equal(canonicalText(parse('{"b":{"d":1,"c":2},"a":1}')), canonicalText(parse('{"a":1,"b":{"c":2,"d":1}}')))
  t.end()
})

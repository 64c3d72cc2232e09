import t from 'tap'
import { cloneTree, encodeJsonTree, equalTrees, isRecord, type Json, parseJsonTree } from '../../src/codec/json-tree.js'
import { parseYamlTree } from '../../src/codec/yaml-tree.js'

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

void t.test('what is no JSON is refused', (t) => {
  for (const text of ['', '{', '{"a":}', '[1,]', '01', 'NaN', '{"a":1}x', `${'['.repeat(600)}${']'.repeat(600)}`]) {
    t.throws(() => parse(text), SyntaxError, text.slice(0, 20))
  }
  t.throws(() => parseJsonTree(Buffer.from([0x22, 0xff, 0x22])), SyntaxError)
  t.end()
})

void t.test('members given twice are told, and the last counts', (t) => {
  const { value, duplicates } = parseJsonTree(Buffer.from('{"a":1,"a":2,"b":[{"c":1,"c":2}]}'))
  t.same(duplicates, ['a', 'b.[0].c'.replace('.[', '[')])
  t.equal(encodeJsonTree(value).toString(), '{"a":2,"b":[{"c":2}]}')
  t.end()
})

void t.test('trees are equal by value', (t) => {
  t.ok(equalTrees(parse('{"a":1,"b":[1.0]}'), parse('{"b":[1.0],"a":1}')))
  t.notOk(equalTrees(parse('[1]'), parse('[1.0]')), 'a number is its text')
  t.notOk(equalTrees(parse('{"a":null}'), parse('{}')))
  t.notOk(equalTrees(parse('[]'), parse('{}')))
  t.end()
})

void t.test('YAML', (t) => {
  const rows: readonly (readonly [yaml: string, json: string])[] = [
    ['a: 1\nb: [x, "2", true, null, ~]\n', '{"a":1,"b":["x","2",true,null,null]}'],
    [
      'big: 9007199254740993\nfloat: 1.0\nexp: 1e3\noctal: 0o17\n',
      '{"big":9007199254740993,"float":1.0,"exp":1e3,"octal":15}',
    ],
    ['base: &b {x: 1}\nother: *b\n', '{"base":{"x":1},"other":{"x":1}}'],
    ['1: one\ntrue: yes\n', '{"1":"one","true":"yes"}'],
    ['text: |\n  two\n  lines\n', '{"text":"two\\nlines\\n"}'],
    ['{"json": [1, 2]}', '{"json":[1,2]}'],
    ['---\na: 1\n', '{"a":1}'],
    ['__proto__: {a: 1}\n', '{"__proto__":{"a":1}}'],
  ]
  for (const [yaml, json] of rows) t.equal(encodeJsonTree(parseYamlTree(yaml).value).toString(), json, yaml)
  t.same(parseYamlTree('a: 1\na: 2\n').duplicates, ['a'])
  for (const yaml of ['a: [', 'a: 1\n---\nb: 2\n', 'a: .inf', '? {x: 1}\n: 2\n'])
    t.throws(() => parseYamlTree(yaml), SyntaxError, yaml)
  const bomb = Array.from({ length: 20 }, (_, i) => `a${i}: &a${i} [${i === 0 ? 'x' : `*a${i - 1}, *a${i - 1}`}]`).join(
    '\n',
  )
  t.throws(() => parseYamlTree(bomb), /aliases/, 'a few lines that stand for gigabytes')
  t.notOk(isRecord(parseYamlTree('').value))
  t.end()
})

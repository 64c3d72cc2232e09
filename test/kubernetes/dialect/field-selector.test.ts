import t from 'tap'

import { parseFieldSelector } from '../../../src/kubernetes/dialect/field-selector.js'
import { parseSelector } from '../../support/parse-selector.js'
import { BadRequestError } from '../../../src/kubernetes/model/status.js'
import { MAX_SELECTOR_LENGTH, MAX_SELECTOR_TERMS } from '../../../src/kubernetes/model/limits.js'

function subject(fields: Record<string, string>) {
  return { field: (path: string) => fields[path] ?? '', label: () => undefined }
}

void t.test('a field selector matches scalar paths, a missing one reading as empty', async (t) => {
  const table: [string, Record<string, string>, boolean][] = [
    ['', {}, true],
    [',', {}, true],
    ['metadata.name=a', { 'metadata.name': 'a' }, true],
    ['metadata.name==a', { 'metadata.name': 'a' }, true],
    ['metadata.name!=a', { 'metadata.name': 'a' }, false],
    ['spec.nodeName=', {}, true],
    ['spec.nodeName!=', {}, false],
    ['spec.nodeName!=', { 'spec.nodeName': 'n' }, true],
    ['a=1,,b=2,', { a: '1', b: '2' }, true],
    ['a=1,b=2', { a: '1', b: '3' }, false],
    ['a=x\\,y', { a: 'x,y' }, true],
    ['a=x\\=y', { a: 'x=y' }, true],
    ['a=x\\\\', { a: 'x\\' }, true],
    ['a=x\\\\,b=2', { a: 'x\\', b: '2' }, true],
    ['a=x!y', { a: 'x!y' }, true],
    ['a= x ', { a: ' x ' }, true],
    ['metadata.annotations.example\\.com/owner=me', { 'metadata.annotations.example\\.com/owner': 'me' }, true],
    ['data.k\\[0\\]=v', { 'data.k\\[0\\]': 'v' }, true],
  ]
  for (const [text, fields, expected] of table) {
    t.equal(parseFieldSelector(text).matches(subject(fields)), expected, `${text} on ${JSON.stringify(fields)}`)
  }
})

void t.test('selectors that mean the same have the same canonical text', async (t) => {
  t.equal(parseFieldSelector('b==2,a=1,b=2').canonical, 'a=1,b=2')
  for (const text of ['a=x\\,y\\=z\\\\,b!=', 'a.b\\.c=1']) {
    const { canonical } = parseFieldSelector(text)
    t.equal(parseFieldSelector(canonical).canonical, canonical)
  }
  t.not(parseFieldSelector('a=1').canonical, parseFieldSelector('a!=1').canonical)
})

void t.test('a bad field selector is a 400 that gives the position', async (t) => {
  const table: [string, RegExp][] = [
    ['a', /invalid field selector: can't understand 'a' \(character 1\)/],
    ['a=1,b', /can't understand 'b' \(character 5\)/],
    ['a=b=c', /unescaped character in value: = \(character 4\)/],
    ['a=\\x', /invalid escape sequence: \\x \(character 3\)/],
    ['a=\\', /invalid escape sequence: \\ \(character 3\)/],
    ['a=1,b=\\', /invalid escape sequence/],
    ['=x', /field label not supported: ""/],
    ['!=x', /field label not supported: ""/],
    ['a..b=x', /field label not supported: "a..b"/],
    ['.a=x', /field label not supported/],
    ['a.=x', /field label not supported/],
    ['a=1, b=2', /field label not supported: " b" \(character 5\)/],
    ['spec.containers[0].name=x', /field label not supported/],
    [`${'a.'.repeat(32)}a=x`, /field label not supported/],
    [`a=${'x'.repeat(MAX_SELECTOR_LENGTH)}`, /at most 16384/],
  ]
  for (const [text, expected] of table) {
    t.throws(
      () => parseFieldSelector(text),
      { constructor: BadRequestError, code: 400, message: expected },
      text.slice(0, 40),
    )
  }
})

void t.test('both selectors together have one key and one list of terms, labels apart from fields', async (t) => {
  const selector = parseSelector('app=web', 'metadata.labels.app=web,status.phase!=Failed')
  t.strictSame(selector.equalityTerms(), [
    { path: 'metadata.labels.app', value: 'web' },
    { path: 'metadata.labels[app]', value: 'web' },
  ])
  t.strictSame(selector.paths, ['metadata.labels.app', 'status.phase', 'metadata.labels[app]'])
  t.equal(selector.requiredValue('metadata.labels.app'), 'web')
  t.equal(selector.requiredValue('status.phase'), undefined)
  const keys = [
    ['a=1', undefined],
    [undefined, 'a=1'],
    ['a', 'a=1'],
    [undefined, undefined],
    ['a=1', 'a=1'],
  ].map(([labels, fields]) => parseSelector(labels, fields).canonical)
  t.equal(new Set(keys).size, keys.length)
  t.ok(parseSelector(undefined, '').isEmpty)
})

void t.test('the number of terms is bounded, and a repeated term counts once', async (t) => {
  const terms = Array.from({ length: MAX_SELECTOR_TERMS + 1 }, (_, i) => `k${i}=1`)
  t.throws(() => parseFieldSelector(terms.join(',')), { code: 400, message: /at most 256 are allowed/ })
  t.ok(parseFieldSelector([...terms.slice(1), terms[1]].join(',')))
})

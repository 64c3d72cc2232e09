import t from 'tap'

import { parseLabelSelector } from '../../../src/kubernetes/dialect/label-selector.js'
import { BadRequestError } from '../../../src/kubernetes/model/status.js'
import { MAX_SELECTOR_LENGTH, MAX_SELECTOR_TERMS } from '../../../src/kubernetes/model/limits.js'

function subject(labels: Record<string, string>) {
  return { attribute: (path: string) => labels[/^metadata\.labels\[(.*)\]$/.exec(path)![1]!] }
}

void t.test('a selector matches as it does in Kubernetes, absent labels included', async (t) => {
  const table: [string, Record<string, string>, boolean][] = [
    ['', {}, true],
    ['  ', { a: '1' }, true],
    ['a=1', { a: '1' }, true],
    ['a==1', { a: '1' }, true],
    ['a = 1', { a: '1' }, true],
    ['a=1', { a: '2' }, false],
    ['a=1', {}, false],
    ['a=', { a: '' }, true],
    ['a=', {}, false],
    ['a!=1', {}, true],
    ['a!=1', { a: '1' }, false],
    ['a!=1', { a: '2' }, true],
    ['a!=', { a: '' }, false],
    ['a!=', {}, true],
    ['a in (1,2)', { a: '2' }, true],
    ['a in (1,2)', { a: '3' }, false],
    ['a in (1,2)', {}, false],
    ['a in (1,)', { a: '' }, true],
    ['a in (,)', { a: '' }, true],
    ['a in ( 1 , 2 )', { a: '1' }, true],
    ['a notin (1,2)', {}, true],
    ['a notin (1,2)', { a: '1' }, false],
    ['a notin (1,2)', { a: '3' }, true],
    ['a', { a: '' }, true],
    ['a', {}, false],
    ['!a', {}, true],
    ['! a', { a: '1' }, false],
    ['a>5', { a: '6' }, true],
    ['a>5', { a: '5' }, false],
    ['a<5', { a: '04' }, true],
    ['a<5', {}, false],
    ['a>5', { a: 'x' }, false],
    ['a>9007199254740992', { a: '9007199254740993' }, true],
    ['a>1', { a: '9223372036854775807' }, true],
    ['a>1', { a: '9223372036854775808' }, false],
    ['a=1,b!=2,!c', { a: '1' }, true],
    ['a=1,b', { a: '1' }, false],
    ['in in (in,notin),notin notin (in)', { in: 'notin' }, true],
    ['in=in', { in: 'in' }, true],
    ['example.com/Key_1.x-y=v', { 'example.com/Key_1.x-y': 'v' }, true],
    ['a=1\n,\tb=2\r', { a: '1', b: '2' }, true],
  ]
  for (const [text, labels, expected] of table) {
    t.equal(parseLabelSelector(text).matches(subject(labels)), expected, `${text} on ${JSON.stringify(labels)}`)
  }
})

void t.test('selectors that mean the same have the same canonical text', async (t) => {
  const groups = [
    ['a=1,b=2', 'b==2,a=1', ' b = 2 , a in (1)', 'a=1,b=2,a=1'],
    ['a in (x,y)', 'a in (y,x,y)'],
    ['a!=x', 'a notin (x)'],
    ['', ' '],
  ]
  for (const group of groups)
    t.equal(new Set(group.map((text) => parseLabelSelector(text).canonical)).size, 1, group.join(' | '))
  for (const text of ['a=1,b=2', 'a in (x,y)', '!a,b,c notin (1,2),d>4,e<5,f=']) {
    const { canonical } = parseLabelSelector(text)
    t.equal(parseLabelSelector(canonical).canonical, canonical, 'it can be read again')
  }
  const distinct = ['a', '!a', 'a=', 'a!=', 'a>1', 'a<1', 'a=1', 'a in (1,2)', 'a notin (1,2)', '']
  t.equal(new Set(distinct.map((text) => parseLabelSelector(text).canonical)).size, distinct.length)
})

void t.test('a selector gives the index its equality terms and the labels it uses', async (t) => {
  const selector = parseLabelSelector('b in (x),a=1,c!=2,d,e in (1,2),a')
  t.strictSame(selector.equalityTerms(), [
    { path: 'metadata.labels[a]', value: '1' },
    { path: 'metadata.labels[b]', value: 'x' },
  ])
  t.strictSame(
    [...selector.paths].sort(),
    ['a', 'b', 'c', 'd', 'e'].map((key) => `metadata.labels[${key}]`),
  )
  t.ok(parseLabelSelector('').isEmpty)
  t.notOk(selector.isEmpty)
})

void t.test('a bad selector is a 400 that states what was expected and where', async (t) => {
  const table: [string, RegExp][] = [
    [',', /found ',', expected: !, identifier, or 'end of string' .*character 1\b/],
    ['a,', /found '', expected: identifier after ','.*character 3\b/],
    ['a,,b', /found ',', expected: identifier after ','/],
    ['a=1 b', /found 'b', expected: ',' or 'end of string'.*character 5\b/],
    ['!a=1', /found '=', expected: ',' or 'end of string'/],
    ['!', /unable to parse requirement: found '', expected: identifier/],
    ['=1', /found '=', expected: !, identifier/],
    ['a b', /unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt/],
    ['a===1', /found '=', expected: identifier/],
    ['a in 1', /found '1', expected: '\('/],
    ['a in (', /found '', expected: ',', '\)' or identifier/],
    ['a in (1', /found '', expected: ',' or '\)'/],
    ['a in (1 2)', /found '2', expected: ',' or '\)'/],
    ['a>x', /the value must be an integer/],
    ['a>', /the value must be an integer/],
    ['a>9223372036854775808', /the value must be an integer/],
    ['-a=1', /Invalid value: "-a": name part must consist of/],
    ['a_=1', /name part must consist of/],
    ['/a=1', /prefix part must be non-empty/],
    ['Example.com/a=1', /prefix part a lowercase RFC 1123 subdomain must/],
    ['a..b/c=1', /prefix part a lowercase RFC 1123 subdomain must/],
    ['x/=1', /name part must be non-empty/],
    ['a/b/c=1', /with an optional DNS subdomain prefix and '\/'/],
    [`${'a'.repeat(64)}=1`, /name part must be no more than 63 bytes/],
    [`${'a.'.repeat(127)}/b=1`, /prefix part must be no more than 253 bytes/],
    [`a=${'b'.repeat(64)}`, /must be no more than 63 bytes/],
    ['a=-1', /a valid label must be an empty string or consist of/],
    ['a=é', /a valid label must be an empty string or consist of/],
    ['é', /name part must consist of/],
    ['a'.repeat(MAX_SELECTOR_LENGTH + 1), /at most 16384/],
  ]
  for (const [text, expected] of table) {
    t.throws(
      () => parseLabelSelector(text),
      { constructor: BadRequestError, code: 400, message: expected },
      text.slice(0, 40),
    )
  }
  t.ok(parseLabelSelector(`${'a'.repeat(63)}=${'b'.repeat(63)}`), 'the longest name')
  t.ok(parseLabelSelector(`${'a.'.repeat(126)}a/b`), 'the longest prefix')
})

void t.test('the number of terms is bounded, and a repeated term counts once', async (t) => {
  const terms = Array.from({ length: MAX_SELECTOR_TERMS + 1 }, (_, i) => `!k${i}`)
  t.throws(() => parseLabelSelector(terms.join(',')), { code: 400, message: /at most 256 are allowed/ })
  t.ok(parseLabelSelector([...terms.slice(1), terms[1]].join(',')))
})

/** Tests patterns in definitions: they follow RE2's grammar, and take linear time. */
import t from 'tap'
import { compilePattern } from '../../../src/kubernetes/writes/pattern.js'

void t.test('a pattern matches like RE2', (t) => {
  const rows: readonly (readonly [pattern: string, text: string, isMatch: boolean])[] = [
    ['^x', 'xy', true],
    ['^x', 'yx', false],
    ['x', 'yx', true],
    ['^(?:a|b){2,3}$', 'aba', true],
    ['^(?P<name>[a-z]+)$', 'abc', true],
    ['^\\p{L}+$', 'é', true],
    ['(?i)^ab$', 'AB', true],
    ['\\z', '', true],
    ['^([a-z0-9]+-?)+$', `${'a'.repeat(35)}!`, false],
    ['^([a-z0-9]+-?)+$', `${'a'.repeat(10_000)}!`, false],
    ['(x+x+)+y', 'x'.repeat(10_000), false],
  ]
  for (const [pattern, text, isMatch] of rows) {
    t.equal(compilePattern(pattern).test(text), isMatch, `${pattern} and ${text.slice(0, 40)}`)
  }
  t.end()
})

void t.test('patterns that are not RE2, or take long to compile, are rejected', (t) => {
  for (const pattern of ['(', '(?=a)b', '(a)\\1', '(?<!a)b', 'a{1001}', '((a{100}){100}){100}', 'a'.repeat(4_097)]) {
    t.throws(() => compilePattern(pattern), { name: 'SyntaxError' }, pattern.slice(0, 40))
  }
  t.end()
})

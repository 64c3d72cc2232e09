/**
 * Quantities as Go writes them. Most spellings are compared with a kube-apiserver's answers in
 * `test/reference/writes`; here are those that it rounds to thousandths in every kind that takes them.
 */
import t from 'tap'
import { goQuantity, isQuantity } from '../../../src/kubernetes/codec/go-quantity.js'

const WRITTEN: Readonly<Record<string, string>> = {
  '1e-10': '1e-9',
  '-1e-12': '-1e-9',
  '0.0000000001': '1n',
  '1n': '1n',
  '1000n': '1u',
  '1500u': '1500u',
  '1e-1000000000': '1e-9',
  '1e1000000000': '10e999999999',
  '1.500': '1.500',
  '1.5': '1500m',
  '1000E': '1',
  '0.1234567890123456789Mi': '129453825995410n',
  '16Ei': '9223372036854775807',
  '-16Ei': '-9223372036854775807',
  '1024Ki': '1Mi',
  Ki: '0',
}

void t.test('a quantity is written as Go writes it, and then stays', (t) => {
  for (const [text, written] of Object.entries(WRITTEN)) {
    t.ok(isQuantity(text), text)
    t.equal(goQuantity(text), written, text)
    t.equal(goQuantity(written), written, `${written} stays`)
  }
  t.end()
})

void t.test('a quantity of a list of resources is rounded up to thousandths, away from zero', (t) => {
  for (const [text, written] of [
    ['1500u', '2m'],
    ['-1500u', '-2m'],
    ['1e-10', '1e-3'],
    ['1.2345', '1235m'],
    ['1Gi', '1Gi'],
  ] as const)
    t.equal(goQuantity(text, -3), written, text)
  t.end()
})

void t.test('a very long quantity stays as it is', (t) => {
  const long = `1${'0'.repeat(2_000)}`
  t.equal(goQuantity(long), long)
  t.end()
})

/** Tests the query parameters of writes. Recorded writes compare more answers with Kubernetes'. */
import t from 'tap'
import { InvalidError } from '../../../src/kubernetes/model/status.js'
import { parseWriteOptions } from '../../../src/kubernetes/writes/write-options.js'

void t.test('the default field manager is derived from the user agent, as in the API server', (t) => {
  const managerOf = (userAgent: string): string => {
    // HTTP parsers return a character for each byte.
    const header = Buffer.from(userAgent).toString('latin1')
    return parseWriteOptions(new URLSearchParams(), header, 'Update').fieldManager
  }
  // These cases are from TestManagerOrUserAgent of k8s.io/apiserver.
  t.equal(managerOf('Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36'), 'Mozilla')
  t.equal(managerOf(`${'f'.repeat(128)}/Something`), 'f'.repeat(128))
  t.equal(managerOf('🍔'.repeat(60)), '🍔'.repeat(32))
  t.equal(managerOf('Jürgens Wächter/1.0'), 'Jürgens Wächter')
  t.equal(managerOf('日'.repeat(43)), '日'.repeat(42))
  t.equal(managerOf(`${'x'.repeat(126)}日y`), 'x'.repeat(126), 'nothing after the first that has no room')
  t.equal(managerOf('a\u200eb\u00a0c'), 'abc', 'unprintable characters are left out')
  t.equal(managerOf('/1.0'), 'unknown')
  t.equal(managerOf(''), 'unknown')
  t.end()
})

void t.test('every unprintable character of a field manager is reported with its position in bytes', (t) => {
  const causes = (fieldManager: string): readonly string[] => {
    try {
      parseWriteOptions(new URLSearchParams({ fieldManager }), '', 'Update')
      return []
    } catch (error) {
      if (!(error instanceof InvalidError)) throw error
      return (error.toStatus().details?.causes ?? []).map(({ message = '' }) => message.replace(/^.*: /, ''))
    }
  }
  t.same(causes('a\nb'), ['invalid character U+000A (at position 1)'])
  t.same(causes('äöü\u0000€\u007f'), [
    'invalid character U+0000 (at position 6)',
    'invalid character U+007F (at position 10)',
  ])
  t.same(causes('a\u00a0b\u200b'), [
    'invalid character U+00A0 (at position 1)',
    'invalid character U+200B (at position 4)',
  ])
  t.same(causes('Jürgen 😀 ≤ 日本'), [])
  t.end()
})

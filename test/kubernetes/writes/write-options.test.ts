/** Tests the query parameters of writes. Recorded writes compare more answers with Kubernetes'. */
import t from 'tap'
import { InvalidError } from '../../../src/engine/model/status.js'
import { parseWriteOptions } from '../../../src/kubernetes/writes/write-options.js'

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

/** Tests bodies of writes at the limits of what is read. */
import t from 'tap'
import { MAGIC } from '../../../src/kubernetes/codec/protobuf/envelope.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { statusOf } from '../../../src/kubernetes/model/status-of.js'
import { readPatch } from '../../../src/kubernetes/writes/patch.js'
import { readObject } from '../../../src/kubernetes/writes/object-body.js'
import { lengthDelimited } from '../../support/protobuf-sample.js'

const PROTOBUF = 'application/vnd.kubernetes.protobuf'

/** A Pod of empty containers, which take two bytes each in protobuf and many times as much in JSON. */
function emptyContainers(count: number): Buffer {
  const spec = Buffer.concat(Array.from({ length: count }, () => lengthDelimited(2, Buffer.alloc(0))))
  const type = Buffer.concat([lengthDelimited(1, Buffer.from('v1')), lengthDelimited(2, Buffer.from('Pod'))])
  return Buffer.concat([MAGIC, lengthDelimited(1, type), lengthDelimited(2, lengthDelimited(2, spec))])
}

void t.test('a protobuf body has a limited number of messages', (t) => {
  const schema = kubernetesSchema()
  const { value } = readObject(PROTOBUF, emptyContainers(1_000), schema)
  t.equal((value['spec'] as unknown as { containers: unknown[] }).containers.length, 1_000)
  const refused = ((): unknown => {
    try {
      return readObject(PROTOBUF, emptyContainers(1_000_000), schema)
    } catch (error) {
      return error
    }
  })()
  t.match(statusOf(refused), { code: 413, message: /too many messages/ })
  t.end()
})

void t.test('duplicate members are reported up to a limit', (t) => {
  const twice = Array.from({ length: 200_000 }, (_, i) => `"n${i >> 1}":1`).join(',')
  const { duplicates } = readObject('application/json', Buffer.from(`{${twice}}`), kubernetesSchema())
  t.equal(duplicates.length, 100)
  t.end()
})

void t.test(
  'a body with a number too large for a double gets 400, because Go clients could not list the object',
  (t) => {
    const schema = kubernetesSchema()
    const huge = '9'.repeat(400)
    const read = (text: string, holds?: 'values' | 'kubernetes'): unknown =>
      readObject('application/json', Buffer.from(text), schema, holds)
    const patch = (type: string, text: string, holds?: 'values' | 'kubernetes'): unknown =>
      readPatch(`application/${type}`, Buffer.from(text), true, holds)
    const message = /^couldn't read the body as JSON: the number \S{5,41} at \S+ is beyond a 64-bit float$/
    for (const number of ['1e400', '-1E+309', '9e308', huge, `-${huge}.5`]) {
      t.throws(() => read(`{"spec":{"n":[1,${number}]}}`), { code: 400, message }, number.slice(0, 20))
      t.throws(() => read(`{"n":${number},"n":1}`, 'kubernetes'), { code: 400, message })
      t.throws(() => patch('merge-patch+json', `{"n":${number}}`), { code: 400, message })
      t.throws(() => patch('json-patch+json', `[{"op":"add","path":"/n","value":${number}}]`), { code: 400, message })
      t.throws(() => patch('strategic-merge-patch+json', `{"n":${number}}`, 'kubernetes'), { code: 400, message })
      t.match(read(`{"value":${number}}`, 'values'), { value: { value: { text: number } } }, 'it will be read as text')
      t.match(patch('merge-patch+json', `{"value":${number}}`, 'values'), { patch: { value: { text: number } } })
    }
    t.throws(() => read('{"spec":{"n":[1,1e400]}}'), { message: /the number 1e400 at spec\.n\[1\] is/ })
    for (const number of ['1e308', '1e-400', '0e999', '"1e400"', '9'.repeat(308), '18446744073709551616']) {
      t.doesNotThrow(() => read(`{"n":${number}}`), number.slice(0, 20))
    }
    t.end()
  },
)

/** Tests bodies of writes at the limits of what is read. */
import t from 'tap'
import { MAGIC } from '../../../src/kubernetes/codec/protobuf/envelope.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { StatusError } from '../../../src/engine/model/status.js'
import { readObject } from '../../../src/kubernetes/writes/request-body.js'
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
  t.match(StatusError.from(refused), { code: 413, message: /too many messages/ })
  t.end()
})

void t.test('duplicate members are reported up to a limit', (t) => {
  const twice = Array.from({ length: 200_000 }, (_, i) => `"n${i >> 1}":1`).join(',')
  const { duplicates } = readObject('application/json', Buffer.from(`{${twice}}`), kubernetesSchema())
  t.equal(duplicates.length, 100)
  t.end()
})

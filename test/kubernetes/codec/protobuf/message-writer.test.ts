/** Messages built field by field, compared with another protobuf implementation. */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import t from 'tap'
import { MessageWriter } from '../../../../src/kubernetes/codec/protobuf/message-writer.js'

const FIELDS = [1, 15, 16, 2_047, 2_048, 536_870_911] as const
const INTEGERS = [0, 1, 127, 128, Number.MAX_SAFE_INTEGER, -1, -128, -(2 ** 31), Number.MIN_SAFE_INTEGER] as const

void t.test('integers of either sign, in fields of any number', (t) => {
  for (const field of FIELDS) {
    for (const value of INTEGERS) {
      const reader = new BinaryReader(new MessageWriter().integer(field, value).text(1, 'next').finish())
      t.same(reader.tag(), [field, WireType.Varint], `field ${field}`)
      t.equal(Number(reader.int64()), value)
      t.same([...reader.tag(), reader.string()], [1, WireType.LengthDelimited, 'next'], 'what follows is in its place')
    }
  }
  t.end()
})

void t.test('doubles and messages, in fields of any number', (t) => {
  for (const field of FIELDS) {
    const inner = new MessageWriter().double(field, -1.5)
    const reader = new BinaryReader(new MessageWriter().message(field, inner).finish())
    t.same(reader.tag(), [field, WireType.LengthDelimited])
    const inside = new BinaryReader(reader.bytes())
    t.same([...inside.tag(), inside.double()], [field, WireType.Bit64, -1.5])
  }
  t.end()
})

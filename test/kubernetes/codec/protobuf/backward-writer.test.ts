/** Messages written from the end, compared with another protobuf implementation. */
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import t from 'tap'
import { BackwardWriter } from '../../../../src/kubernetes/codec/protobuf/backward-writer.js'

const FIELDS = [1, 15, 16, 2_047, 2_048, 536_870_911] as const
const INTEGERS = [0, 1, 127, 128, Number.MAX_SAFE_INTEGER, -1, -128, -(2 ** 31), Number.MIN_SAFE_INTEGER] as const

void t.test('writing backwards gives the same bytes as writing forwards', async (t) => {
  const texts = ['', 'a', 'ü', 'x'.repeat(200), 'y'.repeat(5_000)]
  const forwards = new BinaryWriter()
  for (const text of texts) {
    forwards.tag(20, WireType.LengthDelimited).fork()
    forwards.tag(1, WireType.LengthDelimited).string(text).tag(2, WireType.Varint).int64(text.length).join()
  }
  const backwards = new BackwardWriter()
  for (const text of texts.toReversed()) {
    backwards.field(20, () => {
      backwards.integerField(2, text.length)
      backwards.textField(1, text)
    })
  }
  const bytes = Buffer.from(forwards.finish())
  t.equal(backwards.length, bytes.length)
  t.same(backwards.finish(), bytes)
})

void t.test('a writer that takes over the memory of a finished one leaves its bytes alone', async (t) => {
  const written = (text: string): BackwardWriter => {
    const writer = new BackwardWriter()
    writer.text(text)
    return writer
  }
  const both = [written('one'), written('other')]
  const texts = ['a', 'b'.repeat(20_000), 'c', 'd'.repeat(16 * 1024)]
  const finished = [...both, ...texts.map(written)].map((writer) => writer.finish())
  const again = texts.map((text) => written(text).finish())
  t.same(finished.map(String), ['one', 'other', ...texts])
  t.same(again.map(String), texts)
})

void t.test('integers of either sign and doubles, in fields of any number', async (t) => {
  for (const field of FIELDS) {
    for (const value of INTEGERS) {
      const writer = new BackwardWriter()
      writer.textField(1, 'next')
      writer.integerField(field, value)
      const reader = new BinaryReader(writer.finish())
      t.same(reader.tag(), [field, WireType.Varint], `field ${field}`)
      t.equal(Number(reader.int64()), value)
      t.same([...reader.tag(), reader.string()], [1, WireType.LengthDelimited, 'next'], 'what follows is in its place')
    }
    const writer = new BackwardWriter()
    writer.doubleField(field, -1.5)
    const reader = new BinaryReader(writer.finish())
    t.same([...reader.tag(), reader.double()], [field, WireType.Bit64, -1.5])
  }
})

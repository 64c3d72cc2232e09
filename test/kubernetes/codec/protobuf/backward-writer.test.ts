import t from 'tap'
import { BackwardWriter } from '../../../../src/kubernetes/codec/protobuf/backward-writer.js'
import { MessageWriter } from '../../../../src/kubernetes/codec/protobuf/message-writer.js'

void t.test('what is written backwards is what is written forwards', async (t) => {
  const texts = ['', 'a', 'ü', 'x'.repeat(200), 'y'.repeat(5_000)]
  const forwards = new MessageWriter()
  for (const text of texts) forwards.message(20, new MessageWriter().text(1, text).integer(2, text.length))
  const backwards = new BackwardWriter()
  for (const text of texts.toReversed()) {
    const end = backwards.length
    backwards.varint(text.length)
    backwards.tag(2, 0)
    const endOfText = backwards.length
    backwards.text(text)
    backwards.head(1, endOfText)
    backwards.head(20, end)
  }
  t.same(backwards.finish(), forwards.finish())
  t.equal(backwards.length, forwards.finish().length)
  for (const value of [0, 1, -1, -(2 ** 31), 2 ** 52]) {
    const writer = new BackwardWriter()
    writer.longVarint(BigInt(value))
    writer.tag(3, 0)
    t.same(writer.finish(), new MessageWriter().integer(3, value).finish(), `${value}`)
  }
})

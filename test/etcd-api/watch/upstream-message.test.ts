import t from 'tap'
import { readForwardedMessage } from '../../../src/etcd-api/watch/upstream-message.js'
import { watchFields } from '../../../src/etcd-api/watch/watch-messages.js'
import { encode, type Fields, messageOf } from '../support/harness.js'

const header: Fields = { 1: 77, 3: 9, 4: 2 }
const event = (i: number): Fields => ({ 2: { 1: `/other/${i}`, 3: i, 5: 'value' } })

void t.test('a message gets another watch id in the place of its own, and nothing else changes', (t) => {
  const rest: Fields = { 3: true, 5: 4, 6: 'why', 7: true, 11: [event(1), event(2)] }
  for (const before of [0, 5, -1]) {
    for (const id of [0, 7]) {
      const { withId, ...read } = readForwardedMessage(encode({ 1: header, 2: before, ...rest }))
      t.same(read, { revision: 9, watchId: before, canceled: false, cancelReason: 'why' })
      const after = Buffer.concat(withId(watchFields({ watchId: id })))
      t.ok(after.equals(encode({ 1: header, 2: id, ...rest })), `${id} instead of ${before}`)
    }
  }
  t.match(readForwardedMessage(encode({ 1: header, 2: -1, 3: true, 4: true })), { watchId: -1, canceled: true })
  t.end()
})

void t.test('the fields of a message may come in any order', (t) => {
  const parts: readonly Fields[] = [{ 11: event(1) }, { 2: 5 }, { 4: true }, { 1: header }, { 11: event(2) }, { 2: 6 }]
  const message = Buffer.concat(parts.map(encode))
  const { revision, watchId, canceled, withId } = readForwardedMessage(message)
  t.same([revision, watchId, canceled], [9, 6, true])
  const after = messageOf(Buffer.concat(withId(watchFields({ watchId: 7 }))))
  t.equal(after.text(2), '7')
  t.equal(after.revision, 9)
  t.same(
    after.messages(11).map((one) => one.message(2).text(1)),
    ['/other/1', '/other/2'],
  )
  t.end()
})

/** Messages of watches that are equal to the last byte are made once. */
import t from 'tap'
import { SharedMessages } from '../../../src/etcd-api/watch/shared-messages.js'
import { watchFields } from '../../../src/etcd-api/watch/watch-messages.js'
import { messageOf } from '../support/harness.js'

const identity = { clusterId: '1', memberId: '2', raftTerm: '3' }
const events = Buffer.from('5a03010203', 'hex')
const parts = { identity, revision: 7, fields: watchFields({ watchId: 0 }), events }

void t.test('watchers with the same id get the same bytes, and others their own', (t) => {
  const messages = new SharedMessages()
  const first = messages.message(parts)
  t.equal(messages.message({ ...parts, fields: watchFields({ watchId: 0 }) }), first)
  const others = [
    { ...parts, fields: watchFields({ watchId: 5 }) },
    { ...parts, revision: 8 },
    { ...parts, identity: { ...identity, raftTerm: '4' } },
    { ...parts, events: Buffer.from('5a03010204', 'hex') },
  ]
  for (const other of others) {
    const message = messageOf(messages.message(other).subarray(5))
    t.equal(message.number(2), other === others[0] ? 5 : 0)
    t.equal(message.revision, other.revision)
    t.equal(message.message(1).text(4), other.identity.raftTerm)
    t.ok(message.bytes.subarray(-events.length).equals(other.events))
  }
  t.not(messages.message(parts), first, 'only the last few are kept')
  t.end()
})

void t.test('a frame has the length of its message', (t) => {
  const message = new SharedMessages().message(parts)
  t.equal(message[0], 0)
  t.equal(message.readUInt32BE(1), message.length - 5)
  t.end()
})

void t.test('a message of more than 4 MiB is not kept', (t) => {
  const messages = new SharedMessages()
  const first = messages.message(parts)
  const large = { ...parts, events: Buffer.alloc(4 * 1_048_576) }
  t.not(messages.message(large), messages.message(large))
  t.equal(messages.message(parts), first)
  t.end()
})

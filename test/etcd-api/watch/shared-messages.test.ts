/** Messages of watches that are equal to the last byte are made once. */
import t from 'tap'
import { NO_EVENTS, SharedMessages } from '../../../src/etcd-api/watch/shared-messages.js'
import { watchFields } from '../../../src/etcd-api/watch/watch-messages.js'
import { messageOf } from '../support/harness.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const identity = { clusterId: '1', memberId: '2', raftTerm: '3' }
const events = Buffer.from('5a03010203', 'hex')
const parts = { identity, revision: 7, fields: watchFields({ watchId: 0 }), events }

void t.test('watchers with the same id get the same bytes, and others their own', (t) => {
  const messages = new SharedMessages(new VirtualClock())
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
  const message = new SharedMessages(new VirtualClock()).message(parts)
  t.equal(message[0], 0)
  t.equal(message.readUInt32BE(1), message.length - 5)
  t.end()
})

void t.test('a message of more than 4 MiB is not kept', (t) => {
  const messages = new SharedMessages(new VirtualClock())
  const first = messages.message(parts)
  const large = { ...parts, events: Buffer.alloc(4 * 1_048_576) }
  t.not(messages.message(large), messages.message(large))
  t.equal(messages.message(parts), first)
  t.end()
})

void t.test('a message without events takes no place, and none is kept while nothing happens', (t) => {
  const clock = new VirtualClock()
  const messages = new SharedMessages(clock)
  const first = messages.message(parts)
  const without = { ...parts, events: NO_EVENTS }
  for (let watchId = 0; watchId < 4; watchId++) messages.message({ ...without, fields: watchFields({ watchId }) })
  t.equal(messages.message(parts), first)
  t.not(messages.message(without), messages.message(without))
  clock.advance(1_000)
  const next = messages.message(parts)
  t.not(next, first)
  clock.advance(999)
  t.equal(messages.message(parts), next)
  clock.advance(1)
  t.not(messages.message(parts), next)
  t.end()
})

/** Tests of what a sink is told when statuses of the publisher come, or something else comes in their place. */
import t from 'tap'
import { StatusListener } from '../../../src/fleet/nats/status-listener.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { unsigned } from '../nats-harness.js'
import { RecordingSink } from '../../feed/recording-sink.js'

void t.test('anything but a status is ignored, and the next status counts', async (t) => {
  const sink = new RecordingSink()
  const clock = new VirtualClock()
  let hear: (data: Buffer) => void = () => {}
  const listener = new StatusListener({
    client: {
      subscribe: (_subject, onMessage) => {
        hear = onMessage
        return { close: () => {} }
      },
      doubtSubject: () => {},
    },
    subject: 'status',
    envelope: unsigned,
    sink,
    clock,
    position: () => ({ sequence: 7, epoch: 1 }),
    isFollowing: () => true,
    isCurrent: () => true,
    onStuck: () => {},
  })
  t.teardown(() => listener.stop())
  listener.start()
  const others = ['hello', '', 'null', '3', '[]', '{}', '{"epoch":"1","sequence":7,"trouble":null}']
  others.push('{"epoch":1,"sequence":7,"at":{},"trouble":null}', '{"epoch":1,"sequence":7,"trouble":"gone"}')
  for (const other of others) {
    t.doesNotThrow(() => hear(Buffer.from(other)), other)
    t.equal(sink.isSynced, false, other)
  }
  hear(Buffer.from(JSON.stringify({ epoch: 1, sequence: 7, at: 0, ageMs: 0, trouble: null })))
  t.equal(sink.isSynced, true)
  await Promise.resolve()
})

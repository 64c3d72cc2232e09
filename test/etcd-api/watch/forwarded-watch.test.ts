import t from 'tap'
import { ForwardedWatch } from '../../../src/etcd-api/watch/forwarded-watch.js'
import type { WatchSink } from '../../../src/etcd-api/watch/stream-watch.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { FakeEtcd, settled } from '../support/fakes.js'
import { encode } from '../support/harness.js'

void t.test('a message is passed on as a few parts, however many events it has', async (t) => {
  const passed: (readonly Uint8Array[])[] = []
  const sink = { isFull: false, pass: (parts) => passed.push(parts) > 0, remove: () => {} } as Partial<WatchSink>
  const raw = new FakeEtcd()
  const context = { raw, clock: new VirtualClock(), metrics: { watches: () => {} } }
  const watch = new ForwardedWatch(sink as WatchSink, 7, context, () => false)
  void watch.open(encode({ 1: '/other/x' }))
  await settled()
  const { handlers } = raw.streams[0]!
  handlers.onMessage(Buffer.from(encode({ 1: { 3: 9 }, 3: true })))
  const events = Array.from({ length: 1_000 }, (_, i) => ({ 2: { 1: '/other/x', 3: i, 5: 'value' } }))
  const message = { 1: { 3: 9 }, 2: 5, 11: events }
  handlers.onMessage(Buffer.from(encode(message)))
  t.ok(passed[1]!.length <= 4, `${passed[1]!.length} parts`)
  t.ok(Buffer.concat(passed[1]!).equals(encode({ ...message, 2: 7 })))
  watch.close()
})

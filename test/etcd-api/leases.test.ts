/** The leases that each client holds. */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import t from 'tap'
import { LeaseCount } from '../../src/etcd-api/leases.js'
import { VirtualClock } from '../support/virtual-clock.js'

const granted = (id: number, ttlSeconds: number): Uint8Array =>
  new BinaryWriter().tag(2, WireType.Varint).int64(id).tag(3, WireType.Varint).int64(ttlSeconds).finish()

void t.test('clients whose leases have expired are forgotten, and others are not', (t) => {
  const clock = new VirtualClock()
  const leases = new LeaseCount(clock)
  for (let i = 0; i < 100; i++) leases.granted(`long-${i}`, granted(i, 86_400))
  let most = 0
  for (let i = 0; i < 20_000; i++) {
    leases.granted(`short-${i}`, granted(i + 100, 5))
    clock.advance(10)
    most = Math.max(most, leases.size)
  }
  t.ok(most <= 2_000, `${most} clients`)
  clock.advance(10_000)
  for (let i = 0; i < 1_000; i++) leases.granted('one', granted(i + 50_000, 86_400))
  t.throws(() => leases.assertRoom('one'), { message: 'too many requests' })
  t.doesNotThrow(() => leases.assertRoom('long-1'))
  t.end()
})

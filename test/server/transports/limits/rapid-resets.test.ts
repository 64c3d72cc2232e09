import t from 'tap'
import { networkOf, trustedProxies } from '../../../../src/server/auth/client-address.js'
import { RapidResets, type RapidResetsOptions } from '../../../../src/server/transports/limits/rapid-resets.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

function limits(options: Partial<RapidResetsOptions> = {}) {
  const clock = new VirtualClock()
  let rejected = 0
  const resets = new RapidResets({
    clock,
    proxies: trustedProxies(['10.0.0.0/8']),
    onRejected: () => rejected++,
    ...options,
  })
  return { clock, resets, rejected: () => rejected }
}

const A = '192.0.2.1'

void t.test('an address that resets more requests than others ever do is suspect for ten seconds', (t) => {
  const { clock, resets, rejected } = limits()
  for (let i = 1; i <= 199; i++) t.notOk(resets.count(A, null, i))
  t.ok(resets.count(A, null, 200), 'the two hundredth ends its connection')
  for (let i = 1; i <= 4; i++) t.notOk(resets.count('::ffff:192.0.2.1', null, i), 'another connection has four')
  t.ok(resets.count('::ffff:192.0.2.1', null, 5), 'in either notation')
  t.notOk(resets.count('192.0.2.2', null, 5), 'another address is not suspect')
  t.equal(rejected(), 2)
  clock.advance(10_001)
  t.notOk(resets.count(A, null, 5), 'with a new allowance')
  t.end()
})

void t.test('twenty a second are allowed indefinitely', (t) => {
  const { clock, resets } = limits()
  for (let second = 0; second < 60; second++) {
    for (let i = 0; i < 20; i++) if (resets.count(A, null, 20 * second + i)) t.fail('ended')
    clock.advance(1_000)
  }
  t.end()
})

void t.test(
  'authenticated clients are counted by name: not against their neighbours, and not for what they do',
  (t) => {
    const { resets } = limits()
    for (let i = 1; i <= 200; i++) resets.count(A, 'ann', i)
    t.ok(resets.count('192.0.2.9', 'ann', 5), 'ann is suspect wherever she comes from')
    t.notOk(resets.count(A, null, 5), 'her address is not')
    t.notOk(resets.count(A, 'bob', 5))
    for (let i = 1; i <= 200; i++) resets.count(A, null, i)
    t.ok(resets.count(A, null, 5))
    t.notOk(resets.count(A, 'bob', 100), 'bob is not suspect with his address')
    t.end()
  },
)

void t.test('a proxy carries the requests of many clients, and is not counted', (t) => {
  const { resets } = limits()
  for (let i = 1; i <= 1_000; i++) if (resets.count('10.1.2.3', null, i)) t.fail('ended')
  t.end()
})

void t.test('counts from other processes are added, and a suspicion is reported once', (t) => {
  const suspected: string[] = []
  const counted: string[] = []
  const { resets } = limits({
    onSuspected: (client) => suspected.push(client),
    onCounted: (client) => counted.push(client),
  })
  resets.countOf(A, 150)
  for (let i = 1; i <= 60; i++) resets.count(A, null, i)
  t.ok(resets.count(A, null, 5))
  t.same(suspected, [A])
  t.equal(counted.length, 61, 'it counts its own resets')
  resets.suspect('192.0.2.9')
  t.ok(resets.count('192.0.2.9', null, 5), 'as another process says')
  t.end()
})

void t.test('an IPv6 client counts by its network, all of which it may use', async (t) => {
  for (const [address, network] of [
    ['2001:db8:0:1:aaaa:bbbb:cccc:dddd', '2001:db8:0:1'],
    ['2001:db8:0:1::7', '2001:db8:0:1'],
    ['2001:0db8::7', '2001:db8:0:0'],
    ['::1', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['', ''],
  ] as const)
    t.equal(networkOf(address), network, address)
})

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

void t.test('an address that gives up more requests than others ever do is refused for ten seconds', async (t) => {
  const { clock, resets, rejected } = limits()
  for (let i = 0; i < 199; i++) t.notOk(resets.count('192.0.2.1'))
  t.notOk(resets.refuses('192.0.2.1'))
  t.ok(resets.count('192.0.2.1'), 'the two hundredth')
  t.ok(resets.refuses('192.0.2.1'))
  t.ok(resets.refuses('::ffff:192.0.2.1'), 'in either notation')
  t.notOk(resets.refuses('192.0.2.2'))
  t.equal(rejected(), 2)
  clock.advance(10_001)
  t.notOk(resets.refuses('192.0.2.1'))
  t.notOk(resets.count('192.0.2.1'), 'with a new allowance')
})

void t.test('twenty a second go on without end', async (t) => {
  const { clock, resets } = limits()
  for (let second = 0; second < 60; second++) {
    for (let i = 0; i < 20; i++) if (resets.count('192.0.2.1')) t.fail('refused')
    clock.advance(1_000)
  }
  t.notOk(resets.refuses('192.0.2.1'))
})

void t.test('a proxy carries the requests of many clients, and is not counted', async (t) => {
  const { resets } = limits()
  for (let i = 0; i < 1_000; i++) resets.count('10.1.2.3')
  t.notOk(resets.refuses('10.1.2.3'))
})

void t.test('what other processes count comes on top, and a refusal is told once', async (t) => {
  const refused: string[] = []
  const counted: string[] = []
  const { resets } = limits({
    onRefused: (network) => refused.push(network),
    onCounted: (network) => counted.push(network),
  })
  resets.countOf('192.0.2.1', 150)
  for (let i = 0; i < 60; i++) resets.count('192.0.2.1')
  t.ok(resets.refuses('192.0.2.1'))
  t.same(refused, ['192.0.2.1'])
  t.equal(counted.length, 60, 'its own are told')
  resets.refuse('192.0.2.9')
  t.ok(resets.refuses('192.0.2.9'), 'as another process says')
})

void t.test('an IPv6 client counts by its network, which it may use all of', async (t) => {
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

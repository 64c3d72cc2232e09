import t from 'tap'

import { clientAddress, trustedProxies } from '../../../src/server/auth/client-address.js'
import { FairSemaphore, type FairSemaphoreOptions } from '../../../src/server/limits/fair-semaphore.js'
import { IdentityRateLimits } from '../../../src/server/limits/identity-rate-limits.js'
import { BusyError } from '../../../src/engine/model/errors.js'
import { VirtualClock } from '../../support/virtual-clock.js'

function limits(clock: VirtualClock) {
  return new IdentityRateLimits({ clock, requestsPerSecond: () => 2 })
}

void t.test('requests are allowed in a burst and then at the rate, separately for each identity', async (t) => {
  const clock = new VirtualClock()
  const limit = limits(clock)
  for (let i = 0; i < 20; i++) limit.countRequest('noisy')
  t.throws(() => limit.countRequest('noisy'), { name: 'BusyError', retryAfterSeconds: 1 })
  t.doesNotThrow(() => limit.countRequest('quiet'))
  clock.advance(499)
  t.throws(() => limit.countRequest('noisy'), BusyError)
  clock.advance(1)
  t.doesNotThrow(() => limit.countRequest('noisy'))
  t.throws(() => limit.countRequest('noisy'), BusyError)
  clock.advance(3_600_000)
  for (let i = 0; i < 20; i++) limit.countRequest('noisy')
  t.throws(() => limit.countRequest('noisy'), BusyError, 'rest does not add up beyond the burst')
})

function semaphoreOf(options: Partial<FairSemaphoreOptions> & Pick<FairSemaphoreOptions, 'slots'>): FairSemaphore {
  const most = { maxSlotsPerIdentity: options.slots, maxWaiting: 100, maxWaitingPerIdentity: 100, maxWaitMs: 3_000 }
  return new FairSemaphore({ ...most, clock: new VirtualClock(), onRejected: () => {}, ...options })
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

void t.test('identities take slots in turns: one with many requests waits behind one with few', async (t) => {
  const semaphore = semaphoreOf({ slots: 1, maxWaiting: 100, maxWaitingPerIdentity: 50 })
  const order: string[] = []
  const leave = await semaphore.acquire('noisy')
  const enter = async (identity: string) => {
    const end = await semaphore.acquire(identity)
    order.push(identity)
    end()
  }
  const all = ['noisy', 'noisy', 'noisy', 'noisy', 'quiet', 'calm', 'quiet'].map(enter)
  t.match(semaphore, { running: 1, waiting: 7 })
  leave()
  leave()
  await Promise.all(all)
  t.same(order, ['noisy', 'quiet', 'calm', 'noisy', 'quiet', 'noisy', 'noisy'])
  t.match(semaphore, { running: 0, waiting: 0 })
})

void t.test('there are never more slots in use than allowed', async (t) => {
  const semaphore = semaphoreOf({ slots: 3, maxWaiting: 100, maxWaitingPerIdentity: 100 })
  let running = 0
  let most = 0
  await Promise.all(
    Array.from({ length: 50 }, async (_, i) => {
      const end = await semaphore.acquire(`i${i % 4}`)
      most = Math.max(most, ++running)
      await settled()
      running--
      end()
    }),
  )
  t.equal(most, 3)
  t.match(semaphore, { running: 0, waiting: 0 })
})

void t.test('the number of waiting requests is bounded, in total and for each identity', async (t) => {
  const semaphore = semaphoreOf({ slots: 1, maxWaiting: 3, maxWaitingPerIdentity: 2 })
  const leave = await semaphore.acquire('a')
  const waiting = [semaphore.acquire('a'), semaphore.acquire('a')]
  await t.rejects(semaphore.acquire('a'), { name: 'BusyError' }, 'one identity cannot fill the queue')
  waiting.push(semaphore.acquire('b'))
  await t.rejects(semaphore.acquire('c'), { name: 'BusyError', retryAfterSeconds: 1 })
  leave()
  await Promise.all(waiting.map(async (one) => (await one)()))
  t.match(semaphore, { running: 0, waiting: 0 })
})

void t.test('no identity holds every slot, however long it holds them', async (t) => {
  const semaphore = semaphoreOf({ slots: 4, maxSlotsPerIdentity: 3 })
  const held = ['noisy', 'noisy', 'noisy'].map((identity) => semaphore.tryAcquire(identity))
  t.notOk(held.includes(null))
  t.equal(semaphore.tryAcquire('noisy'), null, 'there is a slot left, and not for this one')
  const more = [semaphore.acquire('noisy'), semaphore.acquire('noisy')]
  const quiet = semaphore.tryAcquire('quiet')
  t.ok(quiet, 'the next to come need not wait')
  const calm = semaphore.acquire('calm')
  quiet?.()
  ;(await calm)()
  t.match(semaphore, { running: 3, waiting: 2 }, 'a slot that is free is not for who holds too many')
  held[0]?.()
  const first = await more[0]!
  t.match(semaphore, { running: 3, waiting: 1 })
  first()
  ;(await more[1]!)()
  for (const leave of held) leave?.()
  t.match(semaphore, { running: 0, waiting: 0 })
})

void t.test('a request that has waited too long gets 429, which is counted', async (t) => {
  const clock = new VirtualClock()
  let rejected = 0
  const semaphore = semaphoreOf({ slots: 1, clock, maxWaitMs: 3_000, onRejected: () => rejected++ })
  const leave = await semaphore.acquire('a')
  const waiting = semaphore.acquire('b')
  clock.advance(2_999)
  t.equal(semaphore.waiting, 1)
  clock.advance(1)
  await t.rejects(waiting, { name: 'BusyError', retryAfterSeconds: 1 })
  t.match(semaphore, { running: 1, waiting: 0 })
  t.equal(rejected, 1)
  leave()
  t.ok(semaphore.tryAcquire('c'))
})

void t.test('a caller that leaves while waiting leaves the queue, and costs no slot', async (t) => {
  const semaphore = semaphoreOf({ slots: 1, maxWaiting: 10, maxWaitingPerIdentity: 10 })
  const leave = await semaphore.acquire('a')
  const gone = new AbortController()
  const waiting = semaphore.acquire('b', gone.signal)
  const next = semaphore.acquire('c')
  gone.abort()
  await t.rejects(waiting, { name: 'AbortError' })
  t.equal(semaphore.waiting, 1)
  leave()
  ;(await next)()
  await t.rejects(semaphore.acquire('d', AbortSignal.abort()), { name: 'AbortError' })
  t.match(semaphore, { running: 0, waiting: 0 })
})

void t.test('X-Forwarded-For is trusted from named proxies only, and only the part that they added', async (t) => {
  const proxies = trustedProxies(['10.0.0.0/8', '192.168.1.1', 'fd00::/8'])
  const rows: readonly (readonly [string, string, readonly string[], string])[] = [
    ['no header', '1.2.3.4', [], '1.2.3.4'],
    ['a stranger says so', '1.2.3.4', ['5.6.7.8'], '1.2.3.4'],
    ['a proxy says so', '10.0.0.1', ['5.6.7.8'], '5.6.7.8'],
    ['a chain of proxies', '10.0.0.1', ['5.6.7.8, 10.0.0.2'], '5.6.7.8'],
    ['the client lies to the left', '10.0.0.1', ['9.9.9.9, 5.6.7.8'], '5.6.7.8'],
    ['in two headers', '10.0.0.1', ['9.9.9.9', '5.6.7.8'], '5.6.7.8'],
    ['nothing but proxies', '10.0.0.1', ['10.0.0.2'], '10.0.0.2'],
    ['a proxy without a header', '10.0.0.1', [], '10.0.0.1'],
    ['nonsense', '10.0.0.1', ['unknown'], '10.0.0.1'],
    ['nonsense before a proxy', '10.0.0.1', ['"; drop, 10.0.0.2'], '10.0.0.2'],
    ['an IPv4 address on an IPv6 socket', '::ffff:10.0.0.1', ['5.6.7.8'], '5.6.7.8'],
    ['IPv6', 'fd00::1', ['2001:db8::1'], '2001:db8::1'],
    ['one address of a range', '192.168.1.2', ['5.6.7.8'], '192.168.1.2'],
    ['a port, as Azure adds it', '10.0.0.1', ['5.6.7.8:51234'], '5.6.7.8'],
    ['a port after IPv6', '10.0.0.1', ['[2001:db8::1]:51234'], '2001:db8::1'],
    ['IPv6 in brackets', '10.0.0.1', ['[2001:db8::1]'], '2001:db8::1'],
    ['a proxy with a port', '10.0.0.1', ['9.9.9.9:1, 5.6.7.8:2, 10.0.0.2:3'], '5.6.7.8'],
    ['no address', '10.0.0.1', ['5.6.7.8:port'], '10.0.0.1'],
  ]
  for (const [name, peer, header, expected] of rows) t.equal(clientAddress(peer, header, proxies), expected, name)
  t.equal(clientAddress('127.0.0.1', ['5.6.7.8'], trustedProxies([])), '127.0.0.1')
})

void t.test('additional slots go to waiting requests at once; fewer slots end none', async (t) => {
  const semaphore = semaphoreOf({ slots: 1 })
  const bounds = { maxWaiting: 100, maxWaitingPerIdentity: 100 }
  const leaves = [await semaphore.acquire('a')]
  const entered = ['b', 'c', 'd'].map(async (identity) => leaves.push(await semaphore.acquire(identity)))
  semaphore.setBounds({ ...bounds, slots: 3, maxSlotsPerIdentity: 3 })
  await settled()
  t.match(semaphore, { running: 3, waiting: 1 })
  semaphore.setBounds({ ...bounds, slots: 1, maxSlotsPerIdentity: 1 })
  t.match(semaphore, { running: 3, waiting: 1 })
  leaves.shift()?.()
  leaves.shift()?.()
  await settled()
  t.match(semaphore, { running: 1, waiting: 1 }, 'no slot is free yet')
  t.equal(semaphore.tryAcquire('e'), null)
  leaves.shift()?.()
  await Promise.all(entered)
  t.match(semaphore, { running: 1, waiting: 0 })
  leaves.shift()?.()
})

import t from 'tap'
import { Semaphore } from '../../src/support/semaphore.js'
import { withDeadline } from '../../src/support/deadline.js'
import { nextTurn, VirtualClock } from './virtual-clock.js'

void t.test('a semaphore serves in order, and a permit released twice counts once', async (t) => {
  const semaphore = new Semaphore(1)
  const order: string[] = []
  const first = await semaphore.acquire()
  const second = semaphore.acquire().then((release) => (order.push('second'), release))
  const third = semaphore.acquire().then((release) => (order.push('third'), release))
  await nextTurn()
  t.strictSame(order, [])
  t.equal(semaphore.waiting, 2)
  first()
  first()
  await nextTurn()
  t.strictSame(order, ['second'])
  ;(await second)()
  ;(await third)()
  t.strictSame(order, ['second', 'third'])
})

void t.test('a caller that has become urgent goes before the others', async (t) => {
  const semaphore = new Semaphore(1)
  const order: string[] = []
  const release = await semaphore.acquire()
  let isUrgent = false
  const done = [
    semaphore.acquire().then((give) => (order.push('first'), give())),
    semaphore.acquire(undefined, () => isUrgent).then((give) => (order.push('urgent'), give())),
    semaphore.acquire().then((give) => (order.push('last'), give())),
  ]
  isUrgent = true
  release()
  await Promise.all(done)
  t.strictSame(order, ['urgent', 'first', 'last'])
})

void t.test('a caller that gives up leaves the queue', async (t) => {
  const semaphore = new Semaphore(1)
  const release = await semaphore.acquire()
  const controller = new AbortController()
  const waiting = semaphore.acquire(controller.signal)
  controller.abort(new Error('enough'))
  await t.rejects(waiting, { message: 'enough' })
  await t.rejects(semaphore.acquire(controller.signal), { message: 'enough' })
  t.equal(semaphore.waiting, 0)
  release()
  ;(await semaphore.acquire())()
})

void t.test('a deadline ends the wait for work that ignores the signal, and aborts work that does not', async (t) => {
  const clock = new VirtualClock()
  const late = (): Error => new Error('late')
  let inner: AbortSignal | null = null
  const deaf = withDeadline(clock, 100, undefined, late, (signal) => {
    inner = signal
    return new Promise<never>(() => {})
  })
  clock.advance(99)
  t.equal((inner as AbortSignal | null)?.aborted, false)
  clock.advance(1)
  await t.rejects(deaf, { message: 'late' })
  t.equal((inner as AbortSignal | null)?.aborted, true)

  const controller = new AbortController()
  const aborted = withDeadline(clock, 100, controller.signal, late, () => new Promise<never>(() => {}))
  controller.abort(new Error('enough'))
  await t.rejects(aborted, { message: 'enough' })
  await t.rejects(
    withDeadline(clock, 100, controller.signal, late, () => Promise.resolve(1)),
    { message: 'enough' },
  )

  t.equal(await withDeadline(clock, 100, undefined, late, () => Promise.resolve(1)), 1)
  t.equal(clock.pending, 0)
})

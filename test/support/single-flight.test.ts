import t from 'tap'
import { SingleFlight } from '../../src/support/single-flight.js'
import { nextTurn } from './virtual-clock.js'

/** Numbered runs that the test ends. */
function runs() {
  const open: { resolve(): void; reject(error: Error): void }[] = []
  let count = 0
  const flight = new SingleFlight(
    () =>
      new Promise<number>((resolve, reject) => {
        const number = ++count
        open.push({ resolve: () => resolve(number), reject })
      }),
  )
  return { flight, open, count: () => count }
}

void t.test('a call never joins a run that began before it', async (t) => {
  const { flight, open, count } = runs()
  const first = [flight.join(), flight.join()]
  await nextTurn()
  t.equal(count(), 1, 'calls in one turn share a run')
  const meanwhile = [flight.join(), flight.join(), flight.join()]
  open[0]!.resolve()
  t.strictSame(await Promise.all(first), [1, 1])
  await nextTurn()
  t.equal(count(), 2, 'one more for all who came in the meantime')
  const later = flight.join()
  open[1]!.resolve()
  t.strictSame(await Promise.all(meanwhile), [2, 2, 2])
  await nextTurn()
  open[2]!.resolve()
  t.equal(await later, 3)
})

void t.test('a failed run fails those who waited for it, and no others', async (t) => {
  const { flight, open } = runs()
  const first = flight.join()
  await nextTurn()
  const second = flight.join()
  open[0]!.reject(new Error('broken'))
  await t.rejects(first, { message: 'broken' })
  await nextTurn()
  open[1]!.resolve()
  t.equal(await second, 2)
})

void t.test('a caller that gives up does not end the run for the others', async (t) => {
  const { flight, open, count } = runs()
  const controller = new AbortController()
  const leaves = flight.join(controller.signal)
  await nextTurn()
  const stays = flight.join()
  controller.abort(new Error('enough'))
  await t.rejects(leaves, { message: 'enough' })
  await t.rejects(flight.join(controller.signal), { message: 'enough' })
  open[0]!.resolve()
  await nextTurn()
  open[1]!.resolve()
  t.equal(await stays, 2)
  t.equal(count(), 2)
})

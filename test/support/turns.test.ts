/** Slices of the event loop: everybody gets on, and nothing takes more than its slice before others have theirs. */
import t from 'tap'
import { Slice, Turns } from '../../src/support/turns.js'

void t.test('one turn is given in one iteration of the event loop, in the order of asking', async (t) => {
  const turns = new Turns()
  const order: string[] = []
  const work = async (name: string): Promise<void> => {
    for (let i = 0; i < 3; i++) {
      await turns.take()
      order.push(`${name}${i}`)
    }
  }
  let iterations = 0
  let isDone = false
  const count = (): void => {
    iterations++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  await Promise.all(['a', 'b', 'c'].map(work))
  isDone = true
  t.same(order, ['a0', 'b0', 'c0', 'a1', 'b1', 'c1', 'a2', 'b2', 'c2'])
  t.ok(iterations >= 9, `${iterations} iterations for 9 turns`)
})

void t.test('a turn begins a slice', async (t) => {
  const endless = new Turns(60_000)
  t.ok(endless.isOver, 'nobody has a turn before asking for one')
  await endless.take()
  t.notOk(endless.isOver)
  const none = new Turns(0)
  await none.take()
  t.ok(none.isOver)
  t.ok(new Slice(0).isOver)
  t.notOk(new Slice(60_000).isOver)
})

/** Time slices of the event loop: all work progresses, and nothing exceeds its slice before other work has its turn. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { beforeTurns, inTurns, partsOf, Slice, turns, Turns } from '../../src/support/turns.js'

const SLICE_MS = 5

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

void t.test('one turn is given per iteration of the event loop, in request order', async (t) => {
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

void t.test('turns that were given are forgotten, even if the queue is never empty', async (t) => {
  const turns = new Turns()
  let isOver = false
  const other = async (): Promise<void> => {
    while (!isOver) await turns.take()
  }
  const others = other()
  const given: WeakRef<object>[] = []
  for (let i = 0; i < 5_000; i++) {
    const turn = turns.take()
    given.push(new WeakRef(turn))
    await turn
  }
  collect()
  isOver = true
  const kept = given.filter((turn) => turn.deref() !== undefined).length
  t.ok(kept < given.length / 2, `${kept} of ${given.length} are kept`)
  await others
})

void t.test('a turn begins a slice', async (t) => {
  const endless = new Turns(() => 60_000)
  t.ok(endless.isOver, 'nobody has a turn before asking for one')
  await endless.take()
  t.notOk(endless.isOver)
  const none = new Turns(() => 0)
  await none.take()
  t.ok(none.isOver)
  t.ok(new Slice(0).isOver)
  t.notOk(new Slice(60_000).isOver)
})

void t.test('work is split into parts of about one weight, without loss', async (t) => {
  const rows = [
    [[], []],
    [[1, 2, 3], [[1, 2, 3]]],
    [
      [9, 9, 9],
      [[9, 9], [9]],
    ],
    [
      [50, 1, 50],
      [[50], [1, 50]],
    ],
    [
      [4, 4, 4, 4, 4],
      [
        [4, 4, 4],
        [4, 4],
      ],
    ],
  ] as const
  for (const [items, parts] of rows) t.same([...partsOf<number>(items, (item) => item, 10)], parts, items.join())
})

void t.test(
  'priority work runs first, once per iteration of the event loop, whatever was requested earlier',
  async (t) => {
    const order: string[] = []
    let left = 2
    const work = (): void => {
      order.push('work')
      if (--left > 0) beforeTurns(work)
    }
    const asked = [1, 2].map(async (number) => {
      await turns.take()
      order.push(`request ${number}`)
    })
    beforeTurns(work)
    await Promise.all(asked)
    t.same(order, ['work', 'request 1', 'work', 'request 2'])
    beforeTurns(() => order.push('alone'))
    await new Promise((resolve) => setImmediate(resolve))
    t.equal(order.at(-1), 'alone', 'without a request it runs as well')
    await new Promise((resolve) => setImmediate(resolve))
    t.equal(order.length, 5, 'and only once')
  },
)

void t.test('turns are short while events are being sent to watchers', async (t) => {
  let runs = 0
  beforeTurns(() => runs++)
  await turns.take()
  t.equal(runs, 1, 'what is due to watchers goes first')
  const start = performance.now()
  while (performance.now() - start < SLICE_MS / 2);
  t.ok(turns.isOver, 'half the usual time is all of it')
})

void t.test('items are processed in order, and a turn is awaited only when the slice is used up', async (t) => {
  let taken = 0
  const turns = new Turns()
  const take = turns.take.bind(turns)
  turns.take = () => {
    taken++
    return take()
  }
  let isOver = false
  Object.defineProperty(turns, 'isOver', { get: () => isOver })
  const seen: number[] = []
  for await (const item of inTurns([1, 2, 3, 4], turns)) {
    seen.push(item)
    isOver = item === 2
  }
  t.same([seen, taken], [[1, 2, 3, 4], 1])
})

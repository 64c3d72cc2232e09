/** Connections and requests start at once while there is time, and otherwise clients take turns. */
import t from 'tap'
import { ArrivalLine, Arrivals } from '../../../../src/server/transports/limits/arrival-line.js'

void t.test('arrivals start at once while there is time', (t) => {
  const arrivals = new Arrivals({ slice: { isOver: false } })
  const begun: number[] = []
  for (let i = 0; i < 3; i++) arrivals.admit(() => begun.push(i))
  t.same(begun, [0, 1, 2])
  t.equal(arrivals.waiting, 0)
  t.end()
})

void t.test('arrivals after the time is up start later, in order, and others get turns in between', async (t) => {
  let nowMs = 0
  const now = (): number => nowMs
  const slice = { isOver: true }
  const arrivals = new Arrivals({ line: new ArrivalLine(now), now, slice })
  const said: string[] = []
  // Each request continues in promises, which count as its time.
  const request = async (name: string): Promise<void> => {
    said.push(`${name} begins`)
    for (let i = 0; i < 5; i++) await Promise.resolve()
    nowMs++
    said.push(`${name} ends`)
  }
  const all = ['a', 'b', 'c', 'd'].map(
    (name) => new Promise<void>((resolve) => arrivals.admit(() => void request(name).then(resolve))),
  )
  t.equal(arrivals.waiting, 4)
  t.same(said, [], 'nothing is begun before its time')
  await iterate(() => {
    said.push('others')
    return arrivals.waiting > 0
  })
  await Promise.all(all)
  const work = said.filter((one) => one !== 'others')
  t.same(
    work,
    ['a', 'b', 'c', 'd'].flatMap((name) => [`${name} begins`, `${name} ends`]),
    'one after the other',
  )
  const between = said.slice(said.indexOf('b ends'), said.indexOf('c begins'))
  t.ok(between.includes('others'), 'two in one iteration, the next two in another')
  slice.isOver = false
  await new Promise((resolve) => setImmediate(resolve))
  arrivals.admit(() => said.push('late'))
  t.equal(said.at(-1), 'late', 'nobody waits any more')
})

void t.test('incessant arrivals start in order, and none waits twice', async (t) => {
  const count = 2_000
  const slice = { isOver: true }
  const arrivals = new Arrivals({ slice })
  const begun: number[] = []
  let most = 0
  await new Promise<void>((resolve) => {
    const admit = (i: number): boolean =>
      arrivals.admit(() => {
        begun.push(i)
        // Whenever one starts, another arrives, so that some are always waiting.
        if (i + 10 < count) admit(i + 10)
        most = Math.max(most, arrivals.waiting)
        if (begun.length === count) resolve()
      })
    for (let i = 0; i < 10; i++) admit(i)
    slice.isOver = false
  })
  t.same(
    begun,
    Array.from({ length: count }, (_, i) => i),
  )
  t.equal(most, 10)
  t.equal(arrivals.waiting, 0)
})

void t.test('a burst of one client delays only its own requests', async (t) => {
  const slice = { isOver: true }
  let nowMs = 0
  const arrivals = new Arrivals({ slice, now: () => nowMs })
  const order: string[] = []
  const arrive = (name: string, client: string, connection: string): Promise<void> =>
    new Promise((resolve) => {
      const begin = (): void => {
        nowMs += 1
        order.push(name)
        resolve()
      }
      arrivals.admit(begin, { client, connection })
    })
  const all = [
    ...Array.from({ length: 1_000 }, (_, i) => arrive(`burst${i}`, '192.0.2.1', String(i % 40))),
    arrive('neighbour', '192.0.2.1', 'its own'),
    arrive('other', '192.0.2.2', 'one'),
    arrive('other again', '192.0.2.2', 'one'),
  ]
  slice.isOver = false
  await Promise.all(all)
  t.ok(order.indexOf('other') < 4, `another address is at place ${order.indexOf('other')}`)
  t.ok(order.indexOf('other again') < 8, `and again at place ${order.indexOf('other again')}`)
  t.ok(order.indexOf('neighbour') < 100, `another connection of the address at place ${order.indexOf('neighbour')}`)
  const burst = order.filter((name) => name.startsWith('burst'))
  for (let i = 0; i < 40; i++) {
    const ofOne = burst.filter((name) => Number(name.slice(5)) % 40 === i)
    t.same(
      ofOne,
      ofOne.toSorted((a, b) => Number(a.slice(5)) - Number(b.slice(5))),
      'one connection keeps its order',
    )
  }
  t.equal(arrivals.waiting, 0)
})

void t.test('a client without waiting requests starts at once during a burst', async (t) => {
  const slice = { isOver: true }
  const arrivals = new Arrivals({ slice })
  const begun: string[] = []
  const arrive = (client: string): boolean => arrivals.admit(() => begun.push(client), { client, connection: '' })
  for (let i = 0; i < 10; i++) arrive('burst')
  slice.isOver = false
  arrive('other')
  t.same(begun, ['other'])
  arrive('burst')
  t.same(begun, ['other'], 'nothing of the burst overtakes the rest of it')
  slice.isOver = true
  arrive('another')
  t.same(begun, ['other'], 'there is no time left')
  await iterate(() => arrivals.waiting > 0)
  t.same(begun.toSorted(), ['another', ...Array<string>(11).fill('burst'), 'other'])
})

void t.test('all kinds of arrivals that wait share one slice', async (t) => {
  let nowMs = 0
  const now = (): number => nowMs
  const line = new ArrivalLine(now)
  const kinds = Array.from({ length: 5 }, () => new Arrivals({ line, now, slice: { isOver: true } }))
  const begun = kinds.map(() => 0)
  const cost = 0.05
  for (const [kind, arrivals] of kinds.entries()) {
    // The last have little to do, and leave their time to the others.
    for (let i = 0; i < (kind < 3 ? 200 : 3); i++) {
      arrivals.admit(() => {
        nowMs += cost
        begun[kind]!++
      })
    }
  }
  const passed: number[] = []
  await iterate(() => {
    passed.push(nowMs)
    return kinds.some(({ waiting }) => waiting > 0)
  })
  t.same(begun, [200, 200, 200, 3, 3])
  const longest = Math.max(...passed.map((at, i) => at - (passed[i - 1] ?? 0)))
  t.ok(longest < 2 + kinds.length * cost, `${longest} ms in one iteration`)
  t.ok(passed.length < 25, `all of it takes ${passed.length} iterations`)
})

void t.test('a request passes all kinds of arrivals in one iteration, although a burst waits for each', async (t) => {
  let iteration = 0
  let nowMs = 0
  const now = (): number => nowMs
  const line = new ArrivalLine(now)
  // Each kind takes longer than the one before, so some of the burst wait for each.
  const kinds = [0.04, 0.06, 0.08].map((cost) => ({
    arrivals: new Arrivals({ line, now, slice: { isOver: true } }),
    cost,
  }))
  const pass = (client: string, seen: number[], kind = 0): void => {
    const next = kinds[kind]
    const begin = (): void => {
      nowMs += next!.cost
      seen.push(iteration)
      pass(client, seen, kind + 1)
    }
    next?.arrivals.admit(begin, { client, connection: '' })
  }
  const burst: number[] = []
  for (let i = 0; i < 1_000; i++) pass('burst', burst)
  const others: number[][] = []
  await iterate((i) => {
    iteration = i
    if (i >= 10 && i < 30 && i % 2 === 0) {
      others.push([])
      pass('other', others.at(-1)!)
    }
    return burst.length < 3_000
  })
  t.equal(burst.length, 3_000)
  t.equal(others.length, 10)
  for (const seen of others) t.ok(seen.length === 3 && seen[0] === seen[2], `in the iterations ${seen.join(', ')}`)
})

void t.test('when too many wait, only clients with their full share are rejected', async (t) => {
  const slice = { isOver: true }
  const arrivals = new Arrivals({ slice, mostWaiting: 100 })
  const begun: string[] = []
  const arrive = (client: string): boolean =>
    arrivals.admit(() => begun.push(client), { client, connection: 'its only one' })
  let accepted = 0
  for (let i = 0; i < 1_000; i++) if (arrive('flood')) accepted++
  t.equal(accepted, 100, 'one client fills the queue, and no more')
  t.equal(arrivals.turnOf({ client: 'flood', connection: 'another' }), null, 'whichever way it comes')
  for (let i = 0; i < 50; i++) t.ok(arrive(`client ${i}`), 'others are let in')
  t.notOk(arrive('flood'))
  let total = arrivals.waiting
  for (let i = 50; i < 1_000; i++) if (arrive(`client ${i}`)) total++
  t.equal(arrivals.waiting, 200, 'a thousand others are too many as well')
  t.equal(total, 200)
  slice.isOver = false
  while (arrivals.waiting > 0) await new Promise((resolve) => setImmediate(resolve))
  t.equal(begun.length, 200, 'who was let in is begun')
  t.ok(arrive('flood'))
})

void t.test('waiters for one event continue one after the other, as many as there is time for', async (t) => {
  let nowMs = 0
  const now = (): number => nowMs
  const arrivals = new Arrivals({ line: new ArrivalLine(now), now, slice: { isOver: false } })
  let open = (): void => {}
  const gate = new Promise<void>((resolve) => (open = resolve))
  const order: string[] = []
  const waiter = async (client: string, number: number): Promise<void> => {
    await gate
    await arrivals.turn({ client, connection: '' })
    // The request's promises count as its time.
    await Promise.resolve()
    nowMs += 0.5
    order.push(`${client} ${number}`)
  }
  const numbers = Array.from({ length: 20 }, (_, i) => i)
  const all = [...numbers.map((i) => waiter('many', i)), waiter('one', 0)]
  const perIteration: number[] = []
  await iterate((i) => {
    if (i === 1) open()
    perIteration.push(order.length)
    return order.length < all.length
  })
  await Promise.all(all)
  t.same(order.slice(0, 2), ['many 0', 'one 0'], 'the first of each client continues at once')
  t.same(
    order.toSpliced(1, 1),
    numbers.map((i) => `many ${i}`),
  )
  const most = Math.max(...perIteration.map((length, i) => length - (perIteration[i - 1] ?? 0)))
  t.ok(most <= 6, `${most} in one iteration`)
  t.equal(arrivals.waiting, 0)
})

/** Calls back once per iteration of the event loop, while something is to be done. */
async function iterate(each: (iteration: number) => boolean): Promise<void> {
  for (let i = 0; i < 2_000 && each(i); i++) await new Promise((resolve) => void setImmediate(resolve))
}

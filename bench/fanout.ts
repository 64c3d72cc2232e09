/**
 * Question: what does one delivery cost, and how long does it take from the put of an event until a watcher has its
 * bytes?
 *
 * It measures combinations of watchers, rate and wire, with etcd's own three interfaces and the limit for comparison. A
 * `saturated` run writes as fast as the fan-out can deliver, so the writer stays at most WINDOW events ahead of the
 * watchers' average. In such a run, each send of the limit carries as many events as one write of the server did. In a
 * paced run, the limit sends one event at a time at the same pace.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { sleep, usage } from './support/processes.js'
import { withScene } from './support/scene.js'
import type { RunOptions } from './support/source.js'

/** Large enough that one write can carry tens of events, and small enough that no backlog builds up. */
const WINDOW = 200

/** The gateway cannot serve more watchers at any of our rates, so with more of them the bench would only wait. */
const GATEWAY_WATCHERS = 1_000

const usual = [
  'distributary',
  'etcd',
  'grpc-proxy',
  'apiserver',
  'bare-node',
  'limit', // last: its sends have the sizes of ours
]

export const fanout: Question = async (choice) => {
  const counts = choice.watchers.length > 0 ? choice.watchers : choice.quick ? [50] : [1, 100, 1_000, 5_000, 10_000]
  const rates = choice.rates.length > 0 ? choice.rates : [20, 0]
  for (const watchers of counts) {
    for (const rate of rates) {
      let eventsPerWrite = 1
      for (const target of targets(choice, usual)) {
        if (target.wire === 'json-gateway' && watchers > GATEWAY_WATCHERS && choice.subjects.length === 0) continue
        // 10,000 watchers × 20 events/s is more than any subject can deliver on one core, so the paced rate is 5 there.
        const paced = rate > 0 && watchers >= 5_000 && choice.rates.length === 0 ? 5 : rate
        const row = { question: 'fanout', subject: target.kind.name, wire: target.wire, watchers, rate: paced }
        await attempt(choice, row, async () => {
          const per = await one(choice, target, watchers, paced, eventsPerWrite)
          if (target.kind.name === 'distributary' && target.wire === 'http1' && rate === 0) {
            eventsPerWrite = Math.max(1, Math.round(per))
          }
        })
      }
    }
  }
}

/** Returns the number of deliveries in one write of the subject. */
async function one(
  choice: Choice,
  target: Target,
  watchers: number,
  rate: number,
  eventsPerWrite: number,
): Promise<number> {
  const seconds = choice.seconds ?? (choice.quick ? 2 : 10)
  return withScene(
    { ...choice, ...target, watchers, objects: { count: 100, nodes: 100, bytes: 1024 } },
    async ({ subject, source, openWatchers }) => {
      const idle = usage(subject.pid).residentBytes
      const opened = await openWatchers()
      const open = usage(subject.pid).residentBytes
      const run: RunOptions = { rate, count: 1e9, ms: 0, window: WINDOW, watchers: opened.count, eventsPerWrite }
      const warm = await source.run({ ...run, ms: choice.quick ? 500 : 2_000 })
      await opened.caughtUp(warm.next, 60_000)
      await sleep(200)
      const stretch = await measureStretch({ subject, source, watchers: opened, run: { ...run, ms: seconds * 1000 } })
      const columns = stretchColumns(stretch)
      choice.recorder.row({
        question: 'fanout',
        subject: subject.name,
        wire: subject.wire,
        watchers: opened.count,
        load: rate > 0 ? 'paced' : 'saturated',
        rate,
        window: rate > 0 ? null : WINDOW,
        serverFlags: target.kind.name === 'distributary' ? choice.serverFlags.join(' ') : '',
        eventsPerSend: subject.source ? eventsPerWrite : null,
        openedMs: opened.openedMs,
        kbPerWatcher: (open - idle) / 1024 / opened.count,
        ...columns,
        ...(subject.source ? { deliveriesPerWrite: eventsPerWrite } : {}), // `send` is not in /proc's count
      })
      return Number(columns['deliveriesPerWrite'] ?? columns['deliveriesPerRead'])
    },
  )
}

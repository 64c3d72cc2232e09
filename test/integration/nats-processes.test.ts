/**
 * A fleet of processes whose parts are killed, stopped and cut off one after another: watchers hop between replicas,
 * and what they saw together satisfies every guarantee. No replica loses history, so no watcher has to start over.
 */
import t from 'tap'
import { startFleet } from '../fleet/fleet-scenario.js'
import { pause } from '../support/until.js'

void t.test(
  'whichever part of a fleet fails, every guarantee holds for watchers that hop between its replicas',
  async (t) => {
    const s = await startFleet(t)
    s.startLoad()
    const started = performance.now()
    const step = async (name: string, work: () => Promise<unknown>): Promise<void> => {
      await work()
      await pause(150)
      t.comment(`${name}: ${Math.round(performance.now() - started)} ms`)
    }
    let publisher = await s.publisher()
    let restarting = Promise.resolve()
    await step('kill -9 of the publisher', async () => {
      await s.kill(publisher)
      const next = await s.publisher()
      t.not(next.name, publisher.name, 'another one publishes')
      await s.restart(publisher)
      publisher = next
    })
    await step('the publisher is stopped past its lease, and wakes up: two believe that they are it', async () => {
      await s.freeze(publisher)
      publisher = await s.publisher()
    })
    await step('kill -9 of an edge', async () => {
      await s.kill(s.edges[0]!)
      await pause(100)
      restarting = s.restart(s.edges[0]!)
    })
    await step('kill -9 of one nats-server of three', async () => {
      await s.nats[1]!.kill()
      await pause(600)
      await s.nats[1]!.restart()
    })
    await step('nats-servers do not hear each other', () => s.cutOff(s.between(0, 2), 'silence', 700))
    await step('an edge and NATS do not hear each other', () => s.cutOff(s.edges[1]!.toNats, 'silence', 600))
    await step('the publisher cannot reach etcd', () => s.cutOff([publisher.toEtcd!], 'refusal', 500))
    await step('the publisher and NATS do not hear each other', () => s.cutOff(publisher.toNats, 'silence', 1_800))
    await step('connections break', async () => {
      for (const { toNats, toEtcd } of s.replicas) for (const link of [...toNats, toEtcd]) link?.cut()
      await Promise.resolve()
    })
    await restarting
    const last = await s.settle()
    t.same(await s.checkConsistency(), ['equal', 'equal', 'equal', 'equal'])
    const violations = await s.violations(last)
    const history = s.history()
    const events = history.watches.reduce((sum, { items }) => sum + items.length, 0)
    t.same(
      violations.slice(0, 20),
      [],
      `${events} items in ${history.watches.length} watches, ${history.lists.length} lists`,
    )
    t.same(s.unexpected, [])
    t.same(
      history.watches.flatMap(({ code }) => code ?? []).filter((code) => code === 410),
      [],
      'nobody had to start afresh',
    )
    t.ok(history.watches.length > 30 && history.lists.length > 10 && events > 500)
  },
)

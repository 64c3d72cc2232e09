/** The metrics of several processes in one scrape. */
import t from 'tap'
import { Metrics } from '../../../src/server/metrics/metrics.js'
import { PODS } from '../../support/objects.js'

/** Returns what a worker in which these metrics have these values returns. */
async function collected(metrics: Metrics, values: Readonly<Record<string, number>>): Promise<string> {
  interface Changed {
    readonly name: string
    readonly values: { value: number }[]
  }
  const all = JSON.parse(await metrics.collect()) as Changed[]
  for (const { name, values: series } of all) if (name in values) series[0]!.value = values[name]!
  return JSON.stringify(all)
}

const valueOf = (text: string, name: string): number =>
  Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.split(' ')[1],
  )

void t.test('a process near its own limit shows, however idle the others are', async (t) => {
  const primary = new Metrics('0')
  const limits = { process_max_fds: 1_000, distributary_heap_limit_bytes: 4e12 }
  const workers = [
    await collected(new Metrics('0'), {
      ...limits,
      process_open_fds: 990_000,
      nodejs_heap_size_used_bytes: 3.9e12,
      nodejs_eventloop_lag_p99_seconds: 70,
      distributary_event_loop_delay_seconds: 80,
    }),
    await collected(new Metrics('0'), limits),
  ]
  const text = await primary.merge(workers)
  t.equal(valueOf(text, 'nodejs_heap_size_used_bytes'), 3.9e12)
  t.equal(valueOf(text, 'distributary_heap_limit_bytes'), 4e12)
  t.equal(valueOf(text, 'process_open_fds'), 990_000)
  const own = (await primary.expose()).text
  t.equal(valueOf(text, 'process_max_fds'), Math.max(1_000, valueOf(own, 'process_max_fds')))
  t.equal(valueOf(text, 'nodejs_eventloop_lag_p99_seconds'), 70)
  t.equal(valueOf(text, 'distributary_event_loop_delay_seconds'), 80)
})

void t.test('what ended processes counted stays in the sums, while their resource is served', async (t) => {
  const primary = new Metrics('0')
  const nodes = { ...PODS, plural: 'nodes' }
  const worker = async (): Promise<string> => {
    const metrics = new Metrics('0')
    for (const resource of [PODS, nodes]) {
      const { resumeExpired, listBytes } = metrics.forResource(resource)
      resumeExpired(3)
      listBytes(5_000)
    }
    metrics.process.initialStates(7)
    return await metrics.collect()
  }
  primary.keepCounts(await worker())
  primary.keepCounts(await worker())
  const expired = (plural: string): string => `distributary_watch_resumes_expired_total{group="",resource="${plural}"}`
  const text = await primary.merge([await worker()])
  t.equal(valueOf(text, expired('pods')), 9)
  t.equal(valueOf(text, 'distributary_list_bytes_count{group="",resource="nodes"}'), 3)
  t.equal(valueOf(text, 'distributary_list_bytes_bucket{group="",resource="nodes",le="10000"}'), 3)
  t.equal(valueOf(text, 'distributary_initial_states'), 7, 'but not what was in progress')
  primary.forget(PODS)
  const after = await primary.merge([])
  t.equal(valueOf(after, expired('nodes')), 6)
  t.notMatch(after, expired('pods'))
})

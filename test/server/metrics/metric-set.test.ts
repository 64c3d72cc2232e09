import { AggregatorRegistry, Counter, Gauge, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { announced, counter, gauge, inProgress, only, seconds } from '../../../src/engine/model/metric.js'
import { MetricSet } from '../../../src/server/metrics/metric-set.js'

const buckets = [0.1, 1, 10]
const delay = seconds<[path: 'near' | 'far']>('delay_seconds', 'Help.', 'path')
const table = {
  events: counter('events_total', 'Help.'),
  ended: announced(counter<[reason: 'closed' | 'error']>('ended_total', 'Help.', 'reason'), ['error']),
  delay: { ...only(delay, 'near'), buckets },
  size: gauge('max', 'size', 'Help.'),
}

void t.test('a scrape and the sum over workers equal prom-client’s', async (t) => {
  const set = new MetricSet()
  const ours = set.declare(table, ['group', 'resource'])
  const theirs = new Registry()
  const options = { help: 'Help.', labelNames: ['group', 'resource'], registers: [theirs] }
  const events = new Counter({ ...options, name: 'distributary_events_total' })
  const ended = new Counter({
    ...options,
    name: 'distributary_ended_total',
    labelNames: ['group', 'resource', 'reason'],
  })
  const delays = new Histogram({
    ...options,
    name: 'distributary_delay_seconds',
    labelNames: ['group', 'resource', 'path'],
    buckets,
  })
  const size = new Gauge({ ...options, name: 'distributary_size', aggregator: 'max' })
  for (const resource of ['pods', 'nodes']) {
    const labels = { group: '', resource }
    const recorders = ours(['', resource])
    ended.inc({ ...labels, reason: 'error' }, 0)
    for (const value of [0.05, 0.1, 0.11, 1, 5, 10, 10.5]) {
      recorders.delay(value)
      delays.observe({ ...labels, path: 'near' }, value)
    }
    recorders.events(2)
    recorders.events()
    events.inc(labels, 3)
    recorders.ended('closed')
    ended.inc({ ...labels, reason: 'closed' })
    for (const value of [7, 4]) {
      recorders.size(value)
      size.set(labels, value)
    }
  }
  t.same(lines(await set.registry.metrics()), lines(await theirs.metrics()))
  const summed = async (registry: Registry): Promise<string[]> => {
    const one = JSON.parse(JSON.stringify(await registry.getMetricsAsJSON())) as object[]
    return lines(await AggregatorRegistry.aggregate([one, one]).metrics())
  }
  t.same(await summed(set.registry), await summed(theirs))
})

void t.test('a series that is dropped is gone, and begins at zero when something is recorded again', async (t) => {
  const set = new MetricSet()
  const [pods, nodes] = ['pods', 'nodes'].map((resource) => set.declare(table, ['group', 'resource'])(['', resource]))
  for (const { events, delay, ended } of [pods!, nodes!]) {
    events()
    delay(0.5)
    ended('closed')
  }
  set.retain(({ resource }) => resource !== 'pods')
  t.notMatch(await set.registry.metrics(), 'resource="pods"')
  t.match(await set.registry.metrics(), 'distributary_events_total{group="",resource="nodes"} 1')
  pods!.events(3)
  t.match(await set.registry.metrics(), 'distributary_events_total{group="",resource="pods"} 3')
})

void t.test('metrics without labels exist before they are recorded, others do not', async (t) => {
  const set = new MetricSet()
  const { slice, running } = set.open({ slice: seconds('slice_seconds', 'Help.'), running: inProgress('running', '') })
  set.declare(table, ['group', 'resource'])(['apps', 'unseen'])
  const before = await set.registry.metrics()
  t.match(before, 'distributary_slice_seconds_count 0')
  t.notMatch(before, 'distributary_events_total{')
  slice(0.5)
  running(1)
  running(2)
  running(-1)
  const after = await set.registry.metrics()
  t.match(after, 'distributary_slice_seconds_bucket{le="0.5"} 1')
  t.match(after, 'distributary_running 2')
})

void t.test('series that are read: gauges come and go, and counters never fall', async (t) => {
  const set = new MetricSet()
  const rows = {
    sent: counter('sent_total', ''),
    sealed: gauge<[key: string]>('max', 'sealed', '', 'key'),
    watchers: gauge<[transport: string, state: string]>('sum', 'watchers', '', 'transport', 'state'),
  }
  const sealed = new Map([['key of 2026', 1]])
  const take = set.declareRead(rows, ['resource'])
  take([[['pods'], { sent: 5, sealed, watchers: new Map([['sse active', 2]]) }]])
  take([[['pods'], { sent: 8, sealed, watchers: new Map([['http1 lagging', 1]]) }]])
  // The source has started over.
  take([[['pods'], { sent: 2, sealed, watchers: new Map([['http1 lagging', 1]]) }]])
  const text = await set.registry.metrics()
  t.match(text, 'distributary_sent_total{resource="pods"} 10')
  t.match(text, 'distributary_watchers{resource="pods",transport="http1",state="lagging"} 1')
  t.match(text, 'distributary_sealed{resource="pods",key="key of 2026"} 1')
  t.notMatch(text, 'sse')
  take([])
  t.match(await set.registry.metrics(), 'distributary_sent_total{resource="pods"} 10')
  t.notMatch(await set.registry.metrics(), 'distributary_watchers{')
})

/** The lines, each with sorted labels. */
function lines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.replace(/\{(.*)\}/, (_, labels: string) => `{${labels.split(',').sort().join(',')}}`))
    .filter((line) => line !== '')
    .sort()
}

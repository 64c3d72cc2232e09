import { AggregatorRegistry, Counter, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { HotCounter, HotHistogram } from '../../../src/server/metrics/hot-metrics.js'

const buckets = [0.1, 1, 10]
const observations = [0.05, 0.1, 0.11, 1, 5, 10, 10.5]
const options = { help: 'Help.', labelNames: ['group', 'resource'] as const }
const pods = { group: '', resource: 'pods' }
const nodes = { group: '', resource: 'nodes' }

void t.test('a scrape and the sum over workers equal prom-client’s', async (t) => {
  const hot = new Registry()
  const cold = new Registry()
  const hotCounter = new HotCounter(hot, { ...options, name: 'events_total' })
  const counter = new Counter({ ...options, name: 'events_total', registers: [cold] })
  const hotHistogram = new HotHistogram(hot, { ...options, name: 'delay_seconds' }, buckets)
  const histogram = new Histogram({ ...options, name: 'delay_seconds', buckets, registers: [cold] })
  hotHistogram.labels({ group: 'apps', resource: 'unseen' })
  hotCounter.labels({ group: 'apps', resource: 'unseen' })
  for (const labels of [pods, nodes]) {
    const observe = hotHistogram.labels(labels)
    for (const value of observations) {
      observe(value)
      histogram.observe(labels, value)
    }
    hotCounter.labels(labels)(2)
    hotCounter.labels(labels)(3)
    counter.inc(labels, 5)
  }
  t.equal(hotCounter.total(), 10)
  t.same(lines(await hot.metrics()), lines(await cold.metrics()))
  const summed = async (registry: Registry): Promise<string[]> => {
    const one = JSON.parse(JSON.stringify(await registry.getMetricsAsJSON())) as object[]
    return lines(await AggregatorRegistry.aggregate([one, one]).metrics())
  }
  t.same(await summed(hot), await summed(cold))
})

void t.test('a histogram without labels exists before its first observation', async (t) => {
  const registry = new Registry()
  const observe = new HotHistogram(registry, { help: 'Help.', name: 'slice_seconds', labelNames: [] }, buckets).labels(
    {},
  )
  t.match(await registry.metrics(), 'slice_seconds_count 0')
  observe(0.5)
  t.match(await registry.metrics(), 'slice_seconds_bucket{le="1"} 1')
})

/** The lines, each with sorted labels. */
function lines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.replace(/\{(.*)\}/, (_, labels: string) => `{${labels.split(',').sort().join(',')}}`))
    .filter((line) => line !== '')
    .sort()
}

/** docs/reference/metrics.md, generated from the registry. */
import { Metrics } from '../../src/server/metrics/metrics.js'

interface Described {
  readonly name: string
  readonly help: string
  readonly type: unknown
}

export async function metricsPage(): Promise<string> {
  const { registry } = new Metrics('0.0.0')
  const all = (await registry.getMetricsAsJSON()) as unknown as readonly Described[]
  const labels = (name: string): string => {
    const metric = registry.getSingleMetric(name) as unknown as { labelNames?: readonly string[] } | undefined
    return (metric?.labelNames ?? []).map((label) => `\`${label}\``).join(', ')
  }
  const table = (metrics: readonly Described[]): string[] => [
    '| metric | type | labels | |',
    '| --- | --- | --- | --- |',
    ...metrics.map(({ name, type, help }) => `| \`${name}\` | ${String(type)} | ${labels(name)} | ${help} |`),
    '',
  ]
  return [
    '# Metrics',
    '',
    '<!-- Generated from src/server/metrics/ by `npm run generate`. -->',
    '',
    'The server exposes these at `/metrics` in Prometheus’ text format. Only the operator and the code choose label values,',
    'never a client, so the number of series does not grow with the number of watchers. `group` is empty for the core group.',
    '`deploy/prometheus/` has rules and alerts, each alert has a [page](../guide/alerts/README.md), and `deploy/grafana/` has the',
    'dashboard.',
    '',
    'With `--workers`, one scrape covers all processes, and counters include what ended workers had counted. The delay of the event',
    'loop, the heap and the descriptors are those of the process with the highest value.',
    '',
    ...table(all.filter(({ name }) => name.startsWith('distributary_'))),
    '## Process metrics',
    '',
    ...table(all.filter(({ name }) => !name.startsWith('distributary_'))),
  ].join('\n')
}

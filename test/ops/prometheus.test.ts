import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { parse } from 'yaml'
import { Metrics } from '../../src/server/metrics/metrics.js'
import { LIMITS } from '../../src/server/limits/limit.js'
import { repository } from '../docs/owner.js'
import { filledIn, readDashboard } from './support/dashboard.js'
import { promtoolBinary, startPrometheus } from './support/prometheus.js'
import { root, startServerProcess } from './support/server-process.js'

interface Rule {
  readonly record?: string
  readonly alert?: string
  readonly expr: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

const text = (path: string): string => readFileSync(join(root, path), 'utf8')
const rules = (parse(text('deploy/prometheus/rules.yaml')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
)
const alerts = rules.filter((rule) => rule.alert !== undefined)
const records = rules.filter((rule) => rule.record !== undefined)
const dashboard = readDashboard()
const panels = dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))

/** Queries name the parts of a histogram. */
function metricsIn(expression: string): string[] {
  const names = filledIn(expression, '3s')
    .replace(/"[^"]*"/g, '')
    .match(/(?<![\w:])(?:distributary|nodejs|process)_\w+(?![\w:])/g)
  return (names ?? []).map((name) => name.replace(/_(bucket|sum|count)$/, ''))
}

function promtool(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(promtoolBinary, args, { encoding: 'utf8', cwd: root })
  return { status, output: stdout + stderr }
}

void t.test('promtool accepts the rules and the configuration', async (t) => {
  const { status, output } = promtool('check', 'rules', 'deploy/prometheus/rules.yaml')
  t.equal(status, 0, output)
  t.match(output, `SUCCESS: ${rules.length} rules found`)
  for (const file of ['prometheus.yaml', 'local.yaml']) {
    const config = promtool('check', 'config', `deploy/prometheus/${file}`)
    t.equal(config.status, 0, config.output)
  }
})

void t.test('each alert fires when it should and is silent before (promtool test rules)', async (t) => {
  const { status, output } = promtool('test', 'rules', 'deploy/prometheus/rules.test.yaml')
  t.equal(status, 0, output)
  const tests = text('deploy/prometheus/rules.test.yaml')
  for (const { alert } of alerts) {
    const fires = new RegExp(`alertname: ${alert}\\n        exp_alerts:\\n          - exp_labels`)
    const silent = new RegExp(`alertname: ${alert}\\n      - eval_time`)
    t.match(tests, fires, `${alert} is seen to fire`)
    t.match(tests, silent, `${alert} is seen to be silent`)
  }
})

void t.test('each alert has a page, and each page an alert', async (t) => {
  const pages = readdirSync(join(root, 'docs/guide/alerts')).filter((file) => file !== 'README.md')
  t.same(pages.sort(), alerts.map(({ alert }) => `${alert}.md`).sort())
  for (const { alert, labels, annotations } of alerts) {
    t.match(labels?.['severity'], /^(critical|warning|info)$/)
    t.equal(annotations?.['runbook_url'], `https://github.com/${repository()}/blob/main/docs/guide/alerts/${alert}.md`)
    t.ok(annotations?.['summary'])
    t.match(text(`docs/guide/alerts/${alert}.md`), new RegExp(`^# ${alert}\n`))
    t.match(text('docs/guide/alerts/README.md'), `${alert}.md`)
    const page = text(`docs/guide/alerts/${alert}.md`)
    for (const section of ['What users see', 'What to look at', 'What to do', 'What not to do']) {
      t.match(page, new RegExp(`\\*\\*${section}\\.?\\*\\*`), `${alert}: ${section}`)
    }
  }
})

void t.test('the command on the page of alerts moves every address of a runbook', async (t) => {
  const [command] = /(?<=`)sed '.*(?=`)/.exec(text('docs/guide/alerts/README.md'))!
  const moved = execFileSync('sh', ['-c', command!], { cwd: root, encoding: 'utf8' })
  t.notMatch(moved, 'https://github.com')
  t.equal(moved.match(/runbook_url: https:\/\/wiki\.example\/runbooks\/\w+\.md$/gm)?.length, alerts.length)
})

void t.test('runbooks name only metrics that exist', async (t) => {
  const known = new Set(
    new Metrics('0').registry.getMetricsAsArray().map(({ name }: { readonly name: string }) => name),
  )
  for (const file of readdirSync(join(root, 'docs/guide/alerts'))) {
    for (const [name] of text(`docs/guide/alerts/${file}`).matchAll(/\bdistributary_\w+/g)) {
      t.ok(known.has(name.replace(/_(bucket|sum|count)$/, '')), `${file}: ${name}`)
    }
  }
})

void t.test('the page of DistributaryRefusing has a row for every limit, and no other', async (t) => {
  const rows = text('docs/guide/alerts/DistributaryRefusing.md').matchAll(/^ {3}\| (`.*?`) \|/gm)
  const named = [...rows]
    .flatMap(([, cell]) => cell!.replaceAll('`', '').split(', '))
    .filter((name) => name !== 'limit')
  t.same(named.sort(), [...LIMITS].sort())
  t.ok(rules.every(({ expr }) => [...expr.matchAll(/limit="([^"]*)"/g)].every(([, limit]) => named.includes(limit!))))
  const tested = text('deploy/prometheus/rules.test.yaml').matchAll(/limit="([^"]*)"/g)
  for (const [, limit = ''] of tested) t.ok(named.includes(limit), limit)
})

void t.test('rules and panels query only metrics that exist', async (t) => {
  const known = new Set(
    new Metrics('0').registry.getMetricsAsArray().map(({ name }: { readonly name: string }) => name),
  )
  for (const { title, expr } of [
    ...rules.map(({ record, alert, expr }) => ({ title: record ?? alert ?? '', expr })),
    ...panels,
  ]) {
    for (const name of metricsIn(expr)) t.ok(known.has(name), `${title}: ${name}`)
  }
  for (const { name, query } of dashboard.templating.list) {
    for (const metric of metricsIn(typeof query === 'string' ? query : query.query)) t.ok(known.has(metric), name)
  }
  const recorded = new Set(records.map(({ record }) => record))
  for (const { alert, expr } of alerts) {
    for (const name of expr.match(/instance\w*:\w+:\w+/g) ?? []) t.ok(recorded.has(name), `${alert}: ${name}`)
  }
})

/** Nothing of this kind happens to a healthy server: the response is empty, but must be valid. */
const MAY_BE_EMPTY =
  /code=~"401|authentication|authorization|webhook|passthrough|etcd_request|relists_total|reconnects|watchers_ended|rejected_total|initialization_errors|resumes_expired|compactions|events_dropped|read_wait|distributary_fleet_/

void t.test('a real Prometheus scrapes a server under load, and rules and dashboard return numbers', async (t) => {
  const server = await startServerProcess(t)
  const prometheus = await startPrometheus(t, new URL(server.url).host)
  const stop = new AbortController()
  t.teardown(() => stop.abort())
  const watches = ['pods', 'pods', 'nodes', 'events'].map(async (plural) => {
    const reply = await fetch(`${server.url}/api/v1/${plural}?watch=1`, { signal: stop.signal })
    for await (const _ of reply.body!) if (stop.signal.aborted) return
  })
  const lists = (async () => {
    while (!stop.signal.aborted) {
      await (await fetch(`${server.url}/api/v1/pods?resourceVersion=0`)).arrayBuffer()
      await (await fetch(`${server.url}/api/v1/pods`)).arrayBuffer()
      const written = await fetch(`${server.url}/api/v1/namespaces/default/configmaps/load?fieldManager=load`, {
        method: 'PATCH',
        headers: { 'content-type': 'application/apply-patch+yaml' },
        body: JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', data: { at: String(Date.now()) } }),
      })
      await written.arrayBuffer()
      await delay(50)
    }
  })()

  const answers = async (expression: string): Promise<readonly number[]> =>
    (await prometheus.query(expression)).map(({ value }) => Number(value[1]))
  const within = async (expression: string, check: (values: readonly number[]) => boolean): Promise<boolean> => {
    for (let i = 0; i < 100; i++) {
      if (check(await answers(expression))) return true
      await delay(200)
    }
    return false
  }
  t.ok(await within('up', ([up]) => up === 1), 'it is scraped')
  t.ok(await within('instance:distributary_watchers:sum', ([watchers]) => (watchers ?? 0) >= 4), 'watchers are counted')
  t.ok(await within('rate(distributary_broadcast_events_sent_total{resource="pods"}[3s])', (v) => v.some((x) => x > 0)))

  // The demo's writer changes something about every second: each response is awaited, within a limit.
  const someNumber = (values: readonly number[]): boolean => values.some((value) => !Number.isNaN(value))
  // The queries run at the same time, each with its own wait.
  await Promise.all([
    ...records.map(async ({ record, expr }) => {
      t.ok(await within(expr.replaceAll(/\[\d+m\]/g, '[5s]'), someNumber), `${record} is a number`)
      if (!/rate1m|ratio|p99/.test(record!)) t.ok(await within(record!, someNumber), `${record} is recorded`)
    }),
    ...panels.map(async ({ title, expr }) => {
      const query = filledIn(expr, '3s')
      if (MAY_BE_EMPTY.test(query)) await answers(query)
      else t.ok(await within(query, someNumber), `${title}: ${query}`)
    }),
  ])
  for (const { alert, expr } of alerts) {
    await t.resolves(answers(expr), `${alert} can be asked`)
  }
  const loaded = (await prometheus.get('/api/v1/rules')) as {
    groups: { rules: { name: string; health: string; lastError?: string; state?: string }[] }[]
  }
  for (const { name, health, lastError, state } of loaded.groups.flatMap((group) => group.rules)) {
    t.equal(health, 'ok', `${name}: ${lastError}`)
    // On a busy machine a late scrape makes an alert pending.
    t.not(state, 'firing', `${name}: a server that is well raises no alert`)
  }
  stop.abort()
  await Promise.allSettled([...watches, lists])
  t.equal(await server.stop(), 0)
})

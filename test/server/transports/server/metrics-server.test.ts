/** Tests `--metrics-bind-address` (issue 22): a port that answers metrics and health, and nothing else. */
import { writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { type IncomingMessage, type RequestOptions, request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'

async function ask(url: string, options: RequestOptions = {}): Promise<{ code: number; text: string }> {
  const [answer] = (await once(request(url, { agent: false, ...options }).end(), 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) text += chunk as string
  return { code: answer.statusCode ?? 0, text }
}

void t.test(
  'the metrics port answers metrics and health without credentials, and everything else with 404',
  async (t) => {
    const tokens = join(t.testdir(), 'tokens.csv')
    writeFileSync(tokens, 'secret,alice,1\n')
    const h = await startApp(t, {
      flags: ['--metrics-bind-address', '127.0.0.1:0', '--token-auth-file', tokens],
      objects: { 'pods/default/a': pod('a') },
    })
    const { metricsUrl } = h
    t.equal((await ask(`${h.url}/metrics`)).code, 401, 'the port of the API asks who it is')
    const scrape = await ask(`${metricsUrl}/metrics`)
    t.equal(scrape.code, 200)
    t.match(scrape.text, 'distributary_cache_objects{group="",resource="pods"} 1')
    for (const path of ['/livez', '/readyz', '/healthz', '/readyz/ping', '/readyz?verbose']) {
      t.equal((await ask(metricsUrl + path)).code, 200, path)
    }
    t.same(await ask(`${metricsUrl}/metrics`, { method: 'HEAD' }), { code: 200, text: '' })
    for (const path of ['/', '/api', '/api/v1/pods', '/apis', '/version', '/openapi/v2', '/ui/', '/ui/events']) {
      t.equal((await ask(metricsUrl + path)).code, 404, path)
    }
    for (const path of ['/consistency-check', '/metrics', '/api/v1/pods']) {
      for (const method of ['POST', 'OPTIONS'])
        t.equal((await ask(metricsUrl + path, { method })).code, 404, `${method} ${path}`)
    }
  },
)

void t.test('the metrics port serves nothing else, even with --passthrough', async (t) => {
  const { metricsUrl } = await startApp(t, {
    flags: ['--metrics-bind-address', '127.0.0.1:0', '--passthrough', 'http://127.0.0.1:9'],
  })
  t.equal((await ask(`${metricsUrl}/anything`)).code, 404)
  t.equal((await ask(`${metricsUrl}/metrics`)).code, 200)
})

void t.test('a page whose name resolves to the metrics port cannot read it', async (t) => {
  const h = await startApp(t, {
    flags: ['--metrics-bind-address', '127.0.0.1:0', '--allowed-hosts', 'scraped.example'],
  })
  const codeFor = async (host: string, path = '/metrics'): Promise<number> =>
    (await ask(h.metricsUrl + path, { headers: { host } })).code
  t.equal(await codeFor('evil.example'), 403)
  t.equal(await codeFor('scraped.example:9090'), 200)
  t.equal(await codeFor('evil.example', '/readyz'), 200, 'health is for probes by any name')
})

void t.test('metrics and health are answered to the end of the drain', async (t) => {
  const h = await startApp(t, {
    flags: ['--metrics-bind-address', '127.0.0.1:0', '--shutdown-watch-termination-grace-period', '10s'],
    objects: { 'pods/default/a': pod('a') },
  })
  const watch = await fetch(`${h.url}/api/v1/pods?watch=1`)
  await until(() => h.watchers === 1, 'the watch runs')
  const drained = h.app.drain()
  t.equal((await ask(`${h.metricsUrl}/readyz`)).code, 500)
  t.equal((await ask(`${h.metricsUrl}/livez`)).code, 200)
  t.equal((await ask(`${h.metricsUrl}/metrics`)).code, 200)
  await h.app.stop()
  await drained
  await watch.body?.cancel().catch(() => {})
  await t.rejects(ask(`${h.metricsUrl}/livez`), { code: 'ECONNREFUSED' })
})

/** Readiness while the source is down, and what a server does between SIGTERM and its drain (issue 22). */
import { once } from 'node:events'
import { type IncomingMessage, get } from 'node:http'
import t from 'tap'
import { Readiness } from '../../../../src/server/wiring/readiness-checks.js'
import type { ResourcePipeline } from '../../../../src/engine/pipeline/resource-pipeline.js'
import { silentLogger } from '../../../../src/support/log.js'
import { startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

/** On a new connection: a drain closes those that clients keep alive. */
async function codeOf(url: string): Promise<number | undefined> {
  const [answer] = (await once(get(url, { agent: false }), 'response')) as [IncomingMessage]
  answer.resume()
  return answer.statusCode
}

void t.test(
  'while etcd is unreachable a server that can answer from its cache is ready, unless a maximum age is configured',
  (t) => {
    const cache = {
      name: 'pods',
      source: { ageMs: 3_600_000, disconnectedReason: 'etcd: away' },
      readiness: { kind: 'ready' },
    }
    const pipeline = { cache, resource: { group: '', plural: 'pods' } } as unknown as ResourcePipeline
    for (const [maxStalenessMs, isReady] of [
      [null, true],
      [3_600_000, true],
      [60_000, false],
    ] as const) {
      const readiness = new Readiness({
        cluster: { pipelines: () => [pipeline], checks: () => [] },
        maxStalenessMs,
        isShuttingDown: () => false,
        access: () => [],
        clock: new VirtualClock(),
        logger: silentLogger,
      })
      t.equal(readiness.isReady, isReady, `limit ${maxStalenessMs}`)
      const check = [...readiness.checks()].find(({ name }) => name === 'staleness')!
      if (maxStalenessMs !== 3_600_000) t.match(check.problem(), /pods was last confirmed 3600 s ago: etcd: away/)
    }
    t.end()
  },
)

void t.test(
  'after SIGTERM the server is unready at once and keeps serving for the delay; then it drains',
  async (t) => {
    const clock = new VirtualClock()
    const h = await startApp(t, {
      flags: ['--shutdown-delay-duration', '20s', '--shutdown-watch-termination-grace-period', '0s'],
      objects: { 'pods/default/a': pod('a') },
      clock,
      ready: false,
    })
    await until(() => {
      clock.advance(50)
      return h.app.isReady
    }, 'the app is ready')
    t.equal(await codeOf(`${h.url}/readyz`), 200)
    const drained = h.app.drain()
    t.equal(await codeOf(`${h.url}/readyz`), 500)
    t.match(await (await fetch(`${h.url}/readyz`)).text(), /\[-\]shutdown failed: the server is shutting down/)
    t.equal(await codeOf(`${h.url}/livez`), 200)
    t.equal(await codeOf(`${h.url}/api/v1/pods`), 200)
    const watch = await fetch(`${h.url}/api/v1/pods?watch=1`)
    t.equal(watch.status, 200, 'a new watch too')
    const connectionOf = async (): Promise<string | null> =>
      (await fetch(`${h.url}/api/v1/pods`)).headers.get('connection')
    t.equal(await connectionOf(), 'keep-alive')
    clock.advance(10_000)
    t.equal(await connectionOf(), 'close', 'in the second half clients are moved with their next answers')
    clock.advance(9_900)
    t.equal(h.watchers, 1, 'and it runs on')
    clock.advance(200)
    await drained
    await watch.text()
    t.equal(h.watchers, 0)
    t.equal(await codeOf(`${h.url}/api/v1/pods?watch=1`), 503)
  },
)

void t.test('a drain ends ten watches every 50 ms, so few watches do not take the whole grace period', async (t) => {
  const clock = new VirtualClock()
  const h = await startApp(t, {
    flags: ['--shutdown-watch-termination-grace-period', '10s'],
    objects: { 'pods/default/a': pod('a') },
    clock,
    ready: false,
  })
  await until(() => {
    clock.advance(50)
    return h.app.isReady
  }, 'the app is ready')
  const watches = await Promise.all(Array.from({ length: 25 }, () => fetch(`${h.url}/api/v1/pods?watch=1`)))
  await until(() => h.watchers === 25, 'all watch')
  let isDrained = false
  const drained = h.app.drain().then(() => (isDrained = true))
  await until(() => h.watchers === 15, 'the first step, once positions are current')
  clock.advance(50)
  await until(() => h.watchers === 5, 'the second step')
  t.notOk(isDrained)
  clock.advance(50)
  await drained
  t.equal(h.watchers, 0)
  for (const watch of watches) await watch.text()
})

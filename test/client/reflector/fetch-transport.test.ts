/** Tests which headers the transports must not send. */
import t from 'tap'
import { fetchTransport, nodeTransport, SharedInformer, type Transport } from '../../../src/client/index.js'
import { startApp } from '../../support/app.js'
import { openPage } from '../../support/chromium.js'
import { pod } from '../../support/pod.js'
import { until } from '../../support/until.js'
import { serveModules } from '../serve-modules.js'
import { type HttpFaults, startHttpFaults } from './http-faults.js'

const PODS = '/api/v1/pods'

void t.test('a token that never comes is a failure, and does not keep stop() from ending', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  let hangs = true
  const token = async (): Promise<string> => (hangs ? await new Promise<string>(() => {}) : 'x')
  for (const watchList of [true, false]) {
    hangs = true
    const informer = new SharedInformer({
      transport: fetchTransport({ server: app.url, token }),
      path: PODS,
      watchList,
      openTimeoutMs: 100,
      listTimeoutMs: 100,
      backoff: { firstMs: 20, capMs: 100 },
    })
    informer.start()
    await until(() => informer.status.state === 'backing-off', 'it is noticed')
    hangs = false
    await informer.whenSynced()
    hangs = true
    await informer.stop()
    const another = new SharedInformer({ transport: fetchTransport({ server: app.url, token }), path: PODS, watchList })
    another.start()
    await another.stop()
  }
})

/** With If-None-Match the client could get a 304, and watch from the same revision again and again. */
void t.test('after a 410 a client lists again without If-None-Match', async (t) => {
  const origin = await serveModules(t)
  const app = await startApp(t, {
    flags: ['--cors-allowed-origins', origin],
    objects: { 'pods/default/a': pod('a') },
  })
  const relists = async (faults: HttpFaults, start: () => Promise<unknown>): Promise<void> => {
    const lists = () => faults.requests.filter(({ isWatch }) => !isWatch)
    let isExpired = false
    const headers = { 'access-control-allow-origin': origin }
    faults.fault = ({ isWatch }) => (isWatch && isExpired ? { status: 410, headers, body: '{"code":410}' } : null)
    await start()
    await until(() => app.watchers === 1, 'it watches')
    const before = lists().length
    t.ok(before > 0)
    isExpired = true
    faults.cut()
    await until(() => lists().length > before + 1, 'it lists again')
    t.same(
      lists().filter(({ headers }) => 'if-none-match' in headers || 'if-modified-since' in headers),
      [],
    )
    isExpired = false
    await until(() => app.watchers === 1, 'and goes on')
  }
  for (const transportTo of [
    (url: string): Transport => fetchTransport({ server: url }),
    (url: string): Transport => nodeTransport({ server: url }),
  ]) {
    const faults = await startHttpFaults(t, app.port)
    const informer = new SharedInformer({
      transport: transportTo(faults.url),
      path: PODS,
      watchList: false,
      backoff: { firstMs: 20, capMs: 100 },
    })
    t.teardown(() => informer.stop())
    await relists(faults, async () => informer.start())
    await informer.stop()
    await until(() => app.watchers === 0, 'it has left')
  }
  const faults = await startHttpFaults(t, app.port)
  const page = await openPage(t, origin)
  await relists(faults, async () => {
    await page.addScriptTag({
      type: 'module',
      content: `import { fetchTransport, SharedInformer } from '/client/browser.js'
        new SharedInformer({
          transport: fetchTransport({ server: '${faults.url}' }), path: '${PODS}', watchList: false,
          backoff: { firstMs: 20, capMs: 100 },
        }).start()`,
    })
  })
})

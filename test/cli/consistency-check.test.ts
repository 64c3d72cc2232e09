/**
 * Tests `consistency-check` as a user runs it, against a server over a real etcd, and against one that sends false
 * reports.
 */
import { createServer } from 'node:http'
import t from 'tap'
import { EXIT } from '../../src/cli/exit-code.js'
import { startScenario } from '../fault/scenario.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { withWatch } from '../support/with-watch.js'
import { runCli } from './support/run-cli.js'

void t.test('each outcome of a check (equal, different, not comparable) has its exit code', async (t) => {
  let isBroken = true
  const s = await startScenario(t, {
    wrap: (upstream) =>
      withWatch(upstream, (options, handlers) =>
        upstream.watch(options, {
          ...handlers,
          onBatches: (batches) =>
            handlers.onBatches(
              batches.filter(
                ({ events }) =>
                  !isBroken || !events.some((event) => event.type === 'put' && event.keyValue.key.endsWith('/odd')),
              ),
            ),
        }),
      ),
  })
  await s.writer.put('/registry/pods/a/odd', pod('odd', { namespace: 'a' }))
  await s.reached(await s.writer.put('/registry/pods/a/even', pod('even', { namespace: 'a' })))
  isBroken = false
  const different = await runCli(t, ['consistency-check', s.h.url])
  t.equal(different.code, EXIT.failed)
  t.match(different.stdout, /^RESOURCE +OUTCOME +REVISION +OBJECTS +DIFFERENCES +SAMPLED$/m)
  t.match(different.stdout, /^pods +different +\d+ +\d+ +1 +\d+ +relisted$/m)
  t.match(different.stdout, /^nodes +equal +\d+ +0 +0 +0$/m)

  const equal = await runCli(t, ['consistency-check', '-o', 'json'], { environment: { DISTRIBUTARY_SERVER: s.h.url } })
  t.equal(equal.code, EXIT.done, equal.stdout)
  t.match(JSON.parse(equal.stdout), { kind: 'ConsistencyReport', outcome: 'equal' })

  await s.etcd.kill()
  const away = await runCli(t, ['consistency-check', '--server', s.h.url])
  t.equal(away.code, EXIT.failed)
  t.match(away.stdout, /^pods +skipped +- +0 +0 +0 +unavailable/m)
})

void t.test('unreachable servers are reported', async (t) => {
  const app = await startApp(t)
  const closed = await runCli(t, ['consistency-check', 'http://127.0.0.1:9'])
  t.match(closed, { code: EXIT.failed, stderr: /cannot reach http:\/\/127.0.0.1:9/ })
  t.match(await runCli(t, ['consistency-check', app.url, '-s', app.url]), {
    code: EXIT.usage,
    stderr: /cannot be combined/,
  })
  t.match(await runCli(t, ['consistency-check', 'not-a-url']), { code: EXIT.usage })

  const other = createServer((request, response) => {
    if (request.method === 'POST' && request.url === '/consistency-check') response.end('{"kind":"Something"}')
  })
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  t.teardown(() => other.close())
  const url = `http://127.0.0.1:${(other.address() as { port: number }).port}`
  t.match(await runCli(t, ['consistency-check', url]), { code: EXIT.failed, stderr: /is it a distributary/ })
  other.removeAllListeners('request')
  t.match(await runCli(t, ['consistency-check', url, '--timeout', '300ms']), { code: EXIT.timedOut })
  other.closeAllConnections()
})

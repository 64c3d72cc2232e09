/**
 * Tests of workers whose primary is stopped (SIGSTOP, a frozen container): they state their age, and no client waits.
 */
import t from 'tap'
import { until } from '../support/app.js'
import { startServer } from '../support/server-process.js'

void t.test('workers of a stopped primary say their age, are not ready beyond the bound, and answer 504', async (t) => {
  const server = await startServer(t, { flags: ['--workers', '2', '--max-staleness', '2s'], ready: false })
  const path = '/api/v1/nodes'
  const get = async (query: string): Promise<Response> => {
    const answer = await fetch(`${server.url}${path}${query}`, { headers: { connection: 'close' } })
    await answer.arrayBuffer()
    return answer
  }
  const ages = async (): Promise<number | null> => {
    const header = (await get('?resourceVersion=0')).headers.get('x-distributary-staleness-seconds')
    return header === null ? null : Number(header)
  }
  const isReady = async (): Promise<boolean> => (await fetch(`${server.url}/readyz`)).status === 200
  await eventually(async () => (await isReady()) && (await get('')).status === 200, 'readiness')
  t.equal(await ages(), null)
  process.kill(server.pid, 'SIGSTOP')
  t.teardown(() => process.kill(server.pid, 'SIGCONT'))
  // A read that began before the silence was noticed ends when it is.
  t.equal((await get('')).status, 504)
  await eventually(async () => ((await ages()) ?? 0) >= 3, 'an age that counts from its last word')
  t.equal((await get('')).status, 504)
  t.notOk(await isReady())
  process.kill(server.pid, 'SIGCONT')
  await eventually(async () => (await ages()) === null, 'no age')
  t.equal((await get('')).status, 200)
  await eventually(isReady, 'readiness')
})

async function eventually(condition: () => Promise<boolean>, what: string): Promise<void> {
  let holds = false
  const looking = (async () => {
    while (!holds) {
      holds = await condition()
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  })()
  await until(() => holds, what, 20_000)
  await looking
}

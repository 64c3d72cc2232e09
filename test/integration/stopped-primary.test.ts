/** Tests workers whose primary is stopped (SIGSTOP, a frozen container): they state their age, and no client waits. */
import t from 'tap'
import { until } from '../support/until.js'
import { startServer } from '../support/server-process.js'

void t.test(
  'workers of a stopped primary report their age, are not ready beyond the limit, and answer 504',
  async (t) => {
    const server = await startServer(t, { flags: ['--workers', '2', '--max-staleness', '2s'], ready: false })
    const path = '/api/v1/nodes'
    // Every request uses a new connection, so that each worker gets its share.
    const ask = async (target: string): Promise<Response> => {
      const answer = await fetch(`${server.url}${target}`, { headers: { connection: 'close' } })
      await answer.arrayBuffer()
      return answer
    }
    const get = (query: string): Promise<Response> => ask(`${path}${query}`)
    const ages = async (): Promise<number | null> => {
      const header = (await get('?resourceVersion=0')).headers.get('x-distributary-staleness-seconds')
      return header === null ? null : Number(header)
    }
    const isReady = async (): Promise<boolean> => (await ask('/readyz')).status === 200
    await until(
      everywhere(async () => (await isReady()) && (await get('')).status === 200),
      'readiness',
    )
    t.equal(await ages(), null)
    process.kill(server.pid, 'SIGSTOP')
    t.teardown(() => process.kill(server.pid, 'SIGCONT'))
    // A read that started before the silence was noticed ends when it is.
    t.equal((await get('')).status, 504)
    await until(
      everywhere(async () => ((await ages()) ?? 0) >= 3),
      'an age that counts from its last word',
    )
    t.equal((await get('')).status, 504)
    t.notOk(await isReady())
    process.kill(server.pid, 'SIGCONT')
    await until(
      everywhere(async () => (await ages()) === null),
      'no age',
    )
    t.equal((await get('')).status, 200)
    await until(everywhere(isReady), 'readiness')
  },
)

/**
 * Whether a condition has held eight times in a row: each worker notices at its own time, and by then both have been
 * asked.
 */
function everywhere(condition: () => Promise<boolean>): () => Promise<boolean> {
  let held = 0
  return async () => {
    held = (await condition()) ? held + 1 : 0
    return held === 8
  }
}

/**
 * `npm run screenshots` takes the pictures of the status page in docs/images, light and dark, from a running server
 * with its sample cluster, a writer and watchers of four kinds, so that nothing in them is drawn by hand.
 */
import { once } from 'node:events'
import http from 'node:http'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { openPage } from '../support/chromium.js'
import { root, startServerProcess } from '../ops/support/server-process.js'

/** The time after which the charts are filled. */
const SECONDS = 45

const WATCHES: readonly (readonly [count: number, path: string])[] = [
  [120, '/api/v1/pods?watch=1'],
  [60, '/api/v1/pods?watch=1&labelSelector=app%3Dcart'],
  [40, '/apis/apps/v1/deployments?watch=1'],
  [20, '/api/v1/nodes?watch=1'],
]

t.setTimeout(180_000)

void t.test('the status page, light and dark', async (t) => {
  const server = await startServerProcess(t, { args: ['--port', '0'] })
  const page = await openPage(t, 'about:blank')
  const agent = new http.Agent({ keepAlive: false })
  t.teardown(() => agent.destroy())
  for (const [count, path] of WATCHES) {
    for (let i = 0; i < count; i++) {
      const request = http.get(`${server.url}${path}`, { agent })
      t.teardown(() => request.destroy())
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      t.equal(response.statusCode, 200, path)
      response.on('error', () => {}).resume()
    }
  }
  // The first bytes that watchers are sent would dwarf all later ones.
  await setTimeout(3_000)
  await page.setViewportSize({ width: 1280, height: 860 })
  await page.goto(`${server.url}/ui/`)
  await setTimeout(SECONDS * 1_000)
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await setTimeout(2_000)
    await page.screenshot({ path: `${root}/docs/images/status-${colorScheme}.png` })
  }
})

/**
 * `npm run screenshots` takes the pictures in docs/images from a running server with its sample cluster, a writer and
 * watchers of four kinds, so that nothing in them is drawn by hand: the status page, light and dark, and the first rows
 * of the dashboard.
 */
import { once } from 'node:events'
import http from 'node:http'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { openPage } from '../../support/chromium.js'
import { readDashboard } from '../../ops/support/dashboard.js'
import { startPrometheus } from '../../ops/support/prometheus.js'
import { root, startServerProcess } from '../../ops/support/server-process.js'
import { drawDashboard, queryPanel } from './draw-dashboard.js'

/** The charts are filled after this time. */
const SECONDS = 46
/** Rows of the grid: fan-out, delays and memory. */
const DASHBOARD_ROWS = 55

const WATCHES: readonly (readonly [count: number, path: string])[] = [
  [120, '/api/v1/pods?watch=1'],
  [60, '/api/v1/pods?watch=1&labelSelector=app%3Dcart'],
  [40, '/apis/apps/v1/deployments?watch=1'],
  [20, '/api/v1/nodes?watch=1'],
]

t.setTimeout(300_000)

void t.test('the status page, light and dark', async (t) => {
  const server = await startServerProcess(t, { args: ['--port', '0'] })
  const page = await openPage(t, 'about:blank')
  await watchAll(t, server.url)
  // The initial bytes sent to watchers would dwarf all later ones.
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

void t.test('the dashboard', async (t) => {
  const server = await startServerProcess(t, { args: ['--port', '0'] })
  const prometheus = await startPrometheus(t, new URL(server.url).host)
  await watchAll(t, server.url)
  const askAgain = setInterval(
    () => void fetch(`${server.url}/api/v1/pods`).then(async (answer) => await answer.text()),
    250,
  )
  t.teardown(() => clearInterval(askAgain))
  // A rate needs several scrapes.
  await setTimeout((SECONDS + 20) * 1_000)
  const panels = readDashboard().panels.filter(({ gridPos }) => gridPos.y < DASHBOARD_ROWS)
  const drawn = []
  for (const panel of panels) drawn.push(await queryPanel(prometheus, panel, SECONDS))
  for (const { panel, series } of drawn) if (panel.type === 'stat') t.ok(series.length > 0, panel.title)
  const page = await openPage(t, 'about:blank')
  await drawDashboard(page, drawn)
  await page.screenshot({ path: `${root}/docs/images/dashboard.png` })
})

async function watchAll(t: Test, url: string): Promise<void> {
  const agent = new http.Agent({ keepAlive: false })
  t.teardown(() => agent.destroy())
  for (const [count, path] of WATCHES) {
    for (let i = 0; i < count; i++) {
      const request = http.get(`${url}${path}`, { agent })
      t.teardown(() => request.destroy())
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      t.equal(response.statusCode, 200, path)
      response.on('error', () => {}).resume()
    }
  }
}

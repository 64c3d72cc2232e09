/** The status page in a real browser. `SCREENSHOTS=folder` saves screenshots for people to look at. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { changedLines } from '../../../src/server/ui/page/yaml-difference.js'
import { startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { until } from '../../support/until.js'
import { openPage } from '../../support/chromium.js'
import { freePort } from '../../support/free-port.js'
import { serverStatus } from '../../../src/server/ui/status-figures.js'
import { startServerProcess } from '../../ops/support/server-process.js'

/** Collects the browser's errors and warnings, including violations of the content security policy. */
function complaints(page: Page, isExpected: (text: string) => boolean = () => false): string[] {
  const all: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' && !isExpected(message.text())) all.push(message.text())
  })
  page.on('pageerror', (error) => all.push(error.message))
  return all
}

/**
 * Waits until an expression holds in the page. The page's policy forbids eval, so a wait that polls inside it
 * (`waitForFunction`) fails unless its first check succeeds: here each check is a separate call.
 */
async function pageShows(page: Page, expression: string): Promise<void> {
  const end = performance.now() + 60_000
  while (!(await page.evaluate(expression))) {
    if (performance.now() > end) throw new Error(`the page never showed ${expression}`)
    await setTimeout(20)
  }
}

async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env['SCREENSHOTS']
  if (folder === undefined) return
  // The charts fill in this time.
  await setTimeout(8_000)
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true })
}

const pods = {
  'pods/default/web-0': pod('web-0', { labels: { app: 'web' } }),
  'pods/default/web-1': pod('web-1', { labels: { app: 'web' } }),
  'pods/shop/cart-0': pod('cart-0', { namespace: 'shop', labels: { app: 'cart' } }),
}

async function openApp(t: Test): Promise<{ app: Awaited<ReturnType<typeof startApp>>; page: Page; errors: string[] }> {
  const app = await startApp(t, { objects: pods })
  const page = await openPage(t, 'about:blank')
  const errors = complaints(page)
  await page.goto(`${app.url}/ui/`)
  await page.locator('#objects tbody tr').first().waitFor()
  return { app, page, errors }
}

void t.test('the page shows the figures of the server, and they change with a write', async (t) => {
  const { app, page, errors } = await openApp(t)
  await page.getByText('in-process store · ready').waitFor()
  const row = page.locator('#resources tr', { hasText: /^pods/ })
  await row.waitFor()
  t.match(await row.innerText(), /ready\s+3\s/)
  t.equal(await page.locator('canvas').count(), 2, 'two charts')
  app.put('pods/default/web-2', pod('web-2'))
  await page.locator('#resources tr', { hasText: /^podsready4/ }).waitFor()
  await page.locator('#groups td', { hasText: 'http1' }).waitFor()
  t.same(errors, [])
})

void t.test('objects are watched live, and changed cells are marked', async (t) => {
  const { app, page, errors } = await openApp(t)
  const rows = page.locator('#objects tbody tr')
  t.equal(await rows.count(), 3)
  await page.getByRole('button', { name: 'web-0' }).click()
  await page.locator('#yaml', { hasText: 'phase: Running' }).waitFor()
  t.equal(await page.locator('#yaml mark').count(), 0)
  app.put('pods/default/web-0', pod('web-0', { labels: { app: 'web' }, status: { phase: 'Failed' } }))
  await page.locator('#yaml mark', { hasText: 'phase: Failed' }).waitFor()
  t.equal(await page.locator('#yaml mark').count(), 2, 'the phase and the resourceVersion')
  await picture(page, 'light')
  app.put('pods/default/web-9', pod('web-9'))
  await page.getByRole('button', { name: 'web-9' }).waitFor()
  app.delete('pods/default/web-0')
  await page.getByText('web-0 (deleted)').waitFor()
  t.equal(await rows.count(), 3)
  t.same(errors, [])
})

void t.test('a search finds resources, and a watcher count leads to the watchers', async (t) => {
  const { app, page, errors } = await openApp(t)
  const leaving = new AbortController()
  t.teardown(() => leaving.abort())
  const { status } = await fetch(`${app.url}/api/v1/nodes?watch=1`, { signal: leaving.signal })
  t.equal(status, 200)
  await page.locator('#behind', { hasText: /^Nobody2 watchers up to date/ }).waitFor()
  const resources = page.locator('#resources tbody tr')
  await page.locator('#clients tbody tr', { hasText: /^127\.0\.0\.1.* (B|KiB)$/ }).waitFor()
  await page.locator('#groups tbody tr', { hasText: /^nodes/ }).waitFor()
  t.ok((await resources.count()) >= 2)
  await page.getByLabel('Search').fill('NODE')
  t.equal(await resources.count(), 1)
  t.match(await resources.innerText(), /^nodes/)
  await page.getByLabel('Search').fill('no such resource')
  t.match(await resources.innerText(), /no matches/)
  await page.getByLabel('Search').fill('')
  await page.locator('#resources tr', { hasText: /^pods/ }).getByRole('button').click()
  t.equal(await page.getByLabel('Search').inputValue(), 'pods')
  t.match(await page.locator('#groups tbody').innerText(), /^pods/)
  t.notMatch(await page.locator('#groups tbody').innerText(), /nodes/)
  t.same(errors, [])
})

void t.test('selectors filter the page, and are kept in its address', async (t) => {
  const { app, page, errors } = await openApp(t)
  await page.getByLabel('Label selector').fill('app=cart')
  await page.getByRole('button', { name: 'Watch' }).click()
  await page.getByText('1 object, watching').waitFor()
  await page.locator('#groups td', { hasText: /^app=cart$/ }).waitFor()
  app.put('pods/shop/cart-1', pod('cart-1', { namespace: 'shop', labels: { app: 'cart' } }))
  await page.getByText('2 objects, watching').waitFor()
  app.put('pods/shop/cart-1', pod('cart-1', { namespace: 'shop', labels: { app: 'other' } }))
  await page.getByText('1 object, watching').waitFor()
  await page.reload()
  await page.getByText('1 object, watching').waitFor()
  await page.getByLabel('Label selector').fill('')
  await page.locator('#resource').selectOption('nodes')
  await page.getByText('0 objects, watching').waitFor()
  await page.locator('#resource').selectOption('pods')
  await page.getByRole('textbox', { name: 'Namespace' }).fill('default')
  await page.keyboard.press('Enter')
  await page.getByText('2 objects, watching').waitFor()
  t.same(errors, [])
})

void t.test('names and values are text, whatever they look like', async (t) => {
  const { app, page, errors } = await openApp(t)
  const evil = '<img src=x onerror=alert(1)>'
  app.put('pods/default/evil', pod('evil', { labels: { app: evil }, status: { phase: evil } }))
  await page.getByRole('button', { name: 'evil' }).click()
  await page.locator('#yaml', { hasText: 'onerror' }).waitFor()
  t.equal(await page.locator('img').count(), 0)
  t.same(errors, [])
})

void t.test('the page works by keyboard alone, and every control has a name', async (t) => {
  const { page } = await openApp(t)
  await page.keyboard.press('Tab')
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Skip to content')
  await page.getByRole('button', { name: 'web-1' }).focus()
  await page.keyboard.press('Enter')
  await page.locator('#object-title', { hasText: 'default/web-1' }).waitFor()
  const nameless = await page.evaluate(
    `[...document.querySelectorAll('input,select,button')].filter((e) => !(e.labels?.[0] ?? e).textContent.trim()).length`,
  )
  t.equal(nameless, 0)
  for (const name of ['Resources', 'Objects, live', 'Largest groups', 'Slow watchers']) {
    t.equal(await page.getByRole('heading', { name }).count(), 1, name)
  }
})

void t.test('the page fits a phone and has a dark theme', async (t) => {
  const { page, errors } = await openApp(t)
  await page.emulateMedia({ colorScheme: 'dark' })
  await pageShows(page, 'getComputedStyle(document.body).backgroundColor === "rgb(17, 22, 28)"')
  await picture(page, 'dark')
  // Tables would scroll sideways and so hide their last columns. The charts adapt to the window in their next frame.
  const fits = `[document.documentElement, ...document.querySelectorAll('.scroll:not(#object)')].every((one) => one.scrollWidth <= one.clientWidth)`
  await page.getByLabel('include empty').check()
  await pageShows(page, fits)
  await page.setViewportSize({ width: 375, height: 700 })
  await pageShows(page, fits)
  await picture(page, 'phone')
  t.same(errors, [])
})

void t.test('the page comes from this server alone, under a policy that enforces it', async (t) => {
  const app = await startApp(t, { objects: pods })
  const page = await openPage(t, 'about:blank')
  const asked = new Set<string>()
  page.on('request', (request) => asked.add(new URL(request.url()).origin))
  const reply = await page.goto(`${app.url}/ui`)
  await page.locator('#objects tbody tr').first().waitFor()
  t.same([...asked], [app.url])
  const policy = reply!.headers()['content-security-policy'] ?? ''
  t.match(policy, "default-src 'none'")
  t.notMatch(policy, /unsafe|http:|https:|\*/)
})

void t.test('the page shows the state of the upstream, and since when it is unreachable', async (t) => {
  const { app, page, errors } = await openApp(t)
  const upstream = page.locator('#upstream')
  await upstream.getByText('in-process store').waitFor()
  await upstream.getByText('connected').waitFor()
  app.upstream.setUnavailable(true)
  app.upstream.cutWatches()
  await upstream.getByText(/^unavailable for \d+ s: /).waitFor()
  await page.locator('#summary', { hasText: 'upstream unavailable' }).waitFor()
  await upstream.getByText(/cut off, retrying|reconnecting/).waitFor()
  await picture(page, 'away')
  app.upstream.setUnavailable(false)
  await upstream.getByText('connected').waitFor()
  t.equal(await page.locator('#processes').isVisible(), false, 'one process has no table of them')
  t.same(errors, [])
})

void t.test(
  'the page of a replica shows what it publishes, and that it reads etcd while NATS is unreachable',
  async (t) => {
    const app = await startApp(t, { objects: pods })
    const page = await openPage(t, 'about:blank')
    const errors = complaints(page)
    const own = await app.app.status()
    const parts = ['publishes', 'follows', 'follows', 'direct'] as const
    const feeds = parts.map((part, i) => ({ resource: `r${i}`, state: 'watching', reason: null, part }))
    const fleet = { servers: 'nats://n1:4222', role: 'auto', cluster: 'blue' }
    const status = serverStatus({ version: '1', upstream: 'http://etcd:2379', fleet }, [{ ...own, feeds }])
    await page.route('**/ui/events', (route) =>
      route.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify(status)}\n\n` }),
    )
    await page.goto(`${app.url}/ui/`)
    const upstream = page.locator('#upstream')
    await upstream.getByText('nats://n1:4222, cluster blue, role auto').waitFor()
    await upstream
      .getByText('publishes 1 and follows 2 of 4 resources; reads etcd for 1: NATS is unavailable')
      .waitFor()
    t.same(errors, [])
  },
)

void t.test('the page of a server with workers shows all of them, whichever answers', async (t) => {
  const server = await startServerProcess(t, { args: ['--workers', '2', '--port', '0'] })
  const page = await openPage(t, 'about:blank')
  const errors = complaints(page)
  await page.goto(`${server.url}/ui/`)
  const rows = page.locator('#processes tbody tr')
  await rows.nth(2).waitFor()
  for (const name of ['primary', 'worker 1', 'worker 2']) await page.getByRole('cell', { name, exact: true }).waitFor()
  const stop = new AbortController()
  t.teardown(() => stop.abort())
  // Each watch has its own connection, which the kernel gives to any worker. The page itself watches another resource.
  await Promise.all(
    Array.from({ length: 6 }, () => fetch(`${server.url}/api/v1/nodes?watch=1`, { signal: stop.signal })),
  )
  await page.locator('#resources tr', { hasText: /^nodesready\d+6/ }).waitFor()
  await page.locator('#groups tr', { hasText: /^nodeshttp16/ }).waitFor()
  await picture(page, 'workers')
  t.same(errors, [])
  t.equal(await server.stop(), 0)
})

void t.test('the page survives a restart of the server', async (t) => {
  const args = ['--port', String(await freePort())]
  const first = await startServerProcess(t, { args })
  const page = await openPage(t, 'about:blank')
  const errors = complaints(page, (text) => /ERR_CONNECTION|ERR_INCOMPLETE|Failed to load resource/.test(text))
  await page.goto(`${first.url}/ui/`)
  await page.getByText(/objects?, watching/).waitFor()
  await first.stop()
  await page.locator('#summary', { hasText: 'no connection' }).waitFor()
  await startServerProcess(t, { args })
  await page.locator('#summary', { hasText: 'ready' }).waitFor()
  await page.getByText(/objects?, watching/).waitFor()
  t.same(errors, [])
})

/** A server that knows one token, which is in a file that the test may change. */
async function startWithToken(t: Test): Promise<{ app: Awaited<ReturnType<typeof startApp>>; tokens: string }> {
  const tokens = join(mkdtempSync(join(tmpdir(), 'tokens-')), 'tokens.csv')
  writeFileSync(tokens, 'viewer,viewer,1,system:masters\n')
  const flags = [`--token-auth-file=${tokens}`, '--authorization-mode=RBAC']
  return { app: await startApp(t, { flags, objects: pods }), tokens }
}

const isRefusal = (text: string): boolean => /Failed to load resource/.test(text)

void t.test('behind a token, the page asks for one and keeps it in memory only', async (t) => {
  const { app, tokens } = await startWithToken(t)
  const page = await openPage(t, 'about:blank')
  const errors = complaints(page, isRefusal)
  const urls: string[] = []
  page.on('request', (request) => urls.push(request.url()))
  const reply = await page.goto(`${app.url}/ui/`)
  t.equal(reply!.status(), 401)
  t.match(reply!.headers(), { 'content-security-policy': /frame-ancestors 'none'/, 'cache-control': 'no-store' })
  await page.getByLabel('Bearer token').waitFor()
  t.notOk(await page.getByText('kubectl --server=').isVisible(), 'kubectl sends no credential over plain HTTP')
  t.notOk(await page.locator('main').isVisible(), 'nothing is claimed before there are figures')
  await picture(page, 'sign-in')
  await page.getByLabel('Bearer token').fill('wrong')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('The server answered: Unauthorized').waitFor()
  await page.getByLabel('Bearer token').fill('viewer')
  await page.keyboard.press('Enter')
  await page.getByText('3 objects, watching').waitFor()
  await page.getByRole('button', { name: 'web-0' }).click()
  await page.locator('#yaml', { hasText: 'name: web-0' }).waitFor()
  t.notOk(await page.getByLabel('Bearer token').isVisible())
  const kept = await page.evaluate(
    `JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, document.getElementById('token').value])`,
  )
  t.notMatch([kept, ...urls].join(), /viewer/, 'in no storage, field or URL')
  writeFileSync(tokens, 'other,other,2,system:masters\n')
  await page.getByLabel('Bearer token').fill('other')
  await page.keyboard.press('Enter')
  await page.locator('body:not(.old) #summary', { hasText: 'ready' }).waitFor()
  await page.reload()
  await page.getByLabel('Bearer token').waitFor()
  t.same(errors, [])
})

void t.test('only a navigation gets the page instead of a Status, and never any data', async (t) => {
  const { app } = await startWithToken(t)
  const ask = async (path: string, accept: string, token?: string): Promise<[number, string | null]> => {
    const headers = { accept, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) }
    const { status, headers: got, body } = await fetch(`${app.url}${path}`, { headers })
    await body?.cancel()
    return [status, got.get('content-type')]
  }
  const browser = 'text/html,application/xhtml+xml,*/*;q=0.8'
  const html = 'text/html; charset=utf-8'
  t.same(await ask('/ui/', browser), [401, html])
  t.same(await ask('/ui/events', browser), [401, html])
  t.same(await ask('/ui/', '*/*'), [401, 'application/json'])
  t.same(await ask('/ui/events', 'text/event-stream'), [401, 'application/json'])
  t.same(await ask('/api/v1/pods', browser), [401, 'application/json'])
  t.same(await ask('/ui/main.js', '*/*'), [200, 'text/javascript; charset=utf-8'])
  t.same(await ask('/ui/', browser, 'viewer'), [200, html])
})

void t.test('figures that no longer arrive are dimmed, with their age, and become current again', async (t) => {
  const { app, page } = await openApp(t)
  await page.locator('#fresh', { hasText: /^Yes/ }).waitFor()
  // The connection stays open, but nothing arrives: the server, or the network to it, has disappeared.
  const status = app.app.status.bind(app.app)
  app.app.status = () => new Promise(() => {})
  await page.locator('body.old #fresh', { hasText: /^UnknownNo figures from this server for \d+ s/ }).waitFor()
  await page.locator('#serving', { hasText: /As of \d\d:\d\d:\d\d, \d+ s ago/ }).waitFor()
  t.equal(await page.evaluate(`getComputedStyle(document.getElementById('upstream').parentElement).opacity`), '0.5')
  app.app.status = status
  await page.locator('body:not(.old) #fresh', { hasText: /^Yes/ }).waitFor()
})

void t.test('during an outage of the upstream, the objects come from the cache, with their age', async (t) => {
  const { app, page } = await openApp(t)
  app.upstream.setUnavailable(true)
  app.upstream.cutWatches()
  await page.locator('#fresh', { hasText: /^NoNot confirmed since \d\d:\d\d:\d\d/ }).waitFor()
  await page.reload()
  await page.locator('#watch-state', { hasText: /^3 objects from the cache, not confirmed for \d+ s$/ }).waitFor()
  t.equal(await page.locator('#objects tbody tr').count(), 3)
  t.equal(await page.locator('#browser.old').count(), 1)
})

void t.test('the address carries the selection', async (t) => {
  const { page } = await openApp(t)
  await page.getByRole('button', { name: 'cart-0' }).click()
  await page.getByLabel('Search').fill('pods')
  await page.locator('#object-title', { hasText: 'shop/cart-0' }).waitFor()
  await page.keyboard.press('Tab')
  await page.reload()
  await page.locator('#object-title', { hasText: 'shop/cart-0' }).waitFor()
  t.equal(await page.getByLabel('Search').inputValue(), 'pods')
  await page.evaluate(`location.hash = 'resource=nodes&search=node'`)
  await page.getByText('0 objects, watching').waitFor()
  t.equal(await page.getByLabel('Search').inputValue(), 'node')
})

void t.test('objects show the columns of kubectl, times in ISO 8601, and charts a sentence', async (t) => {
  const app = await startApp(t, { objects: pods })
  const page = await openPage(t, 'about:blank')
  await page.goto(`${app.url}/ui/`)
  await page.locator('#objects th', { hasText: 'Status' }).waitFor()
  await page
    .locator('#objects td', { hasText: /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|–)$/ })
    .first()
    .waitFor()
  await page.locator('#rate-chart-text', { hasText: /^Since \d\d:\d\d:\d\d: in [\d.]+ events\/s, between/ }).waitFor()
})

void t.test('without a viewer no figures are computed, and a closed page is forgotten', async (t) => {
  const app = await startApp(t, { objects: pods })
  const stop = new AbortController()
  const reply = await fetch(`${app.url}/ui/events`, { signal: stop.signal })
  t.match(reply.headers.get('content-type'), 'text/event-stream')
  const reader = reply.body!.getReader()
  let text = ''
  while (!text.includes('event: status')) text += Buffer.from((await reader.read()).value!).toString()
  t.match(JSON.parse(/data: (.*)/.exec(text)![1]!), { ready: true, version: '0.0.0-test' })
  stop.abort()
  await until(() => app.watchers === 0, 'no watcher')
})

void t.test('new lines are marked, and only they', async (t) => {
  t.same(changedLines('a\nb\nc', 'a\nx\nc'), [false, true, false])
  t.same(changedLines('a\nc', 'a\nb\nc'), [false, true, false])
  t.same(changedLines('a\nb\nc', 'a\nc'), [false, false])
  t.same(changedLines('a', 'a'), [false])
  t.same(changedLines('', 'b'), [true])
})

/**
 * The hooks with React itself: rendered on a server, and in Chromium with a saved state in IndexedDB: offline, back
 * online, two tabs, and a permission and a token that are revoked.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { type AppHarness, startApp } from '../support/app.js'
import { openProfile } from '../support/chromium.js'
import { until } from '../support/until.js'
import { type HttpFaults, startHttpFaults } from './reflector/http-faults.js'
import { saved } from './saved-states.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const PATH = '/apis/distributary.io/v1/flags'

/** Compiles a script that imports the packages by their names, as an application's bundler does. */
async function bundle(source: string, platform: 'browser' | 'node'): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: source, resolveDir: root, loader: 'jsx' },
    bundle: true,
    write: false,
    format: 'esm',
    platform,
    jsx: 'automatic',
    // Development, where React mounts twice under StrictMode and reports mistakes.
    define: { 'process.env.NODE_ENV': '"development"' },
    alias: {
      'distributary/client': join(root, 'src/client/browser.ts'),
      'distributary/react': join(root, 'src/client/react.ts'),
    },
    external: platform === 'node' ? ['react', 'react-dom'] : [],
    logLevel: 'silent',
  })
  return outputFiles[0]!.text
}

/** The page shows plain text, so that a test can compare all of it. */
const COMPONENTS = `
  import { LiveList, fetchTransport, withValue } from 'distributary/client'
  import { useList, useObject } from 'distributary/react'

  export const renders = { flags: 0, one: 0 }

  function parse(value) {
    if (typeof value?.on !== 'boolean') throw new Error('no flag')
    return value
  }

  export function listOf(options) {
    return new LiveList({ path: '${PATH}', validate: withValue(parse), backoff: { firstMs: 20, capMs: 200 }, onInvalid: () => {}, lingerMs: 50, ...options })
  }

  export function Flags({ list }) {
    renders.flags++
    const { items, invalid, isLoaded, isLive, isRefused } = useList(list)
    const words = items.map(({ metadata, value }) => metadata.name + '=' + (value.on ? 'on' : 'off'))
    const state = isRefused ? 'refused' : !isLoaded ? 'loading' : isLive ? 'live' : 'last known'
    return <p id="flags">{[...words, ...invalid.map(({ key }) => key + ' invalid'), state].join(' ')}</p>
  }

  export function One({ list, name }) {
    renders.one++
    const { object, invalid, isLoaded } = useObject(list, name)
    return <p id="one">{!isLoaded ? 'loading' : invalid ? 'invalid' : object === undefined ? 'none' : String(object.value.on)}</p>
  }
`

interface World {
  readonly app: AppHarness
  readonly faults: HttpFaults
  readonly origin: string
  /** Serves this script in a page at the origin. */
  readonly serve: (script: string, html?: string) => void
  readonly file: (name: string, text: string) => string
}

function put(app: AppHarness, key: string, value: unknown): void {
  const bytes = Buffer.from(JSON.stringify(value))
  app.upstream.commit([{ type: 'put', key: keyFromText(`/config/flags/${key}`), value: bytes }])
}

async function startWorld(t: Test, flags: (file: World['file']) => readonly string[] = () => []): Promise<World> {
  const page = { script: '', html: '' }
  const site = http.createServer((request, response) => {
    const isScript = request.url === '/page.js'
    response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
    response.end(isScript ? page.script : page.html)
  })
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    site.closeAllConnections()
    site.close()
  })
  const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`
  const folder = mkdtempSync(join(tmpdir(), 'react-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const app = await startApp(t, {
    flags: ['--resource', 'flags=/config/flags/', '--cors-allowed-origins', origin, ...flags(file)],
  })
  const faults = await startHttpFaults(t, app.port)
  const serve = (script: string, html = ''): void => {
    page.script = script
    page.html = `<!doctype html><title>x</title><div id="root">${html}</div><script type="module" src="/page.js"></script>`
  }
  return { app, faults, origin, serve, file }
}

/** A tab whose errors and warnings fail the test, since React reports mistakes there. */
async function openTab(t: Test, profile: BrowserContext, url: string): Promise<Page> {
  const tab = await profile.newPage()
  tab.on('console', (message) => {
    const isOfNetwork = /^Failed to load resource|^Access to fetch/.test(message.text())
    if (['error', 'warning'].includes(message.type()) && !isOfNetwork) t.fail(message.text())
  })
  tab.on('pageerror', (error) => t.fail(error.message))
  await tab.goto(url)
  return tab
}

async function shows(tab: Page, expected: string, id = 'flags'): Promise<void> {
  let shown = ''
  await until(
    async () => (shown = (await tab.textContent(`#${id}`)) ?? '') === expected,
    () => `${expected}; it shows ${shown}`,
  )
}

/** The page of all tests but the first: the user is a parameter, and the token is in the page's storage. */
const appOf = (server: string): string => `${COMPONENTS}
  import { StrictMode } from 'react'
  import { createRoot } from 'react-dom/client'
  import { indexedDbStore } from 'distributary/client'

  const user = new URLSearchParams(location.search).get('user') ?? 'ann'
  const token = () => localStorage.getItem('token') ?? user
  const store = indexedDbStore()
  const list = listOf({
    transport: fetchTransport({ server: '${server}', token }),
    saved: { store, server: '${server}', user },
  })
  globalThis.logOut = async () => {
    await list.close()
    await store.clear()
  }
  globalThis.renders = renders
  createRoot(document.getElementById('root')).render(
    <StrictMode>
      <Flags list={list} />
      <One list={list} name="eu:checkout" />
    </StrictMode>,
  )
`

void t.test(
  'a server renders the page without a request, and the browser takes it over without a difference',
  async (t) => {
    const { app, faults, origin, serve } = await startWorld(t)
    put(app, 'eu/checkout', { on: true })
    const file = join(root, '.build', `react-server-${process.pid}.mjs`)
    t.teardown(() => rmSync(file, { force: true }))
    const rendering = `${COMPONENTS}
    import { renderToString } from 'react-dom/server'
    const list = listOf({ transport: fetchTransport({ server: '${faults.url}' }) })
    export const html = renderToString(<><Flags list={list} /><One list={list} name="eu:checkout" /></>)`
    writeFileSync(file, await bundle(rendering, 'node'))
    const { html } = (await import(file)) as { readonly html: string }
    t.equal(html, '<p id="flags">loading</p><p id="one">loading</p>')
    t.equal(faults.requests.length, 0)

    serve(
      await bundle(
        `${COMPONENTS}
      import { hydrateRoot } from 'react-dom/client'
      const list = listOf({ transport: fetchTransport({ server: '${faults.url}' }) })
      globalThis.errors = []
      hydrateRoot(
        document.getElementById('root'),
        <><Flags list={list} /><One list={list} name="eu:checkout" /></>,
        { onRecoverableError: (error) => errors.push(error.message) },
      )`,
        'browser',
      ),
      html,
    )
    const tab = await openTab(t, await openProfile(t), origin)
    await shows(tab, 'eu:checkout=on live')
    await shows(tab, 'true', 'one')
    t.same(await tab.evaluate('globalThis.errors'), [])
  },
)

void t.test(
  'components render when what they show changes, over one watch, which ends with the last of them',
  async (t) => {
    const { app, faults, origin, serve } = await startWorld(t)
    put(app, 'eu/checkout', { on: true })
    put(app, 'broken', 'x')
    serve(
      await bundle(
        `${COMPONENTS}
      import { StrictMode } from 'react'
      import { createRoot } from 'react-dom/client'
      const list = listOf({ transport: fetchTransport({ server: '${faults.url}' }) })
      const root = createRoot(document.getElementById('root'))
      globalThis.renders = renders
      globalThis.show = (isShown) =>
        root.render(<StrictMode>{isShown && <><Flags list={list} /><One list={list} name="eu:checkout" /><One list={list} name="broken" /></>}</StrictMode>)
      show(true)`,
        'browser',
      ),
    )
    const tab = await openTab(t, await openProfile(t), origin)
    await shows(tab, 'eu:checkout=on broken invalid live')
    t.equal(await tab.locator('#one').last().textContent(), 'invalid')
    t.equal(app.watchers, 1, 'StrictMode mounts twice, and nothing is left over')
    t.equal(faults.requests.filter(({ isStream }) => isStream).length, 1)
    const before = (await tab.evaluate('renders.one')) as number
    put(app, 'us/checkout', { on: false })
    await shows(tab, 'eu:checkout=on us:checkout=off broken invalid live')
    t.equal(await tab.evaluate('renders.one'), before, 'a component that shows another object does not render')
    put(app, 'broken', { on: true })
    await shows(tab, 'broken=on eu:checkout=on us:checkout=off live')
    await tab.evaluate('show(false)')
    await until(() => app.watchers === 0, 'nobody looks')
    put(app, 'broken', { on: false })
    await tab.evaluate('show(true)')
    await shows(tab, 'broken=off eu:checkout=on us:checkout=off live')
  },
)

void t.test('a page reloaded offline shows its last state, and continues after it', async (t) => {
  const { app, faults, origin, serve } = await startWorld(t)
  put(app, 'eu/checkout', { on: true })
  put(app, 'gone', { on: true })
  serve(await bundle(appOf(faults.url), 'browser'))
  const profile = await openProfile(t)
  const tab = await openTab(t, profile, origin)
  await shows(tab, 'eu:checkout=on gone=on live')
  await until(async () => (await saved(tab)).includes('"gone"'), 'it is saved')

  // The API is out of reach; the page itself comes from somewhere else.
  await profile.route(`${faults.url}/**`, (route) => route.abort('internetdisconnected'))
  faults.cut()
  await shows(tab, 'eu:checkout=on gone=on last known')
  app.upstream.commit([{ type: 'delete', key: keyFromText('/config/flags/gone') }])
  put(app, 'eu/checkout', { on: false })
  await tab.reload()
  await shows(tab, 'eu:checkout=on gone=on last known')
  faults.requests.length = 0
  await profile.unroute(`${faults.url}/**`)
  await shows(tab, 'eu:checkout=off live')
  t.equal(faults.requests.filter(({ isWatch, isStream }) => !isWatch || isStream).length, 0, 'nothing was listed')
})

const POLICY = (users: string): string => `rules:
  - users: [${users}]
    verbs: [get, list, watch]
    apiGroups: [distributary.io]
    resources: [flags]
`

const access = (file: World['file']): readonly string[] => [
  '--token-auth-file',
  file('tokens.csv', 'ann,ann,1\nbob,bob,2\n'),
  '--authorization-mode=Policy',
  '--authorization-policy-file',
  file('policy.yaml', POLICY('ann, bob')),
  '--requests-per-second=100000',
]

void t.test('two tabs of a user share the last state, and two users share none', async (t) => {
  const { app, faults, origin, serve } = await startWorld(t, access)
  put(app, 'eu/checkout', { on: true })
  serve(await bundle(appOf(faults.url), 'browser'))
  const profile = await openProfile(t)
  const first = await openTab(t, profile, origin)
  const second = await openTab(t, profile, origin)
  for (const tab of [first, second]) await shows(tab, 'eu:checkout=on live')
  put(app, 'eu/checkout', { on: false })
  for (const tab of [first, second]) await shows(tab, 'eu:checkout=off live')
  await until(async () => (await saved(first)).includes('"on":false'), 'it is saved')
  await first.close()

  await profile.route(`${faults.url}/**`, (route) => route.abort('internetdisconnected'))
  const bob = await openTab(t, profile, `${origin}/?user=bob`)
  await shows(bob, 'loading')
  await second.reload()
  await shows(second, 'eu:checkout=off last known')
  await profile.unroute(`${faults.url}/**`)
  for (const tab of [second, bob]) await shows(tab, 'eu:checkout=off live')
  await until(async () => (await saved(bob)).split('\n').length === 2, 'each has a state')
  await bob.evaluate('logOut()')
  await shows(bob, 'loading')
  // The other user's tab may save its state again.
  t.notMatch(await saved(bob), /bob/, 'nothing of a user who logged out is left')
})

void t.test('when the permission is revoked no data is shown, not even after a reload offline', async (t) => {
  const { app, faults, origin, serve, file } = await startWorld(t, access)
  put(app, 'eu/checkout', { on: true })
  serve(await bundle(appOf(faults.url), 'browser'))
  const profile = await openProfile(t)
  const tab = await openTab(t, profile, origin)
  await shows(tab, 'eu:checkout=on live')
  await until(async () => (await saved(tab)).includes('checkout'), 'it is saved')
  file('policy.yaml', POLICY('bob'))
  await shows(tab, 'refused')
  await shows(tab, 'loading', 'one')
  await until(async () => (await saved(tab)) === '', 'the saved state is removed')
  await profile.route(`${faults.url}/**`, (route) => route.abort('internetdisconnected'))
  await tab.reload()
  await shows(tab, 'loading')
  await profile.unroute(`${faults.url}/**`)
  file('policy.yaml', POLICY('ann'))
  await shows(tab, 'eu:checkout=on live')

  // The token is revoked, and the next one is that of a new login.
  file('tokens.csv', 'new,ann,1\n')
  await shows(tab, 'refused')
  await tab.evaluate(`localStorage.setItem('token', 'new')`)
  await shows(tab, 'eu:checkout=on live')
})

void t.test('the example in the documents is such a page', async (t) => {
  const { app, faults, origin, serve } = await startWorld(t)
  put(app, 'eu/checkout', { on: true })
  put(app, 'text', 'x')
  const text = readFileSync(join(root, 'docs/guide/client.md'), 'utf8')
  const [, example = ''] = /^```jsx\n([^]*?)^```$/m.exec(text) ?? []
  t.match(example, 'http://127.0.0.1:8001')
  serve(await bundle(example.replace('http://127.0.0.1:8001', faults.url), 'browser'))
  const tab = await openTab(t, await openProfile(t), origin)
  await shows(tab, '/config/flags/eu/checkout: ontext: Error: not a flag', 'root')
})

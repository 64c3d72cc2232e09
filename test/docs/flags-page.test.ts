/** The page and the script of the guide to plain prefixes, exactly as documented. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { serveModules } from '../client/serve-modules.js'
import { startHttpFaults } from '../client/reflector/http-faults.js'
import { systemClock } from '../../src/support/clock.js'
import { type AppHarness, startApp } from '../support/app.js'
import { openPage } from '../support/chromium.js'
import { startEtcd } from '../support/etcd-process.js'
import { pod } from '../support/pod.js'
import { programFile } from '../support/program.js'
import { until } from '../support/until.js'
import { readText } from './repository.js'

/** @param mark a text that is in no other block of the language. */
function blockOf(language: string, mark: string): string {
  const blocks = [...readText('docs/guide/plain-prefixes.md').matchAll(/^```(\w+)\n([^]*?)^```$/gm)]
  const [block, another] = blocks.filter(([, name, text = '']) => name === language && text.includes(mark))
  if (block === undefined || another !== undefined) throw new Error(`one block of ${language} with ${mark}`)
  return block[2]!
}

function put(app: AppHarness, key: string, value: string | null): void {
  const stored = keyFromText(`/config/flags/${key}`)
  app.upstream.commit([
    value === null ? { type: 'delete', key: stored } : { type: 'put', key: stored, value: Buffer.from(value) },
  ])
}

/** On its own port, which is its origin. */
async function servePage(t: Test): Promise<{ readonly origin: string; readonly show: (html: string) => void }> {
  let page = ''
  const server = http.createServer((_request, response) => response.setHeader('content-type', 'text/html').end(page))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, show: (html) => void (page = html) }
}

void t.test('the page shows each flag’s current state, through a cut and a 410', async (t) => {
  const { origin, show } = await servePage(t)
  const app = await startApp(t, {
    flags: ['--resource', 'flags=/config/flags/', '--cors-allowed-origins', origin],
    config: { defaultWatchCacheSize: 1, watchCacheAge: 0 },
  })
  put(app, 'eu/checkout', '{"on":true,"share":0.25}')
  put(app, 'banner', '<b>Hello</b>')
  const faults = await startHttpFaults(t, app.port)
  show(blockOf('html', '410').replace('http://127.0.0.1:8001', faults.url))
  const browser = await openPage(t, origin)
  const shows = async (expected: string): Promise<void> =>
    await until(async () => (await browser.innerText('ul')) === expected, expected, 60_000)
  await shows('banner: <b>Hello</b>\neu:checkout: {"on":true,"share":0.25}')
  put(app, 'banner', 'Hello again')
  put(app, 'new', '[1]')
  await shows('banner: Hello again\neu:checkout: {"on":true,"share":0.25}\nnew: [1]')
  put(app, 'eu/checkout', null)
  await shows('banner: Hello again\nnew: [1]')
  faults.cut()
  // More than is kept: the deletion is forgotten when the browser returns.
  put(app, 'new', null)
  const { cache } = [...app.app.sources].find(({ resource }) => resource.plural === 'flags')!
  const forgotten = app.upstream.revision
  let last = 0
  await until(() => {
    put(app, 'banner', `${++last}`)
    return cache.history.floorRevision > forgotten
  }, 'the history is gone')
  put(app, 'banner', null)
  await shows('')
  const metrics = await (await fetch(`${app.url}/metrics`)).text()
  t.match(metrics, /^distributary_watch_resumes_expired_total\{[^}]*resource="flags"\} [1-9]/m, 'by way of a 410')
})

void t.test('the pages survive a break in the first state, and a proxy that refuses them', async (t) => {
  const { origin, show } = await servePage(t)
  const app = await startApp(t, { flags: ['--resource', 'flags=/config/flags/', '--cors-allowed-origins', origin] })
  const pages = [
    { html: blockOf('html', '410'), resource: 'flags', list: 'ul' },
    { html: readText('deploy/examples/pods.html'), resource: 'pods', list: 'tbody' },
  ]
  for (const { html, resource, list } of pages) {
    const write = (name: string, isThere = true): void => {
      if (resource === 'flags') put(app, name, isThere ? '1' : null)
      else app.commit({ [`pods/default/${name}`]: isThere ? pod(name) : null })
    }
    write('first')
    write('second')
    const faults = await startHttpFaults(t, app.port)
    let streams = 0
    faults.fault = () => {
      if (++streams === 2) write('first', false)
      return streams === 1 ? { endAfterLines: 5 } : null
    }
    show(html.replace('http://127.0.0.1:8001', faults.url))
    const browser = await openPage(t, origin)
    let shown: readonly string[] = []
    const shows = async (...names: readonly string[]): Promise<void> =>
      await until(
        async () => {
          shown = (await browser.innerText(list)).match(/\w+(?=: 1|\s+Running)/g) ?? []
          return shown.join() === names.join()
        },
        () => `${resource}: ${names.join()}, not ${shown.join()}`,
        60_000,
      )
    await shows('second')
    t.ok(streams > 1, 'the first stream broke')

    // nginx answers like this while the server restarts.
    faults.fault = () => ({ status: 502 })
    const before = faults.requests.length
    faults.cut()
    await until(() => faults.requests.length > before, 'the browser is refused')
    write('third')
    faults.fault = () => null
    await shows('second', 'third')
  }
})

void t.test('the loop of long polls lists once, and then gets each event', async (t) => {
  const app = await startApp(t, { flags: ['--resource', 'flags=/config/flags/'] })
  put(app, 'banner', '"Hello"')
  const faults = await startHttpFaults(t, app.port)
  const script = blockOf('js', 'metadata.cursor').replace('http://127.0.0.1:8001', faults.url).replace('20s', '1s')
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', (text: Buffer) => (printed += text.toString()))
  await until(() => printed.includes('Hello'), 'the list')
  await until(() => faults.requests.length >= 4, 'empty answers')
  put(app, 'banner', '"again"')
  await until(() => printed.includes("type: 'MODIFIED'"), 'the event')
  const sent = faults.requests.map(({ query }) => query.toString())
  t.equal(new Set(sent).size, sent.length, 'each request is another one')
  t.equal(sent.filter((query) => !query.includes('watch')).length, 1)
})

void t.test('the script follows the part that it requests', async (t) => {
  const app = await startApp(t, { flags: ['--resource', 'flags=/config/flags/'] })
  put(app, 'eu/checkout', '{"on":true}')
  put(app, 'us/checkout', '{"on":true}')
  const folder = mkdtempSync(join(tmpdir(), 'flags-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const client = new URL('../../src/client/index.js', import.meta.url).href
  const script = blockOf('js', 'const flags = new SharedInformer')
    .replace('distributary/client', client)
    .replace('http://127.0.0.1:8001', app.url)
  writeFileSync(join(folder, 'flags.mjs'), script)
  const child = spawn(process.execPath, [join(folder, 'flags.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', (text: Buffer) => (printed += text.toString()))
  await until(() => printed === '+ /config/flags/eu/checkout { on: true }\n', 'what is there')
  put(app, 'us/checkout', null)
  put(app, 'eu/checkout', '{"on":false}')
  put(app, 'eu/checkout', null)
  await until(() => printed.endsWith('- /config/flags/eu/checkout\n'), 'and what becomes of it')
  t.notMatch(printed, /us/)
})

void t.test(
  'the page that logs in, and the script of the client, get a new ticket when the old one has expired',
  async (t) => {
    const { origin, show } = await servePage(t)
    const modules = await serveModules(t)
    const folder = mkdtempSync(join(tmpdir(), 'flags-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const file = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text)
      return join(folder, name)
    }
    const clock = { ...systemClock, forwardMs: 0, now: () => systemClock.now() + clock.forwardMs }
    // prettier-ignore
    const app = await startApp(t, {
    flags: [
      '--resource', 'flags=/config/flags/',
      '--cors-allowed-origins', `${origin},${modules}`,
      '--token-auth-file', file('tokens.csv', 'a token,ann,1\nt,bob,2\n'),
      '--authorization-mode', 'AlwaysAllow',
      '--ticket-key-file', file('ticket.key', `${'0'.repeat(64)}\n`),
    ],
    clock,
  })
    put(app, 'a', '1')
    const faults = await startHttpFaults(t, app.port)
    const here = (text: string): string => text.replace('http://127.0.0.1:8001', faults.url)
    show(here(blockOf('html', '/tickets')))
    const page = await openPage(t, origin)
    await page.evaluate("sessionStorage.setItem('token', 't')")
    await page.reload()
    const client = await openPage(t, modules)
    const script = here(blockOf('js', 'ticketEvents')).replace('distributary/client', '/client/browser.js')
    await client.addScriptTag({ type: 'module', content: script.replace('a token', 't') })
    const [a, b] = ['/config/flags/a', '/config/flags/b']
    await until(
      async () => (await page.innerText('pre')).trim() === `ADDED ${a}` && (await client.title()) === 'a',
      'the first',
    )
    clock.forwardMs = 120_000
    faults.cut()
    put(app, 'b', '2')
    await until(async () => (await page.innerText('pre')).trim().endsWith(`ADDED ${b}`), 'the page is back', 60_000)
    await until(async () => (await client.title()) === 'a,b', 'and the client', 60_000)
  },
)

void t.test('the script with long polls follows changes', async (t) => {
  const app = await startApp(t, { flags: ['--resource', 'flags=/config/flags/'] })
  put(app, 'a', '1')
  const folder = mkdtempSync(join(tmpdir(), 'flags-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const client = new URL('../../src/client/index.js', import.meta.url).href
  const script = blockOf('js', 'pollTransport').replace('distributary/client', client)
  writeFileSync(join(folder, 'polls.mjs'), script.replace('http://127.0.0.1:8001', app.url))
  const child = spawn(process.execPath, [join(folder, 'polls.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', (text: Buffer) => (printed += text.toString()))
  await until(() => printed === '/config/flags/a\n', 'what is there')
  put(app, 'b', '1')
  await until(() => printed === '/config/flags/a\n/config/flags/b\n', 'what comes')
})

void t.test('the commands for tickets and for polls work when their block is pasted as a whole', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'flags-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const paste = (block: string): { readonly out: () => string; readonly ended: Promise<unknown> } => {
    const child = spawn('/bin/sh', ['-c', block], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] })
    t.teardown(() => child.kill('SIGKILL'))
    let out = ''
    child.stdout.on('data', (text: Buffer) => (out += text.toString()))
    return { out: () => out, ended: once(child, 'close') }
  }
  const etcd = await startEtcd(t)
  writeFileSync(join(folder, 'policy.yaml'), blockOf('yaml', 'ann reads'))
  const tickets = paste(
    blockOf('sh', 'ticket.key')
      .replace('npm start --', `exec ${process.execPath} ${programFile('main')} --log-level error --port 0`)
      .replace('http://127.0.0.1:2379', etcd.url),
  )
  await until(() => tickets.out().includes('\nTry, with a token'), 'the server starts')
  const [, server = ''] = /on (http:\S+)/.exec(tickets.out()) ?? []
  const path = '/apis/distributary.io/v1/flags'
  const response = await fetch(`${server}/tickets`, {
    method: 'POST',
    headers: { authorization: 'Bearer s3cret', 'content-type': 'application/json' },
    body: JSON.stringify({ path }),
  })
  const { ticket } = (await response.json()) as { readonly ticket: string }
  await until(async () => (await fetch(`${server}${path}?ticket=${ticket}`)).status === 200, 'the ticket reads')

  const app = await startApp(t, { flags: ['--resource', 'flags=/config/flags/'] })
  put(app, 'a', '1')
  const poll = paste(blockOf('sh', 'wait=20s').replace('http://127.0.0.1:8001', app.url))
  await until(() => app.watchers === 1, 'it waits')
  put(app, 'banner', 'Hello again')
  await poll.ended
  t.match(JSON.parse(poll.out()), { kind: 'WatchEvents', events: [{ object: { text: 'Hello again' } }] })
})

/**
 * A web page behind Varnish: logged in by ticket, with a saved state for offline use, while the server is killed,
 * etcd is restored from a backup and the permission is revoked. It shows every change, and nothing that it should not.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { FLAGS } from './poller.js'
import { saved } from '../client/saved-states.js'
import { serveModules } from '../client/serve-modules.js'
import { openProfile } from '../support/chromium.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { freePort } from '../support/free-port.js'
import { startHttpCache } from '../support/http-cache.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const HOSTILE = ['<img src=x onerror=fail()>', '../%2e%2e/a b?watch=1#"\u202E\'']

const POLICY = (users: string): string => `rules:
  - users: [${users}]
    verbs: [get, list, watch]
    apiGroups: [distributary.io]
    resources: [flags]
`

/** Two views of the same flags: a stream that a ticket opens, and a list that is kept in IndexedDB. */
const page = (server: string): string => `
  import { indexedDbStore, fetchTransport, LiveList, ticketEvents } from '/client/browser.js'

  globalThis.failures = []
  globalThis.fail = () => failures.push('a value became markup')
  const lines = (flags) => flags.map(({ key, value }) => key + ' = ' + JSON.stringify(value)).sort().join('\\n')
  const view = (id) => document.body.appendChild(Object.assign(document.createElement('pre'), { id }))

  const [events, kept] = [view('events'), view('kept')]
  const flags = new Map()
  ticketEvents({
    server: '${server}', token: 'ann-token', path: '${FLAGS}', backoff: { firstMs: 50, capMs: 500 },
    reset: () => flags.clear(),
    event: (type, flag) => {
      if (type === 'DELETED') flags.delete(flag.key)
      else flags.set(flag.key, flag)
      events.textContent = lines([...flags.values()])
    },
  })

  const list = new LiveList({
    transport: fetchTransport({ server: '${server}', token: 'ann-token' }), path: '${FLAGS}',
    backoff: { firstMs: 50, capMs: 500 }, saved: { store: indexedDbStore(), server: '${server}', user: 'ann' },
  })
  const show = () => {
    const { items, isLoaded, isLive, isRefused } = list.read()
    const state = isRefused ? 'refused' : !isLoaded ? 'loading' : isLive ? 'live' : 'last known'
    kept.textContent = [lines(items), state].filter((text) => text !== '').join('\\n')
  }
  list.subscribe(show)
  show()
`

void t.test('a page behind Varnish keeps up through every fault, and loses data it may not read', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'page-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const origin = await serveModules(t)
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const state = new Map<string, unknown>()
  const put = async (name: string, value: unknown): Promise<void> => {
    state.set(name, value)
    await writer.put(`/config/flags/${name}`, JSON.stringify(value))
  }
  for (const name of HOSTILE) await put(name, { on: true, html: '</pre><script>fail()</script>' })
  await put('gone', 1)

  const port = await freePort()
  // prettier-ignore
  const flags = [
    '--etcd-servers', etcd.url, '--port', String(port), '--resource', 'flags=/config/flags/', '--cors-allowed-origins', origin,
    '--token-auth-file', file('tokens.csv', 'ann-token,ann,1\n'), '--authorization-mode=Policy',
    '--authorization-policy-file', file('policy.yaml', POLICY('ann')), '--ticket-key-file', file('keys', `${'k'.repeat(40)}\n`),
  ]
  let server = await startServer(t, { flags })
  const cache = await startHttpCache(t, 'varnish', port)

  const profile = await openProfile(t)
  const tab = await profile.newPage()
  const open = async (): Promise<void> => {
    await tab.goto(origin)
    await tab.addScriptTag({ type: 'module', content: page(cache.url) })
  }
  const lines = (): string[] =>
    [...state].map(([name, value]) => `/config/flags/${name} = ${JSON.stringify(value)}`).sort()
  const shows = async (id: string, ...expected: readonly string[]): Promise<void> => {
    let shown = ''
    await until(
      async () => (shown = (await tab.textContent(`#${id}`)) ?? '') === expected.join('\n'),
      () => `${id}: ${expected.join('\n')}\nnot ${shown}`,
      60_000,
    )
  }
  const isCurrent = async (): Promise<void> => {
    await shows('events', ...lines())
    await shows('kept', ...lines(), 'live')
  }
  await open()
  await isCurrent()

  // kill -9, with changes before the next server runs.
  await server.kill()
  await put(HOSTILE[0]!, { on: false })
  state.delete('gone')
  await writer.commit({ '/config/flags/gone': null })
  server = await startServer(t, { flags })
  await isCurrent()

  await etcd.saveSnapshot(join(folder, 'backup'))
  const backup = new Map(state)
  await put(HOSTILE[1]!, 'lost by the restore')
  await put('lost', true)
  await isCurrent()
  await etcd.restoreSnapshot(join(folder, 'backup'))
  state.clear()
  for (const [name, value] of backup) state.set(name, value)
  await isCurrent()
  await put(HOSTILE[1]!, [1, 2])
  await isCurrent()

  await until(async () => (await saved(tab)).includes('[1,2]'), 'the newest state is kept')

  // Offline: the page comes from its own site, its data from the saved state.
  await profile.route(`${cache.url}/**`, (route) => route.abort('internetdisconnected'))
  const before = lines()
  await open()
  await shows('kept', ...before, 'last known')
  await put('while offline', null)
  await profile.unroute(`${cache.url}/**`)
  await isCurrent()

  file('policy.yaml', POLICY('bob'))
  await shows('kept', 'refused')
  const heard = await tab.textContent('#events')
  await put('secret', 'not for ann')
  await profile.route(`${cache.url}/**`, (route) => route.abort('internetdisconnected'))
  t.equal(await tab.textContent('#events'), heard, 'the stream is over')
  await open()
  await shows('kept', 'loading')
  t.same(await tab.evaluate('failures'), [])
  t.notMatch(server.log(), /ticket=|ann-token/)
})

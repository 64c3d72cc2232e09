/** `Impersonate-*` is never ignored: not on any transport, not on any path that is answered here, not on the way on. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startApiServer } from '../support/api-server-stand-in.js'
import { type AppHarness, pod, startApp } from '../support/app.js'
import { hold, TRANSPORTS } from './support/transports.js'

const HEADERS: readonly Readonly<Record<string, string>>[] = [
  { 'impersonate-user': 'bob' },
  { 'Impersonate-User': '' },
  { 'impersonate-group': 'web' },
  { 'impersonate-uid': '7' },
  { 'impersonate-extra-scopes': 'view' },
]
const PATHS = [
  '/api/v1/pods',
  '/api/v1/namespaces/a/pods/x',
  '/api/v1/pods?watch=1&timeoutSeconds=1',
  '/api',
  '/version',
  '/metrics',
]

const OBJECTS = { 'pods/a/x': pod('x', { namespace: 'a' }) }

function tokenFlags(t: Test): string[] {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-impersonation-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const tokens = join(directory, 'tokens.csv')
  writeFileSync(tokens, 'root-token,root,1,"system:masters"\nann-token,ann,2\n')
  return ['--token-auth-file', tokens]
}

async function assertRefused(t: Test, app: AppHarness, token: string | null): Promise<void> {
  for (const headers of HEADERS) {
    for (const path of PATHS) {
      for (const transport of TRANSPORTS) {
        if ((transport === 'SSE' || transport === 'WebSocket') && !path.includes('watch')) continue
        const held = await hold(app.url, transport, path, { token, headers })
        await held.ended
        const what = `${transport} ${path} ${JSON.stringify(headers)}`
        t.equal(held.status, 403, what)
        t.match(held.text, /impersonation is not possible here/, what)
      }
    }
  }
}

void t.test('where nobody is asked who they are, impersonation is refused', async (t) => {
  await assertRefused(t, await startApp(t, { objects: OBJECTS }), null)
})

void t.test('impersonation is refused, whoever asks', async (t) => {
  await assertRefused(t, await startApp(t, { objects: OBJECTS, flags: tokenFlags(t) }), 'root-token')
})

void t.test('it is passed on with what another server answers, and Connection cannot take it away', async (t) => {
  const behind = await startApiServer(t)
  const flags = ['--passthrough', behind.url, ...tokenFlags(t)]
  const app = await startApp(t, { objects: OBJECTS, flags })
  const impersonating = { 'impersonate-user': 'bob', 'impersonate-group': 'web' }
  for (const connection of ['close', 'close, impersonate-user, Impersonate-Group, authorization']) {
    const options = { token: 'root-token', headers: { ...impersonating, connection } }
    const held = await hold(app.url, 'HTTP/1.1', '/api/v1/secrets', options)
    t.equal(held.status, 200)
    t.match(behind.last().headers, { ...impersonating, authorization: 'Bearer root-token' }, connection)
  }
  const cached = await hold(app.url, 'HTTP/1.1', '/api/v1/pods', { token: 'root-token', headers: impersonating })
  t.equal(cached.status, 403, 'what is answered here')
})

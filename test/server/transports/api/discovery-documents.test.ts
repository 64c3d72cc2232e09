/** Which caches may keep a document that never changes. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { type AppHarness, startApp } from '../../../support/app.js'

const PATH = '/openapi/v3/api/v1'

async function cachingOf(app: AppHarness, headers: Record<string, string> = {}): Promise<string | null> {
  const index = (await (await fetch(`${app.url}/openapi/v3`, { headers })).json()) as {
    readonly paths: Record<string, { readonly serverRelativeURL: string }>
  }
  const { serverRelativeURL } = index.paths[PATH.slice('/openapi/v3/'.length)]!
  const response = await fetch(app.url + serverRelativeURL, { headers })
  await response.body?.cancel()
  return response.headers.get('cache-control')
}

void t.test('an OpenAPI document with its hash is for shared caches only if anybody may read it', async (t) => {
  t.equal(await cachingOf(await startApp(t)), 'public, immutable')
  const folder = mkdtempSync(join(tmpdir(), 'documents-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'tokens.csv')
  writeFileSync(file, 'ann-token,ann,1,system:masters\n')
  const guarded = await startApp(t, { flags: ['--token-auth-file', file, '--authorization-mode', 'RBAC'] })
  t.equal(await cachingOf(guarded, { authorization: 'Bearer ann-token' }), 'private, immutable')
})

/**
 * Tests what the server needs from its runtime. For each feature that Bun lacks, a small program shows the fault
 * without the server. Under Bun (`npm run judge -- bun`) the test fails once such a program succeeds, so docs/guide/runtimes.md
 * stays correct.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { checkRuntime } from '../../../src/server/wiring/runtime.js'
import { silentLogger } from '../../../src/support/log.js'
import { LightWatcher } from '../../support/light-watcher.js'
import { serverRuntime } from '../../support/program.js'
import { secureFlags } from '../../support/secure-flags.js'
import { startServer } from '../../support/server-process.js'

const programs = [
  new URL('./runtime/inherited-socket.js', import.meta.url),
  new URL('./runtime/first-bytes.js', import.meta.url),
  new URL('./runtime/header-deadline.js', import.meta.url),
  new URL('./runtime/full-socket.js', import.meta.url),
]
const page = readFileSync(fileURLToPath(new URL('../../../../docs/guide/runtimes.md', import.meta.url)), 'utf8')

for (const { pathname } of programs) {
  const program = `test/server/wiring/runtime/${basename(pathname, '.js')}.ts`
  void t.test(`Node has what ${program} asks for, and docs/guide/runtimes.md says that Bun lacks it`, (t) => {
    t.ok(page.includes(`../${program}`))
    t.equal(run(process.execPath, pathname), 0)
    t.end()
  })

  const runtime = serverRuntime()
  void t.test(`Bun lacks it: ${program}`, { skip: runtime === process.execPath }, (t) => {
    t.equal(run(runtime, pathname), 10, 'docs/guide/runtimes.md need not say so any more')
    t.end()
  })
}

void t.test('a watch is answered before its first event', async (t) => {
  const server = await startServer(t, { flags: [] })
  const list = await fetch(`${server.url}/api/v1/pods?limit=1`)
  const { metadata } = (await list.json()) as { readonly metadata: { readonly resourceVersion: string } }
  const query = `watch=1&labelSelector=no=such&resourceVersion=${metadata.resourceVersion}`
  const watcher = new LightWatcher(`${server.url}/api/v1/pods?${query}`)
  t.teardown(() => watcher.destroy())
  await watcher.until(({ status }) => status === 200)
})

void t.test('Bun is named in the log, and workers are refused there', (t) => {
  t.doesNotThrow(() => checkRuntime({ workers: 2 }, silentLogger, undefined), 'Node')
  t.doesNotThrow(() => checkRuntime({ workers: 1 }, silentLogger, '1.4.5'))
  t.throws(() => checkRuntime({ workers: 2 }, silentLogger, '1.4.5'), { name: 'ConfigError', message: /--workers=2/ })
  t.end()
})

function run(runtime: string, program: string): number | null {
  const [, , , certFile, , keyFile] = secureFlags()
  return spawnSync(runtime, [program, keyFile!, certFile!], { stdio: 'inherit', timeout: 60_000 }).status
}

/** Tests that the client is a separate package, which neither contains nor needs anything of the server. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { declarationErrors, MAX_TICKET_EVENTS_BYTES, scriptBytes } from './support/installed-client.js'
import { root, startServerProcess } from './support/server-process.js'
import { until } from '../support/until.js'

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }

function npm(cwd: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`npm ${args.join(' ')}: ${stderr}`)
  return stdout
}

/** Prints the objects and the events until its input ends. */
const WATCHES = `
import { nodeTransport, SharedInformer } from 'distributary-client'
const transport = nodeTransport({ server: process.argv[2] })
const informer = new SharedInformer({ transport, path: '/apis/distributary.io/v1/flags' })
informer.addHandler({ added: ({ metadata }) => console.log('added', metadata.name) })
informer.start()
await informer.whenSynced()
console.log('synced', informer.store.list().length)
process.stdin.once('end', async () => {
  await informer.stop()
  transport.close()
}).resume()
`

void t.test('the client installs alone, and follows a server without the server’s code', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-client-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const made = join(folder, 'made')
  const run = (...args: string[]): string => {
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' })
    if (status !== 0) throw new Error(`${stdout}${stderr}`)
    return stdout
  }
  // Compiles only the sources that the client needs, as `npm run build` compiles all of them.
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      extends: join(root, 'tsconfig.build.json'),
      compilerOptions: {
        rootDir: join(root, 'src'),
        outDir: join(folder, 'dist'),
        typeRoots: [join(root, 'node_modules/@types')],
        incremental: false,
        tsBuildInfoFile: null,
      },
      files: ['index.ts', 'browser.ts', 'react.ts', 'react-module.d.ts'].map((name) => join(root, 'src/client', name)),
      include: [],
      references: [],
    }),
  )
  run(join(root, 'node_modules/typescript-7/bin/tsc'), '-p', folder)
  run(join(root, 'deploy/client-package.js'), made, join(folder, 'dist'))
  const [packed] = JSON.parse(npm(folder, 'pack', '--json', '--ignore-scripts', './made')) as {
    name: string
    version: string
    filename: string
    files: { path: string }[]
  }[]
  t.match(packed, { name: 'distributary-client', version })
  t.same(
    packed!.files
      .map(({ path }) => path)
      .filter(
        (path) =>
          !/^((client|support|engine\/model|kubernetes\/model)\/.*\.(js|d\.ts)|LICENSE|NOTICE|README\.md|package\.json)$/.test(
            path,
          ),
      ),
    [],
    'nothing of the server is in it',
  )
  const manifest = JSON.parse(readFileSync(join(made, 'package.json'), 'utf8')) as { dependencies: object }
  t.same(Object.keys(manifest.dependencies), ['yaml'], 'React is the application’s')

  // First without any package at all, as in a page or a container that copies files.
  const bare = join(folder, 'bare/node_modules/distributary-client')
  mkdirSync(bare, { recursive: true })
  const unpacked = spawnSync('tar', ['-xzf', join(folder, packed!.filename), '-C', bare, '--strip-components=1'])
  t.equal(unpacked.status, 0)
  t.same(readdirSync(join(folder, 'bare/node_modules')), ['distributary-client'])
  writeFileSync(join(folder, 'bare/watch.mjs'), WATCHES)
  const server = await startServerProcess(t, {
    args: ['--port', '0', '--resource', 'flags=/flags/', '--enable-writes'],
  })
  const child = spawn(process.execPath, [join(folder, 'bare/watch.mjs'), server.url], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  await until(() => out.includes('synced 0'), 'it has synced', 30_000)
  const path = `${server.url}/apis/distributary.io/v1/flags`
  const body = JSON.stringify({
    apiVersion: 'distributary.io/v1',
    kind: 'Flag',
    metadata: { name: 'new' },
    value: 'on',
  })
  const created = await fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  t.equal(created.status, 201, await created.text())
  await until(() => out.includes('added new'), 'it reports a change', 30_000)
  const ended = once(child, 'exit')
  child.stdin.end()
  t.same(await ended, [0, null])

  // Then the client as npm installs it.
  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  npm(folder, 'install', '--prefer-offline', '--no-audit', '--no-fund', `./${packed!.filename}`)
  const installed = readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.'))
  t.same(installed.sort(), ['distributary-client', 'yaml'])
  t.ok((await scriptBytes(folder, 'distributary-client', 'ticketEvents')) < MAX_TICKET_EVENTS_BYTES)
  t.same(declarationErrors(folder, ['distributary-client', 'distributary-client/react']), [])
  writeFileSync(
    join(folder, 'config'),
    '{contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://a"}}]}',
  )
  const reads = `import { loadKubeconfig } from 'distributary-client'; console.log((await loadKubeconfig('config')).server)`
  writeFileSync(join(folder, 'reads.mjs'), reads)
  t.equal(run('reads.mjs'), 'https://a\n')

  // Test with the newest React. The other tests use the oldest supported one.
  npm(folder, 'install', '--prefer-offline', '--no-audit', '--no-fund', 'react@19', 'react-dom@19')
  const renders = `import { createElement } from 'react'
import { renderToString } from 'react-dom/server'
import { LiveList } from 'distributary-client'
import { useList, useObject } from 'distributary-client/react'
const list = new LiveList({ path: '/api/v1/pods', transport: { send: () => process.exit(1) } })
const Page = () => createElement('p', null, String(useList(list).isLoaded), String(useObject(list, 'a').object))
console.log(renderToString(createElement(Page)))`
  writeFileSync(join(folder, 'renders.mjs'), renders)
  t.match(run('renders.mjs'), /^<p>false.*undefined<\/p>\n$/)
})

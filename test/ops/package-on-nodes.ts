/**
 * `npm run test:package`: the package, installed into an empty project by the strict rules of npm and started, on each
 * Node that is supported and on the one of the container. npm's package `node` brings them; where the registry cannot be
 * asked, a line says what is skipped. The last line is `N passed, N failed`.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { installPackage, makePackage, run } from './support/package.js'
import { root, startServerProcess } from './support/server-process.js'
import { imageNode, supportedNodes } from './support/versions.js'

async function main(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-nodes-'))
  let passed = 0
  let failed = 0
  try {
    const { tarball } = makePackage(folder)
    for (const version of [...supportedNodes(), imageNode()]) {
      const node = nodeOf(version)
      if (node === null) continue
      try {
        await tryOn(node, tarball, join(folder, version))
        process.stdout.write(`Node ${version}: the package installs and serves\n`)
        passed++
      } catch (error) {
        process.stdout.write(`Node ${version}: ${error instanceof Error ? error.message : String(error)}\n`)
        failed++
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  process.stdout.write(`${passed} passed, ${failed} failed\n`)
  return failed === 0 ? 0 : 1
}

/** @throws Error that says what it does not do. */
async function tryOn(node: string, tarball: string, folder: string): Promise<void> {
  const program = join(installPackage(folder, tarball, node), 'dist/main.js')
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly version: string }
  const name = run(folder, node, program, '--version').trim()
  if (name !== `distributary ${version}`) throw new Error(`it calls itself ${name}`)
  const teardowns: (() => unknown)[] = []
  // All that the process wants of a test is to be told when it ends.
  const t = { teardown: (done: () => unknown) => void teardowns.push(done) } as unknown as Test
  try {
    const server = await startServerProcess(t, { command: [node, program], cwd: folder })
    const list = await (await fetch(`${server.url}/api/v1/pods?limit=1`)).text()
    if (!list.includes('"kind":"PodList"')) throw new Error(`it lists ${list.slice(0, 500)}`)
    const code = await server.stop()
    if (code !== 0) throw new Error(`it ends with ${code}`)
  } finally {
    for (const done of teardowns) await done()
  }
}

/** null, with a line that says why, where it cannot be had. */
function nodeOf(version: string): string | null {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  const folder = join(cache, 'distributary', 'nodes', version)
  const node = join(folder, 'node_modules/node/bin/node')
  try {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{"private":true}')
    // Newer patches come as they are published; without the registry, the one that was there before will do.
    run(folder, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-online', `node@${version}`)
  } catch (error) {
    if (!existsSync(node)) {
      const [why] = error instanceof Error ? error.message.split('\n') : ['']
      process.stdout.write(`skipped: Node ${version}, since npm cannot bring it: ${why}\n`)
      return null
    }
  }
  run(folder, node, '--version')
  return node
}

process.exitCode = await main()

/**
 * `npm run judge -- package`: installs the package into an empty project with npm's strict rules and starts it, on each
 * supported Node and on that of the container. Nodes come from npm's package `node`; without the registry, a line says
 * what is skipped. The last line is `N passed, N failed`.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { installPackage, makePackage, run } from './support/package.js'
import { root, startServerProcess } from './support/server-process.js'
import { imageNode, supportedNodes } from './support/versions.js'
import { runtimeProgram } from '../support/runtime-program.js'

async function main(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-nodes-'))
  let passed = 0
  let failed = 0
  try {
    const { tarball } = makePackage(folder)
    for (const version of [...supportedNodes(), imageNode()]) {
      const node = runtimeProgram('node', version)
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

/** @throws Error that says what fails. */
async function tryOn(node: string, tarball: string, folder: string): Promise<void> {
  const program = join(installPackage(folder, tarball, node), 'dist/main.js')
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly version: string }
  const name = run(folder, node, program, '--version').trim()
  if (name !== `distributary ${version}`) throw new Error(`it calls itself ${name}`)
  const teardowns: (() => unknown)[] = []
  // The process uses only `teardown` of a test.
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

process.exitCode = await main()

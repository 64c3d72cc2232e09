/** The published package as its users get it: built, packed, and installed into an empty folder. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { root } from './server-process.js'

export interface Packed {
  /** The path of the package's file. */
  readonly tarball: string
  readonly size: number
  readonly files: readonly string[]
}

/** Builds the package from the working tree. @param folder where it is built. */
export function makePackage(folder: string): Packed {
  // What `npm run pack:server` runs, except the type check, which does not affect the result.
  rmSync(join(root, 'dist'), { recursive: true, force: true })
  run(root, 'npm', 'run', 'build', '--', '--noCheck')
  const made = join(folder, 'made')
  run(root, process.execPath, 'deploy/server-package.js', made)
  const [packed] = JSON.parse(run(folder, 'npm', 'pack', '--json', '--ignore-scripts', './made')) as {
    filename: string
    size: number
    files: { path: string }[]
  }[]
  const { filename, size, files } = packed!
  return { tarball: join(folder, filename), size, files: files.map(({ path }) => path) }
}

/**
 * Installs the package with an npm that refuses unmet requirements. No registry is used: the package needs no other.
 * @param node the Node.js to use, which runs the npm beside it.
 * @returns the folder of the package.
 */
export function installPackage(folder: string, tarball: string, node = process.execPath): string {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  const path = `${dirname(node)}${delimiter}${process.env['PATH']}`
  const options = ['--engine-strict', '--offline', '--no-audit', '--no-fund']
  const { status, stderr } = spawnSync('npm', ['install', ...options, tarball], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, PATH: path },
  })
  if (status !== 0) throw new Error(`npm install: ${stderr}`)
  return join(folder, 'node_modules/distributary')
}

export function run(cwd: string, program: string, ...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}`)
  return stdout
}

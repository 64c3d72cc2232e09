#!/usr/bin/env node
/**
 * The client as a separate package, `distributary-client`, from the server's build: `npm run pack:client`, then `npm
 * publish dist-client`.
 *
 * It contains only the files that `client/index.js`, `client/browser.js` and `client/react.js` import, so that no file
 * of the server gets in unnoticed. Its dependencies are the packages that these files import, at the server's versions;
 * React comes from the application. One package with optional or peer dependencies was rejected: optional ones install
 * the server's packages for everybody who does not know the flag, and peer ones break `npx distributary`.
 */
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { clientEntries, importsOf } from './package-files.js'

const root = fileURLToPath(new URL('../', import.meta.url))
const [target, dist = join(root, 'dist'), ...more] = process.argv.slice(2)
if (target === undefined || more.length > 0) {
  process.stderr.write('usage: node deploy/client-package.js OUTPUT_FOLDER [BUILD_FOLDER]\n')
  process.exit(2)
}

const { files, packages } = importsOf(clientEntries(dist))

const server = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const peers = server.peerDependencies
const needed = [...packages].filter((name) => peers[name] === undefined)
const unknown = needed.filter((name) => server.dependencies[name] === undefined)
if (unknown.length > 0) {
  process.stderr.write(`client package: ${unknown.join(', ')} is imported, but not a dependency of the server\n`)
  process.exit(1)
}
const entries = (name) => ({ types: `./client/${name}.d.ts`, default: `./client/${name}.js` })
const manifest = {
  name: `${server.name}-client`,
  version: server.version,
  description: 'List, watch and informers for Node and browsers, against distributary or any Kubernetes API server',
  license: server.license,
  repository: server.repository,
  homepage: server.homepage,
  bugs: server.bugs,
  type: server.type,
  sideEffects: server.sideEffects,
  exports: {
    '.': { browser: entries('browser'), ...entries('index') },
    './react': entries('react'),
    './package.json': './package.json',
  },
  engines: server.engines,
  keywords: ['kubernetes', 'informer', 'watch', 'list-watch', 'controller', 'etcd'],
  dependencies: Object.fromEntries(needed.sort().map((name) => [name, server.dependencies[name]])),
  peerDependencies: peers,
  peerDependenciesMeta: server.peerDependenciesMeta,
}

rmSync(target, { recursive: true, force: true })
mkdirSync(target, { recursive: true })
for (const file of files) {
  const to = join(target, relative(dist, file))
  mkdirSync(dirname(to), { recursive: true })
  copyFileSync(file, to)
}
writeFileSync(join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
for (const file of ['LICENSE', 'NOTICE']) copyFileSync(join(root, file), join(target, file))
copyFileSync(join(root, 'deploy/README-client.md'), join(target, 'README.md'))
process.stdout.write(`client package: ${files.size} files, ${needed.join(', ')} beside them\n`)

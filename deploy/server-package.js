#!/usr/bin/env node
/**
 * The published package, `distributary`, from the build: `npm run pack:server`, then `npm publish dist-package`.
 *
 * Its modules and those of its dependencies are put into a few files, at the versions of the lock file. So it depends on no
 * other package: users run exactly the tested code, on every supported Node, and it starts sooner. Bundled
 * dependencies (57 MB) and a shrinkwrap (which npm 11 ignores in a tarball) were rejected. The client's modules stay
 * separate, because a page's bundler can leave out whole modules that the page does not use, but little of a bundle.
 */
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { clientEntries, filesOf, importsOf } from './package-files.js'

const root = fileURLToPath(new URL('../', import.meta.url))
const [target, dist = join(root, 'dist'), ...more] = process.argv.slice(2)
if (target === undefined || more.length > 0) {
  process.stderr.write('usage: node deploy/server-package.js OUTPUT_FOLDER [BUILD_FOLDER]\n')
  process.exit(2)
}

/** Files that the server reads, by their place in the package. */
const READ = {
  'dist/server/ui/page/uPlot.min.css': 'node_modules/uplot/dist/uPlot.min.css',
  'dist/server/ui/page/uPlot.iife.min.js': 'node_modules/uplot/dist/uPlot.iife.min.js',
  ...sameIn(filesOf(join(root, 'src/server/ui/page'), /\.(html|css|svg)$/)),
  ...sameIn(filesOf(join(root, 'src'), /\.(json|txt)$/)),
}
const BESIDE = ['LICENSE', 'NOTICE', 'THIRD-PARTY-LICENSES.txt', 'README.md', 'CHANGELOG.md']

/** Names that CommonJS packages use, defined for the bundle. */
const BANNER =
  "import { createRequire as requireIn } from 'node:module'; " +
  "const require = requireIn(import.meta.url); const placeOfBuild = new URL('./', import.meta.url);"

/** Keeps paths that are relative to a module working, and bundles packages that are loaded lazily. */
const places = {
  name: 'places',
  setup(context) {
    context.onLoad({ filter: /\.js$/ }, ({ path }) => {
      const place = relative(dist, path)
      if (place.startsWith('..')) return undefined
      const source = readFileSync(path, 'utf8')
      const isLate = place === 'support/yaml.js'
      const contents = isLate ? source.replace(/^const require = createRequire\(import\.meta\.url\);?$/m, '') : source
      if (isLate && contents === source) throw new Error(`${place} does not load its package in the expected way`)
      return {
        contents: contents.replaceAll('import.meta.url', `new URL(${JSON.stringify(place)}, placeOfBuild).href`),
      }
    })
  },
}

const server = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
/** Started or imported by the paths of the build: threads, and what the container's health check imports. */
const byPath = [...filesOf(dist, /-thread\.js$/), join(dist, 'server/config/load.js')]

rmSync(target, { recursive: true, force: true })
const out = join(target, 'dist')
await build({
  ...common(),
  entryPoints: [join(dist, 'main.js'), ...byPath],
  outdir: out,
  entryNames: '[name]',
  splitting: true,
})
// The bundles are next to each other.
for (const file of byPath) write(relative(dist, file), `export * from '${toRoot(file)}${basename(file)}'\n`)
// The page's modules need no bundler.
for (const file of filesOf(join(dist, 'server/ui/page'), /\.js$/)) copy(file, join(out, relative(dist, file)))
const client = importsOf(clientEntries(dist))
for (const file of client.files) copy(file, join(out, relative(dist, file)))
// The one module of the client that loads a package.
const yaml = join(dist, 'support/yaml.js')
if (!client.files.has(yaml)) throw new Error('the client does not load its YAML parser in the expected way')
await build({ ...common(), entryPoints: [yaml], outdir: join(out, 'support') })
for (const [to, from] of Object.entries(READ)) copy(join(root, from), join(target, to))
for (const file of BESIDE) copy(join(root, file), join(target, file))

const { name, version, description, license, repository, homepage, bugs, type, bin, exports, engines, keywords } =
  server
const { sideEffects, peerDependencies, peerDependenciesMeta } = server
const manifest = {
  ...{ name, version, description, license, repository, homepage, bugs, type, bin, exports, engines, keywords },
  ...{ sideEffects, peerDependencies, peerDependenciesMeta },
}
writeFileSync(join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
process.stdout.write(`server package: ${filesOf(out, /\.js$/).length} modules, and no dependencies\n`)

function common() {
  return {
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: `node${server.engines.node.replace('>=', '')}`,
    // Keep the names of errors and functions, because people read stack traces.
    keepNames: true,
    // V8 keeps the source of every module in memory, with two bytes for each character if one of them is not Latin-1.
    minifyWhitespace: true,
    lineLimit: 200,
    charset: 'ascii',
    legalComments: 'none',
    logLevel: 'warning',
    plugins: [places],
    banner: { js: BANNER },
  }
}

function sameIn(files) {
  return Object.fromEntries(files.map((file) => [relative(root, file), relative(root, file)]))
}

function toRoot(file) {
  return '../'.repeat(relative(dist, file).split('/').length - 1)
}

function write(path, text) {
  mkdirSync(dirname(join(out, path)), { recursive: true })
  writeFileSync(join(out, path), text)
}

function copy(from, to) {
  mkdirSync(dirname(to), { recursive: true })
  copyFileSync(from, to)
}

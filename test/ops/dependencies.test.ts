/**
 * Every package in `package.json` is used, every used package is listed in the right place, and docs/project/dependencies.md
 * gives the reason for each. Imports are read by the compiler's own scanner, not by a pattern.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { root } from './support/server-process.js'

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly overrides?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
  readonly scripts?: Readonly<Record<string, string>>
  readonly bin?: string | Readonly<Record<string, string>>
}

const text = (path: string): string => readFileSync(join(root, path), 'utf8')
const manifestOf = (path: string): Manifest => JSON.parse(text(join(path, 'package.json'))) as Manifest
const manifest = manifestOf('.')
const names = (of: Readonly<Record<string, unknown>> = {}): string[] => Object.keys(of).sort()

/** `@a/b/c` → `@a/b`, `a/b` → `a`. */
function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/**
 * Returns the packages in `import`, `import()`, `require` and `require.resolve` that are neither files nor part of
 * Node.
 */
function packagesIn(source: string): string[] {
  const scanned = ts.preProcessFile(source, true, true).importedFiles.map(({ fileName }) => fileName)
  const resolved = [...source.matchAll(/(?:(?<!Promise)\.resolve|createRequire\([^)]*\))\('([^']+)'\)/g)].map(
    ([, name]) => name!,
  )
  // A module of Bun's own is none of npm's packages.
  const packages = [...scanned, ...resolved]
    .filter((name) => /^[@a-z]/.test(name) && !isBuiltin(name) && !name.startsWith('bun:'))
    .map(packageOf)
  return [...new Set(packages)]
}

/** Package → the first file that imports it. */
function usedBy(folders: readonly string[]): Map<string, string> {
  const used = new Map<string, string>()
  for (const folder of folders) {
    for (const path of readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })) {
      if (!/\.(ts|js|mjs)$/.test(path)) continue
      const file = join(folder, path)
      for (const name of packagesIn(text(file))) if (!used.has(name)) used.set(name, file)
    }
  }
  return used
}

void t.test('imports of every kind are found', async (t) => {
  // The names are inserted, so that this file itself does not seem to import them.
  const [e, f] = ['e', 'f']
  const source = `
    import a from 'a'
    import type { B } from '@b/b/deep'
    export * from 'c/d'
    const d = await import('d')
    const e = createRequire(import.meta.url)('${e}') as object
    const f = dirname(require.resolve('${f}'))
    import './own.js'
    import 'node:fs'
    // import g from 'g'
    const text = "import h from 'h'"`
  t.same(packagesIn(source).sort(), ['@b/b', 'a', 'c', 'd', 'e', 'f'])
})

void t.test('the shipped code uses every package it installs, and no other', async (t) => {
  const used = usedBy(['src'])
  const shipped = [...names(manifest.dependencies), ...names(manifest.optionalDependencies)]
  t.ok(used.size > 10, `${used.size} packages are used`)
  t.same(
    shipped.filter((name) => !used.has(name)),
    [],
    'named, and imported nowhere in src: npm uninstall it',
  )
  const known = [...shipped, ...names(manifest.peerDependencies)]
  t.same(
    [...used].filter(([name]) => !known.includes(name)),
    [],
    'imported in src, and not among the dependencies',
  )
})

void t.test('a peer is optional, and imported only where its user is', async (t) => {
  t.same(names(manifest.peerDependencies), names(manifest.peerDependenciesMeta))
  for (const [name, { optional }] of Object.entries(manifest.peerDependenciesMeta ?? {})) t.equal(optional, true, name)
  const importers = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && packagesIn(text(join('src', path))).includes('react'),
  )
  t.same(importers, ['client/react.ts'])
})

void t.test('every development package is imported, or a tool of a script, or provides types for one', async (t) => {
  const used = usedBy(['src', 'test', 'bench', 'deploy'])
  const development = names(manifest.devDependencies)
  const words = new Set(Object.values(manifest.scripts ?? {}).flatMap((script) => script.split(/\s+/)))
  const isTool = (name: string): boolean => {
    const { bin = {} } = manifestOf(`node_modules/${name}`)
    if ([...words].some((word) => word.startsWith(`node_modules/${name}/`))) return true
    return (typeof bin === 'string' ? [name] : Object.keys(bin)).some((program) => words.has(program))
  }
  const isTypes = (name: string): boolean => name === '@types/node' || used.has(name.replace(/^@types\//, ''))
  const peersOf = (name: string): string[] => names(manifestOf(`node_modules/${name}`).peerDependencies)
  // For example oxlint-tsgolint for oxlint, and react-dom, which only bundled pages import, for react.
  const isCompanion = (name: string): boolean =>
    development.some((other) => peersOf(other).includes(name)) || peersOf(name).some((other) => used.has(other))
  t.same(
    development.filter(
      (name) =>
        !used.has(name) && !isTool(name) && !(name.startsWith('@types/') && isTypes(name)) && !isCompanion(name),
    ),
    [],
    'used nowhere: npm uninstall it',
  )
  const known = new Set([...development, ...names(manifest.dependencies), ...names(manifest.optionalDependencies)])
  // The examples import the package itself, as their readers will.
  known.add('distributary')
  t.same(
    [...used].filter(([name]) => !known.has(name)),
    [],
    'imported, and not named in package.json',
  )
})

void t.test('docs/project/dependencies.md gives the reason for each package, and names no other', async (t) => {
  const sections = text('docs/project/dependencies.md').split(/^## /m).slice(1)
  const expected = [manifest.dependencies, manifest.optionalDependencies, manifest.devDependencies, manifest.overrides]
  t.equal(sections.length, expected.length)
  for (const [index, section] of sections.entries()) {
    const rows = [...section.matchAll(/^\| `([^`]+)` \| (.*) \| (.*) \|$/gm)]
    t.same(
      rows.map(([, name]) => name),
      names(expected[index]),
      `section ${index + 1}`,
    )
    for (const [, name, purpose = '', reason = ''] of rows) {
      t.ok(purpose.trim() !== '' && reason.trim() !== '', `${name} has a purpose and a reason`)
    }
  }
})

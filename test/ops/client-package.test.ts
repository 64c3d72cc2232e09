import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** Paths of every source reachable by imports from there, including types, and the names of packages. */
function importsOf(entry: string): { files: string[]; packages: string[] } {
  const files = new Set<string>()
  const packages = new Set<string>()
  const visit = (file: string): void => {
    if (files.has(file)) return
    files.add(file)
    for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(/^(?:import|export)\b[^'"]*?from '([^']+)'/gm)) {
      if (name.startsWith('.')) visit(join(dirname(file), name.replace(/\.js$/, '.ts')))
      else packages.add(name)
    }
  }
  visit(join(root, entry))
  return { files: [...files].map((file) => relative(root, file)), packages: [...packages] }
}

void t.test('the browser’s client needs no Node module and no package', async (t) => {
  t.same(importsOf('src/client/browser.ts').packages, [])
})

void t.test('the client does not import the server', async (t) => {
  const { files, packages } = importsOf('src/client/index.ts')
  t.same(
    files.filter((file) => !/^src\/(client|engine\/model|kubernetes\/model|support)\//.test(file)),
    [],
  )
  t.same(
    packages.filter((name) => !name.startsWith('node:')),
    [],
    'and no package: the YAML reader is loaded when there is a kubeconfig to read',
  )
})

void t.test('the hooks need only React, which the application provides', async (t) => {
  t.same(importsOf('src/client/react.ts').packages, ['react'])
  const { exports, dependencies, peerDependenciesMeta } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  ) as {
    exports: { './react': object }
    dependencies: object
    peerDependenciesMeta: object
  }
  t.match(exports['./react'], { types: './dist/client/react.d.ts', default: './dist/client/react.js' })
  t.notOk('react' in dependencies)
  t.match(peerDependenciesMeta, { react: { optional: true } })
})

void t.test('the package offers both, with their types', async (t) => {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: { './client': { types: string; default: string; browser: { types: string; default: string } } }
  }
  const client = exports['./client']
  t.match(client, { types: './dist/client/index.d.ts', default: './dist/client/index.js' })
  t.match(client.browser, { types: './dist/client/browser.d.ts', default: './dist/client/browser.js' })
})

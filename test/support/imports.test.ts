import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { importsOf, sourcesOf } from './imports.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** Writes sources into a folder of the repository. Returns a function from name to path. */
function write(t: Test, sources: Readonly<Record<string, string>>): (name: string) => string {
  const folder = mkdtempSync(join(root, '.build', 'imports-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const [name, text] of Object.entries(sources)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return (name) => join(relative(root, folder), name)
}

void t.test('a source runs its imports, theirs, and the modules that it starts or serves', (t) => {
  const at = write(t, {
    'a.ts': [
      `import { readFileSync } from 'node:fs'`,
      `import {\n  b,\n} from './b.js'`,
      `export * from './c.js'`,
      `import './d.js'`,
      // In two parts; otherwise it would count as an import of this file.
      ['const e = async () => await import', `('./e.js')`].join(''),
      `new Worker(new URL('thread/f.js', import.meta.url))`,
      `readFileSync(new URL(\`page/\${name}\`, import.meta.url))`,
      `readFileSync(new URL('../../../../docs/reference/options.md', import.meta.url))`,
    ].join('\n'),
    'b.ts': `import { a } from './a.js'`,
    'c.ts': `import type { T } from './types.js'\nexport type { U } from './types.js'`,
    'd.ts': `type V = typeof import('./types.js')`,
    'e.ts': '',
    'thread/f.ts': `import { g } from '../g.js'`,
    'g.ts': '',
    'page/h.ts': '',
    'types.ts': '',
    'other.ts': '',
  })
  const all = ['a.ts', 'b.ts', 'c.ts', 'd.ts', 'e.ts', 'g.ts', 'page/h.ts', 'thread/f.ts']
  t.same([...sourcesOf([at('a.ts')])].sort(), all.map(at).sort())
  t.same(importsOf(at('c.ts')), [], 'types are gone when it runs')
  t.same(new Set(importsOf(at('c.ts'), { types: true })), new Set([at('types.ts')]))
  t.end()
})

void t.test('a missing import is an error, even if a module compiled earlier exists', (t) => {
  const at = write(t, { 'a.ts': `import { b } from './b.js'`, 'b.js': 'export const b = 1' })
  t.throws(() => sourcesOf([at('a.ts')]), { message: `${at('a.ts')} imports ${at('b.ts')}, which does not exist` })
  t.end()
})

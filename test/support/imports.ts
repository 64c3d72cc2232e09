/** Determines from its text which files a source file loads. Paths are relative to the repository. */
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getOrMake } from '../../src/support/memo.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** `import` and `export … from`. */
const STATIC = /^(?:import|export)\s+(?:(type)\s)?(?:[^'"]*?\sfrom\s+)?'(\.[^']+)'/gm
const DYNAMIC = /(?<!typeof )import\('(\.[^']+)'\)/g
/** A program, thread or page that is started or read as a file. Only the constant beginning of a template counts. */
const BESIDE = /new URL\(\s*['`]([^'`$]+)[^,]*,\s*import\.meta\.url/g

export function readSource(source: string): string {
  return readFileSync(join(root, source), 'utf8')
}

/** The sources that `source` imports. `types` adds those imported only for types. */
export function importsOf(source: string, { types = false } = {}): string[] {
  const text = readSource(source)
  const found = [...text.matchAll(STATIC)].filter(([, type]) => types || type === undefined)
  return [...found.map(([, , path]) => path!), ...[...text.matchAll(DYNAMIC)].map(([, path]) => path!)].map((path) => {
    const imported = join(dirname(source), path).replace(/\.js$/, '.ts')
    if (!existsSync(join(root, imported))) throw new Error(`${source} imports ${imported}, which does not exist`)
    return imported
  })
}

/** The sources that each source loads by itself. They are read once, because most tests load the same ones. */
const loadedBy = new Map<string, readonly string[]>()

/**
 * These sources and everything they run: their imports, and modules they refer to with `new URL('…', import.meta.url)`.
 */
export function sourcesOf(sources: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>()
  const waiting = sources.map((source) => normalize(source))
  for (let source = waiting.pop(); source !== undefined; source = waiting.pop()) {
    if (found.has(source)) continue
    found.add(source)
    waiting.push(...getOrMake(loadedBy, source, () => [...importsOf(source), ...modulesBeside(source)]))
  }
  return found
}

/** Compiled modules have the same relative paths in `.build/` as their sources in the repository. */
function modulesBeside(source: string): string[] {
  return [...readSource(source).matchAll(BESIDE)].flatMap(([, path]) => {
    const target = join(dirname(source), path!)
    // `.build/` itself, or a file outside it.
    if (target === './' || target.startsWith('..')) return []
    if (target.endsWith('.js'))
      return [target.replace(/\.js$/, '.ts')].filter((module) => existsSync(join(root, module)))
    return target.endsWith('/') && existsSync(join(root, target)) ? filesIn(target) : []
  })
}

/** The sources in a folder of the repository, at any depth. */
export function filesIn(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && statSync(join(root, folder, file)).isFile())
    .map((file) => join(folder, file))
}

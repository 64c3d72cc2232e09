/** Helpers of the scripts that make packages. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'

/** The files under a folder whose names match, in order. */
export function filesOf(folder, name) {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => name.test(path))
    .sort()
    .map((path) => join(folder, path))
}

/** The modules of a build that the client's users import, and their declarations. */
export function clientEntries(dist) {
  return ['index', 'browser', 'react'].flatMap((entry) =>
    ['js', 'd.ts'].map((end) => join(dist, `client/${entry}.${end}`)),
  )
}

/** Modules with everything they import, and the packages among that; types too, where one is a declaration. */
export function importsOf(entries) {
  const files = new Set()
  const packages = new Set()
  const collect = (file) => {
    if (files.has(file)) return
    files.add(file)
    for (const { fileName: name } of ts.preProcessFile(readFileSync(file, 'utf8'), true, true).importedFiles) {
      if (name.startsWith('node:')) continue
      if (!name.startsWith('.')) packages.add(name)
      else collect(join(dirname(file), file.endsWith('.d.ts') ? name.replace(/\.js$/, '.d.ts') : name))
    }
  }
  for (const entry of entries) collect(entry)
  return { files, packages }
}

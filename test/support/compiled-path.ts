import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const build = fileURLToPath(new URL('../../', import.meta.url))

/** The absolute path of a source's compiled module. */
export function compiledPath(source: string): string {
  return join(build, source.replace(/\.ts$/, '.js'))
}

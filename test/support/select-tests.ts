/** Which tests some names stand for. */
import { readdirSync } from 'node:fs'
import { join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** They want a newer etcd than Debian's, and minutes or root: `npm run test:etcd` runs them. */
const ONLY_BY_NAME = join('test', 'etcd') + sep

/** The sources of what `npm test` runs, or of all tests that `names` name or have in their folders; relative to the root. */
export function selectTests(names: readonly string[]): string[] {
  const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => join('test', file))
    .sort()
  if (names.length === 0) return files.filter((file) => !file.startsWith(ONLY_BY_NAME))
  const wanted = names.map((name) => relative(root, resolve(name)))
  return files.filter((file) => wanted.some((path) => file === path || file.startsWith(`${path}/`)))
}

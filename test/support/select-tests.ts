/** Which compiled tests some names stand for. */
import { readdirSync } from 'node:fs'
import { join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** They want a newer etcd than Debian's, and minutes or root: `npm run test:etcd` runs them. */
const ONLY_BY_NAME = join('.build', 'test', 'etcd') + sep

/** Where the longest tests are. They begin first, so that none of them runs on alone at the end. */
const LONG = [
  'integration/',
  'fleet/',
  'fault/',
  'bench/',
  'ops/',
  'ui/',
  'feed/feed/',
  'conformance/',
  'guarantees/live.',
  'reference/recorded.',
  'security/',
  'transports/',
  'upstream/etcd/etcd-upstream/',
  'docs/commands-of-pages.',
].map((place) => join('.build', 'test', place))

/** Compiled paths relative to the root, of what `npm test` runs or of all tests under one of `names`. */
export function selectTests(names: readonly string[]): string[] {
  const sources = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  const files = sources
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => join('.build', 'test', file.replace(/\.ts$/, '.js')))
    .sort()
    .sort((a, b) => Number(isLong(b)) - Number(isLong(a)))
  if (names.length === 0) return files.filter((file) => !file.startsWith(ONLY_BY_NAME))
  const wanted = names.map((name) => {
    const path = relative(root, resolve(name)).replace(/\.ts$/, '.js')
    return path.startsWith('.build') ? path : join('.build', path)
  })
  return files.filter((file) => wanted.some((path) => file === path || file.startsWith(`${path}/`)))
}

function isLong(file: string): boolean {
  return LONG.some((folder) => file.startsWith(folder))
}

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../../', import.meta.url))

/** @param path in the repository. */
export function readText(path: string): string {
  return readFileSync(root + path, 'utf8')
}

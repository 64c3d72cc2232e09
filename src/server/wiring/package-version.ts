/** The version, from the package.json above this file: two folders up in the package, three in a test build. */
import { readFileSync } from 'node:fs'

export function packageVersion(): string {
  for (const path of ['../../package.json', '../../../package.json']) {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as Record<
        string,
        string
      >
      if (name === 'distributary' && version !== undefined) return version
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
    }
  }
  return 'unknown'
}

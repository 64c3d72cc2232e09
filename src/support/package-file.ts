/** Reads files of the package that the compiler does not copy. */
import { readFileSync } from 'node:fs'

/** The package's root is two folders up in the published package, and three in a test build. */
const ROOTS = ['../../', '../../../']

/** @param path relative to the package's root. @throws Error when there is no such file. */
export function readPackageFile(path: string): Buffer {
  for (const root of ROOTS) {
    try {
      return readFileSync(new URL(root + path, import.meta.url))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
  throw new Error(`the package has no ${path}`)
}

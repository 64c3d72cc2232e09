/** Reads files of the package that the compiler does not copy. */
import { readFileSync } from 'node:fs'

/** The package's root: two folders up in the package, three in a test build. */
const ROOTS = ['../../', '../../../']

/** @param path from the package's root. @throws Error when there is no such file. */
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

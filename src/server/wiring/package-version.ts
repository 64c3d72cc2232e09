/**
 * Reads this package's version.
 */
import { readPackageFile } from '../../support/package-file.js'

export function packageVersion(): string {
  return (JSON.parse(readPackageFile('package.json').toString()) as { version: string }).version
}

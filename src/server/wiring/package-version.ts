import { readPackageFile } from '../../support/package-file.js'

/** The version that package.json names. */
export function packageVersion(): string {
  return (JSON.parse(readPackageFile('package.json').toString()) as { version: string }).version
}

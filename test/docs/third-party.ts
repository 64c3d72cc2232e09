/**
 * `THIRD-PARTY-LICENSES.txt`: the packages installed with this one, by the lock file, and the licence text of each from
 * node_modules. Packages with the same licence text share it. `npm run generate` rebuilds it, and a test fails when it
 * is outdated.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readText, root } from './repository.js'

interface Locked {
  readonly version?: string
  readonly dev?: boolean
  readonly devOptional?: boolean
}

interface Manifest {
  readonly name: string
  readonly version: string
  readonly license?: string
  readonly author?: string | { readonly name?: string }
}

export interface Licensed {
  /** `fastify 5.12.8 (MIT)` */
  readonly title: string
  readonly license: string
  readonly text: string
}

/** The permissive licences that a server may ship with. Accepting another one is a decision for a person. */
export const ACCEPTED = [
  'MIT',
  'ISC',
  'Apache-2.0',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'Unlicense',
  '0BSD',
  'BSD-2-Clause',
]

/** The licence texts of packages without a licence file. */
const IN_SOURCES: Readonly<Record<string, readonly string[]>> = {
  '@bufbuild/protobuf': ['dist/esm/index.js', 'dist/esm/wire/varint.js'],
}

const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`

/** In the order of the lock file. @throws Error for a package that does not state its licence. */
export function thirdParty(): readonly Licensed[] {
  const { packages } = JSON.parse(readText('package-lock.json')) as { packages: Record<string, Locked> }
  const paths = Object.keys(packages).filter((path) => {
    const { dev = false, devOptional = false } = packages[path]!
    return path !== '' && !dev && !devOptional
  })
  const found = new Map<string, Licensed>()
  for (const path of paths) {
    const manifest = JSON.parse(readText(`${path}/package.json`)) as Manifest
    const { name, version, license = '' } = manifest
    if (version !== packages[path]!.version) throw new Error(`${path} is not what the lock file names: npm ci`)
    if (license === '') throw new Error(`${name} does not name its licence`)
    const bare = license.replace(/^\((.*)\)$/, '$1')
    found.set(`${name} ${version}`, {
      title: `${name} ${version} (${bare})`,
      license: bare,
      text: textOf(path, manifest),
    })
  }
  return [...found.values()]
}

function textOf(path: string, { name, author, license }: Manifest): string {
  const files = readdirSync(join(root, path)).filter((file) => /^(licen[cs]e|copying|notice)([.-]|$)/i.test(file))
  if (files.length > 0)
    return files
      .sort()
      .map((file) => tidy(readText(`${path}/${file}`)))
      .join('\n\n')
  const sources = IN_SOURCES[name]
  if (sources !== undefined)
    return sources.map((file) => headerOf(readFileSync(join(root, path, file), 'utf8'))).join('\n\n')
  const owner = typeof author === 'string' ? author.replace(/\s*[<(].*$/, '') : author?.name
  if (license !== 'MIT' || owner === undefined) throw new Error(`${name}: where is the text of its licence?`)
  return `Copyright (c) ${owner}\n\n${MIT}`
}

function headerOf(source: string): string {
  return tidy(/^(?:\/\/.*\n)+/.exec(source)![0].replace(/^\/\/ ?/gm, ''))
}

function tidy(text: string): string {
  return text
    .replace(/\r/g, '')
    .replace(/[ \t]+$/gm, '')
    .replace(/^\n+|\n+$/g, '')
}

export function thirdPartyLicences(): string {
  const byText = new Map<string, string[]>()
  for (const { title, text } of thirdParty()) byText.set(text, [...(byText.get(text) ?? []), title])
  const parts = [...byText].map(([text, titles]) => `${titles.join('\n')}\n\n${text}\n`)
  const rule = `\n${'-'.repeat(80)}\n\n`
  return `Packages that are installed with distributary, each with its licence. Made by: npm run generate\n${rule}${parts.join(rule)}`
}

/**
 * The Go programs use the same versions of their dependencies, so that a package compiled for one of them is compiled
 * for all.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const folder = fileURLToPath(new URL('../../../test/', import.meta.url))

const modules = readdirSync(`${folder}clients/go`).map((name) => `clients/go/${name}/go.mod`)

void t.test('clients require the same version of each module', async (t) => {
  const versions = new Map<string, Map<string, string[]>>()
  for (const file of modules) {
    const text = readFileSync(folder + file, 'utf8')
    for (const [, module = '', version = ''] of text.matchAll(/^(?:\t|require )([\w./~-]+) (v\S+)/gm)) {
      const of = versions.get(module) ?? new Map<string, string[]>()
      versions.set(module, of.set(version, [...(of.get(version) ?? []), file]))
    }
  }
  t.ok(versions.has('k8s.io/client-go'))
  for (const [module, of] of versions) t.equal(of.size, 1, `${module}: ${JSON.stringify([...of])}`)
})

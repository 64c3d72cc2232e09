import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

import { optionNames } from '../../../src/server/config/options.js'

const SOURCE = fileURLToPath(new URL('../../../../src', import.meta.url))
/** Options that only matter in relation to others. */
const RULES_ONLY = ['requireUpstream', 'insecureBindAny', 'stripAnnotations']
/** Options that the loader reads itself. */
const LOADER_ONLY = ['config', 'etcdServersOverrides', 'resource']

/** All sources except the option table. */
function readSources(): string {
  return readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.startsWith('server/config/'))
    .map((file) => readFileSync(path.join(SOURCE, file), 'utf8'))
    .join('\n')
}

void t.test('code reads every option of the table', async (t) => {
  const text = readSources()
  for (const name of optionNames) {
    if (RULES_ONLY.includes(name) || LOADER_ONLY.includes(name)) continue
    t.match(text, new RegExp(`\\b${name}\\b`), `${name} is read`)
  }
})

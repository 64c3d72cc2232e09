import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

import { optionNames } from '../../../src/server/config/options.js'

const SOURCE = fileURLToPath(new URL('../../../../src', import.meta.url))
/** Options that only matter in relation to others. */
const RULES_ONLY = ['requireUpstream', 'insecureBindAny']
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
  // `{ a, b: c } = config`, `({ a }: Config)`, `boundsOf: ({ a })`; `live.current` is the configuration after a reload.
  const patterns = [/\{([^{}]*)\}(?:: Config\b| = (?:[\w.#]*\.)?config\b)/g, /boundsOf: \(\{([^{}]*)\}/g]
  const blocks = patterns.flatMap((pattern) => [...text.matchAll(pattern)].map(([, block]) => block ?? ''))
  for (const name of optionNames) {
    if (RULES_ONLY.includes(name) || LOADER_ONLY.includes(name)) continue
    const isRead =
      new RegExp(`\\b(config|options|current)\\.${name}\\b`).test(text) ||
      blocks.some((block) => new RegExp(`\\b${name}\\b`).test(block))
    t.ok(isRead, `${name} is read`)
  }
})

import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

import { load } from '../../src/config/load.js'
import { optionNames } from '../../src/config/options.js'
import { UNSERVED, unservedProblems } from '../../src/config/unserved.js'

const SOURCE = fileURLToPath(new URL('../../../src', import.meta.url))
/** Their whole meaning is a rule between options. */
const RULES_ONLY = ['requireUpstream', 'insecureBindAny']
/** The loader itself reads it. */
const LOADER_ONLY = ['config', 'resource']

function sources(): ReadonlyMap<string, string> {
  const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  return new Map(files.map((file) => [file, readFileSync(path.join(SOURCE, file), 'utf8')]))
}

void t.test('an option that no code reads does not exist: it is refused, and only such a one', async (t) => {
  const all = [...sources()].filter(([file]) => !file.startsWith('config/'))
  // What access control reads counts from the day on which it is used.
  const usesAuth = all.some(([file, text]) => !file.startsWith('auth/') && text.includes('auth/access-control.js'))
  const text = all
    .filter(([file]) => usesAuth || !file.startsWith('auth/'))
    .map(([, one]) => one)
    .join('\n')
  // `{ a, b: c } = config`, `({ a }: Config)`.
  const blocks = [...text.matchAll(/\{([^{}]*)\}(?:: Config\b| = (?:[\w.#]*\.)?config\b)/g)].map(
    ([, block]) => block ?? '',
  )
  for (const name of optionNames) {
    if (RULES_ONLY.includes(name) || LOADER_ONLY.includes(name)) continue
    const isRead =
      new RegExp(`\\b(config|options)\\.${name}\\b`).test(text) ||
      blocks.some((block) => new RegExp(`\\b${name}\\b`).test(block))
    const say = isRead ? `${name} is read: take it out of unserved.ts` : `${name} is read by nobody`
    t.equal(UNSERVED.includes(name), !isRead, say)
  }
})

void t.test('one that is not served is refused by name', async (t) => {
  const loaded = load(['--tls-self-signed', '--authorization-mode=RBAC', '--port=1'], {}, () => '')
  if (loaded.kind !== 'run') throw new Error(loaded.kind)
  const expected = UNSERVED.filter((name) => name === 'tlsSelfSigned' || name === 'authorizationMode').length
  t.equal(unservedProblems(loaded.sources).length, expected)
  t.notMatch(unservedProblems(loaded.sources).join(), /--port/)
})

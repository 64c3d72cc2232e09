/**
 * Imports point down towards `model/`, never back up, and the two arms never import each other: the reading arm
 * transports → broadcast → cache, the feeding arm fleet → feed → upstream. Files directly in `src/` put the stages
 * together and may import anything.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const source = fileURLToPath(new URL('../../src/', import.meta.url))

/** What each stage may import besides itself, `support` and `model`. A stage that is not here fails the test. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  model: [],
  support: [],
  config: ['dialect', 'auth'],
  codec: [],
  cache: [],
  broadcast: ['cache', 'codec'],
  dialect: ['codec'],
  auth: [],
  upstream: ['reflector'],
  // What is written goes straight to the upstream, past the caches that will be told of it.
  writes: ['upstream', 'dialect', 'codec'],
  transports: ['broadcast', 'cache', 'dialect', 'codec', 'auth', 'metrics', 'writes'],
  feed: ['upstream'],
  fleet: ['feed', 'upstream'],
  reflector: [],
  // Published on its own: nothing of the server comes with it.
  client: ['reflector'],
  // Commands are clients of any server: they start without the server's code.
  cli: ['client', 'reflector', 'codec'],
  // A page beside the API, over the same transports and behind the same gate.
  ui: ['transports', 'broadcast', 'metrics', 'auth'],
}

/** What it may import besides to satisfy an interface that is declared there: types and nothing else. */
const allowedTypes: Readonly<Record<string, readonly string[]>> = {
  metrics: ['cache', 'broadcast', 'feed', 'fleet'],
  dialect: ['cache', 'broadcast'],
}

interface Import {
  readonly isType: boolean
  readonly from: string
  readonly to: string
}

const stageOf = (path: string): string => (path.includes(sep) ? path.slice(0, path.indexOf(sep)) : '')

function importsOf(path: string): Import[] {
  const text = readFileSync(join(source, path), 'utf8')
  return [...text.matchAll(/(?:^|\n)(?:import|export)\s(type\s)?[^'"]*?from\s+'(\.[^']+)'|import\('(\.[^']+)'\)/g)].map(
    (found) => ({
      isType: found[1] !== undefined,
      from: path,
      to: relative(source, join(source, dirname(path), (found[2] ?? found[3])!)),
    }),
  )
}

const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'))
const imports = files.flatMap(importsOf)

void t.test('every import between stages points down', (t) => {
  t.ok(imports.length > 300, `${imports.length} imports were found`)
  for (const { from, to, isType } of imports) {
    const stage = stageOf(from)
    if (stage === '') continue
    const target = stageOf(to)
    const mayBe = [stage, 'support', 'model', ...(allowed[stage] ?? []), ...(isType ? (allowedTypes[stage] ?? []) : [])]
    if (!mayBe.includes(target)) t.fail(`${from} imports ${to}`)
  }
  t.end()
})

void t.test('model and support import nothing above them', (t) => {
  for (const { from, to } of imports) {
    if (stageOf(from) === 'model' && !['model', 'support'].includes(stageOf(to))) t.fail(`${from} imports ${to}`)
    if (stageOf(from) === 'support' && stageOf(to) !== 'support') t.fail(`${from} imports ${to}`)
  }
  t.pass()
  t.end()
})

void t.test('every stage is known here', (t) => {
  const stages = new Set(files.map(stageOf).filter((stage) => stage !== ''))
  t.same(
    [...stages].filter((stage) => !(stage in allowed || stage in allowedTypes)),
    [],
  )
  t.end()
})

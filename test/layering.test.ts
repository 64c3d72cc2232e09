/**
 * The structure of `src/`, checked through its imports. Seven layers: `engine/` fans out and knows nothing of
 * Kubernetes, of HTTP servers or of options; `kubernetes/` is the dialect; `server/`, `fleet/`, `client/` and `cli/`
 * are built on them; `support/` is below all. Inside a layer, stages also import only downwards. There are no import
 * cycles, not even of types.
 *
 * Tests mirror the paths of their sources, so that each can be found from the other.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { importsOf } from './support/imports.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
const source = join(root, 'src')
const tests = join(root, 'test')

/** The stages that each stage may import, in addition to itself, `engine/model` and `support`. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  support: [],
  'engine/model': [],
  'engine/facts': [],
  'engine/upstream': [],
  'engine/feed': ['engine/upstream'],
  'engine/cache': [],
  // The read side and the feed side meet only in the pipeline.
  'engine/broadcast': ['engine/cache', 'engine/facts'],
  'engine/pipeline': ['engine/feed', 'engine/upstream', 'engine/broadcast', 'engine/cache'],
  'client/reflector': [],
  // Published separately, without any of the server's code.
  client: ['client/reflector'],
  'kubernetes/codec': ['engine/facts'],
  'kubernetes/dialect': ['kubernetes/codec', 'engine/facts', 'engine/pipeline'],
  'kubernetes/encryption': ['kubernetes/codec', 'engine/upstream'],
  'kubernetes/upstream': ['kubernetes/codec', 'client', 'client/reflector', 'engine/upstream'],
  // A write goes straight to the upstream, past the caches, which see its event like any other.
  'kubernetes/writes': ['kubernetes/dialect', 'kubernetes/codec', 'engine/upstream', 'engine/facts'],
  // The port to a message broker, and what both ways of feeding replicas share.
  fleet: ['engine/feed', 'engine/upstream'],
  'fleet/stream': ['fleet', 'engine/feed', 'engine/upstream'],
  'fleet/nats': ['fleet'],
  'fleet/workers': ['fleet', 'engine/feed', 'engine/upstream', 'engine/cache'],
  // Commands are clients of any server: they start without the server's code.
  cli: ['client', 'client/reflector', 'kubernetes/codec'],
  'server/config': ['kubernetes/dialect'],
  'server/auth': ['server/config', 'server/metrics'],
  'server/metrics': ['engine/pipeline', 'fleet'],
  'server/transports': [
    'server/auth',
    'server/metrics',
    'kubernetes/writes',
    'kubernetes/dialect',
    'kubernetes/codec',
    'engine/pipeline',
    'engine/broadcast',
    'engine/cache',
  ],
  'server/served': [
    'server/transports',
    'server/auth',
    'kubernetes/upstream',
    'kubernetes/dialect',
    'kubernetes/codec',
    'engine/pipeline',
    'engine/cache',
    'engine/upstream',
  ],
  // A page next to the API, over the same transports and behind the same access checks.
  'server/ui': ['server/transports', 'server/metrics', 'server/auth', 'engine/pipeline', 'engine/broadcast'],
}

/** This stage may import every other stage, and no stage may import it. */
const WIRING = 'server/wiring'
const ENTRY = 'main.ts'

/** Layers whose folders are separate stages. */
const SPLIT: ReadonlySet<string> = new Set(['engine', 'kubernetes', 'server'])

/** Folders of tests that belong to no single source file. */
const CROSS_CUTTING: ReadonlySet<string> = new Set([
  'bench',
  'clients',
  'conformance',
  'data',
  'docs',
  'etcd',
  'edge',
  'fault',
  'fuzz',
  'guarantees',
  'integration',
  'onboarding',
  'ops',
  'reference',
  'security',
  'soak',
  'support',
])

interface Import {
  readonly from: string
  readonly to: string
}

function stageOf(path: string): string {
  const [layer = '', folder = ''] = path.split(sep)
  if (!path.includes(sep)) return ''
  return SPLIT.has(layer) || `${layer}/${folder}` in allowed ? `${layer}/${folder}` : layer
}

function listFiles(folder: string, ending: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith(ending))
}

function importsIn(path: string): Import[] {
  return importsOf(join('src', path), { types: true }).map((to) => ({ from: path, to: relative('src', to) }))
}

const files = listFiles(source, '.ts')
const imports = files.flatMap(importsIn)

void t.test('every folder of src is a stage in the table, and only the entry point lies outside', (t) => {
  t.same(
    files.filter((path) => !path.includes(sep)),
    [ENTRY],
  )
  const known = new Set([...Object.keys(allowed), WIRING])
  t.same([...new Set(files.map(stageOf))].filter((stage) => stage !== '').sort(), [...known].sort())
  t.end()
})

void t.test('every import between stages points down', (t) => {
  t.ok(imports.length > 300, `${imports.length} imports were found`)
  const upward = imports.filter(({ from, to }) => {
    const stage = stageOf(from)
    if (stage === '' || stage === WIRING) return false
    return ![stage, 'support', 'engine/model', ...(allowed[stage] ?? [])].includes(stageOf(to))
  })
  t.same(
    upward.map(({ from, to }) => `${from} imports ${to}`),
    [],
  )
  t.end()
})

void t.test('one folder knows which message broker a fleet uses', (t) => {
  const users = files.filter((file) => /from 'nats'/.test(readFileSync(join(source, file), 'utf8')))
  t.same([...new Set(users.map(stageOf))], ['fleet/nats'])
  t.end()
})

void t.test('the table itself has no cycle', (t) => {
  const heights = new Map<string, number>()
  const height = (stage: string, path: readonly string[]): number => {
    if (path.includes(stage)) throw new Error(`circle of stages: ${[...path, stage].join(' → ')}`)
    const known = heights.get(stage)
    if (known !== undefined) return known
    const result = 1 + Math.max(0, ...(allowed[stage] ?? []).map((below) => height(below, [...path, stage])))
    heights.set(stage, result)
    return result
  }
  for (const stage of Object.keys(allowed)) t.doesNotThrow(() => height(stage, []))
  t.end()
})

void t.test('no file imports itself indirectly, not even for a type', (t) => {
  const targets = new Map(files.map((file) => [file, new Set<string>()]))
  for (const { from, to } of imports) targets.get(from)!.add(to)
  t.same(findCircles(targets), [])
  t.same(
    findCircles(
      new Map([
        ['a', new Set(['b'])],
        ['b', new Set(['a'])],
        ['c', new Set(['a'])],
      ]),
    ),
    [['a', 'b']],
  )
  t.end()
})

void t.test('a test lies at the mirrored path of its source', (t) => {
  const misplaced = listFiles(tests, '.test.ts').filter((path) => {
    if (!path.includes(sep) || CROSS_CUTTING.has(path.split(sep)[0]!)) return false
    const mirrored = join(source, path.replace(/\.test\.ts$/, ''))
    // The test may belong to a file, to a folder, or to one aspect of a file.
    return ![`${mirrored}.ts`, mirrored, `${dirname(mirrored)}.ts`].some(existsSync)
  })
  t.same(misplaced, [])
  t.end()
})

/** Returns the sets of files that reach each other by imports, each sorted, by Tarjan's algorithm. */
function findCircles(graph: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const order = new Map<string, number>()
  const lowest = new Map<string, number>()
  const open: string[] = []
  const circles: string[][] = []
  const visit = (node: string): void => {
    order.set(node, order.size)
    lowest.set(node, order.get(node)!)
    open.push(node)
    for (const next of graph.get(node) ?? []) {
      if (!graph.has(next)) continue
      if (!order.has(next)) {
        visit(next)
        lowest.set(node, Math.min(lowest.get(node)!, lowest.get(next)!))
      } else if (open.includes(next)) lowest.set(node, Math.min(lowest.get(node)!, order.get(next)!))
    }
    if (lowest.get(node) !== order.get(node)) return
    const members = open.splice(open.indexOf(node))
    if (members.length > 1 || graph.get(node)!.has(node)) circles.push(members.sort())
  }
  for (const node of graph.keys()) if (!order.has(node)) visit(node)
  return circles
}

/**
 * The structure of `src/`, checked through its imports. `engine/` fans out and knows nothing of Kubernetes, of HTTP
 * servers or of options; `kubernetes/` is the dialect; `sample/` fills a store for trials; `server/`, `fleet/`,
 * `client/` and `cli/` are built on them; `support/` is below all. Inside a layer, stages also import only downwards.
 * There are no import cycles, not even of types.
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

/**
 * The stages that each stage may import, in addition to itself, `engine/model` and `support`; those of `kubernetes/` and
 * `server/` may also import `kubernetes/model`.
 */
const allowed: Readonly<Record<string, readonly string[]>> = {
  support: [],
  'engine/model': [],
  'engine/facts': [],
  'engine/upstream': [],
  // Writes invented objects into a store, as a cluster's controllers would.
  sample: ['engine/upstream'],
  'engine/feed': ['engine/upstream'],
  'engine/cache': [],
  // The read side and the feed side meet only in the pipeline.
  'engine/broadcast': ['engine/cache', 'engine/facts'],
  'engine/pipeline': ['engine/feed', 'engine/upstream', 'engine/broadcast', 'engine/cache'],
  'client/reflector': [],
  // Published separately, without any of the server's code.
  client: ['client/reflector', 'kubernetes/model'],
  'kubernetes/model': [],
  'kubernetes/codec': ['engine/facts'],
  'kubernetes/dialect': ['kubernetes/codec', 'engine/facts', 'engine/pipeline'],
  'kubernetes/encryption': ['kubernetes/codec', 'engine/upstream'],
  'kubernetes/upstream': ['kubernetes/codec', 'client', 'client/reflector', 'engine/upstream'],
  // etcd's own protocol: a dialect beside Kubernetes'.
  'etcd-api': ['engine/upstream', 'engine/cache', 'engine/broadcast', 'engine/pipeline'],
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
  // What one client may use, wherever it comes from.
  'server/limits': [],
  'server/auth': ['server/config', 'server/metrics', 'server/limits'],
  'server/metrics': ['server/limits', 'engine/pipeline', 'fleet', 'etcd-api'],
  'server/transports': [
    'server/limits',
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
    'server/limits',
    'server/auth',
    'kubernetes/upstream',
    'kubernetes/dialect',
    'kubernetes/codec',
    'engine/pipeline',
    'engine/cache',
    'engine/upstream',
  ],
  // A protocol of its own, over the same reads and watches.
  'server/ofrep': [
    'server/transports',
    'server/limits',
    'server/auth',
    'kubernetes/dialect',
    'kubernetes/codec',
    'kubernetes/model',
    'engine/broadcast',
    'engine/cache',
  ],
  // A page next to the API, over the same transports and behind the same access checks.
  'server/ui': ['server/transports', 'server/metrics', 'server/auth', 'engine/pipeline', 'engine/broadcast'],
}

/** The folders of `server/transports/`. Each may import only those before it. */
const TRANSPORTS = [
  'exchange',
  'framing',
  'limits',
  'gate',
  'watch',
  'grpc',
  'websocket',
  'bodies',
  'passthrough',
  'api',
  'server',
] as const

/** Stages that do not import the engine, not even its model. */
const WITHOUT_ENGINE: ReadonlySet<string> = new Set(['support', 'client', 'client/reflector', 'cli'])

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
  'forms',
  'fuzz',
  'growth',
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
    const shared = WITHOUT_ENGINE.has(stage) ? ['support'] : ['support', 'engine/model']
    if (/^(kubernetes|server)\//.test(stage)) shared.push('kubernetes/model')
    return ![stage, ...shared, ...(allowed[stage] ?? [])].includes(stageOf(to))
  })
  t.same(
    upward.map(({ from, to }) => `${from} imports ${to}`),
    [],
  )
  t.end()
})

/** Files whose names occur twice, and whose folders say what each is about. */
const NAMESAKES = [
  'access.ts',
  'browser.ts',
  'cluster.ts',
  'consistency-check.ts',
  'devices.ts',
  'discovery.ts',
  'etcd-error.ts',
  'event.ts',
  'kubeconfig.ts',
  'leases.ts',
  'limits.ts',
  'main.ts',
  'metrics.ts',
  'requests.ts',
  'status.ts',
  'upstream.ts',
  'values.ts',
]

void t.test('a file can be found by its name', (t) => {
  const names = files.map((path) => path.slice(path.lastIndexOf(sep) + 1))
  const several = [...new Set(names.filter((name, i) => names.indexOf(name) !== i))].sort()
  t.same(several, NAMESAKES)
  t.end()
})

void t.test('the published client contains the client and the label selectors, and no server code', (t) => {
  const reached = new Set(files.filter((path) => path.startsWith(join('client', ''))))
  for (const path of reached) for (const { to } of importsIn(path)) reached.add(to)
  const beyond = [...reached].filter((path) => !/^(client|support)./.test(path)).sort()
  const model = ['label-names.ts', 'label-requirements.ts', 'status.ts']
  t.same(
    beyond,
    model.map((file) => join('kubernetes', 'model', file)),
  )
  t.end()
})

void t.test('inside the transports, every import points down', (t) => {
  const folderOf = (path: string): string => path.split(sep)[2] ?? ''
  const isInside = (path: string): boolean => stageOf(path) === 'server/transports'
  t.same([...new Set(files.filter(isInside).map(folderOf))].sort(), [...TRANSPORTS].sort())
  const heightOf = (path: string): number => TRANSPORTS.findIndex((folder) => folder === folderOf(path))
  const inside = imports.filter(({ from, to }) => isInside(from) && isInside(to))
  t.ok(inside.length > 100, `${inside.length} imports were found`)
  t.same(
    inside.filter(({ from, to }) => heightOf(to) > heightOf(from)).map(({ from, to }) => `${from} imports ${to}`),
    [],
  )
  t.end()
})

void t.test('after a wait, one function asks again whether a request is still allowed and can be answered', (t) => {
  const callers = (pattern: RegExp): string[] =>
    files.filter(
      (file) => /^server.(transports|ui)/.test(file) && pattern.test(readFileSync(join(source, file), 'utf8')),
    )
  t.same(callers(/\.confirm\(\)/), [
    join('server', 'transports', 'api', 'answer-after.ts'),
    join('server', 'transports', 'gate', 'after-wait.ts'),
  ])
  t.same(callers(/\breadiness\.assertReadable\(/), [join('server', 'transports', 'api', 'answer-after.ts')])
  t.same(callers(/\bas Exchange\b/), [join('server', 'transports', 'api', 'answer-after.ts')])
  t.end()
})

/** Words of Kubernetes that the engine's code must not contain. Other things than types have a `kind`, but no `kind: string`. */
const DIALECT =
  /kubernetes|k8s|kubectl|kubelet|\bpods?\b|StatusError|apiVersion|resourceVersion|managedFields|involvedObject|metadata(?:\.\w|Offset)|\bspec\.|namespace|\w*labels?(?![a-z])|\bkind: string|\w*kinds\b|listKind/gi
/** Prometheus has labels, too. */
const OF_METRICS = 'engine/model/metric.ts'

void t.test("the engine's code, apart from comments, contains no words of Kubernetes", (t) => {
  const named = new Map<string, ReadonlySet<string>>()
  for (const path of files.filter((file) => file.startsWith(join('engine', '')))) {
    const found = withoutComments(readFileSync(join(source, path), 'utf8')).match(DIALECT)
    if (found !== null) named.set(path.replaceAll(sep, '/'), new Set(found))
  }
  t.same(named, new Map([[OF_METRICS, new Set(['labels'])]]))
  const sample = withoutComments("a('//x') // pods\n/* k8s */ const kubelet = `metadata.name`")
  t.same(sample.match(DIALECT), ['kubelet', 'metadata.n'])
  t.end()
})

void t.test('one folder knows which message broker a fleet uses', (t) => {
  const users = files.filter((file) =>
    /from '(?:nats|@nats-io\/[a-z-]+)'/.test(readFileSync(join(source, file), 'utf8')),
  )
  t.same([...new Set(users.map(stageOf))], ['fleet/nats'])
  t.end()
})

void t.test("the engine's tests import only the engine, what is below it, and shared helpers", (t) => {
  const above = listFiles(join(tests, 'engine'), '.ts').flatMap((path) =>
    importsOf(join('test', 'engine', path), { types: true })
      .filter((to) => /^src.(?!engine|support)/.test(to))
      .map((to) => `${path} imports ${to}`),
  )
  t.same(above, [])
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

function withoutComments(code: string): string {
  const parts = /('(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g
  return code.replaceAll(parts, (_, text: string | undefined) => text ?? '')
}

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

/**
 * The TypeScript of docs/guide/client.md and of deploy/examples/: it compiles against the client, and the controller does
 * what it says.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import ts from 'typescript'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const client = fileURLToPath(new URL('../../src/client/index.js', import.meta.url))
const CONTROLLER = 'deploy/examples/leader-controller.ts'

/** Returns the compiler's errors in these sources, which import `distributary/client`. */
function problems(sources: ReadonlyMap<string, string>): readonly string[] {
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2023,
    lib: ['lib.es2023.d.ts'],
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    types: ['node'],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    paths: { 'distributary/client': [join(root, 'src/client/index.ts')] },
  }
  // Placed next to the examples, so that packages are found from there.
  const files = new Map([...sources].map(([name, text]) => [join(root, 'deploy/examples', name), text]))
  const disk = ts.createCompilerHost(options)
  const host: ts.CompilerHost = {
    ...disk,
    getSourceFile: (name, version) => {
      const text = files.get(name)
      return text === undefined ? disk.getSourceFile(name, version) : ts.createSourceFile(name, text, version)
    },
    fileExists: (name) => files.has(name) || disk.fileExists(name),
    readFile: (name) => files.get(name) ?? disk.readFile(name),
  }
  const program = ts.createProgram([...files.keys()], options, host)
  return [...files.keys()].flatMap((name) => {
    const source = program.getSourceFile(name)
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)].map(
      ({ messageText }) => `${name.slice(root.length)}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
    )
  })
}

void t.test('every example compiles', (t) => {
  const page = readFileSync(join(root, 'docs/guide/client.md'), 'utf8')
  const blocks = [...page.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, text = ''], i) => [`page-${i}.ts`, text] as const)
  t.ok(blocks.length >= 1)
  const wrong = "import { SharedInformer } from 'distributary/client'\nnew SharedInformer({ path: 1 })\nexport {}\n"
  const sources = new Map([
    ...blocks,
    ['controller.ts', readFileSync(join(root, CONTROLLER), 'utf8')],
    ['wrong.ts', wrong],
  ])
  const found = problems(sources)
  t.match(found, [/wrong\.ts: Type 'number' is not assignable to type 'string'/])
  t.equal(found.filter((problem) => !problem.includes('wrong.ts')).join('\n'), '')
  t.end()
})

void t.test(
  'the controller labels pods, in one of two copies, and the other takes over when the first is stopped',
  async (t) => {
    const on = (node: string): object => ({ spec: { nodeName: node, containers: [] } })
    const app = await startApp(t, {
      flags: ['--enable-writes'],
      objects: { 'pods/default/a': pod('a', on('n1')), 'pods/default/free': pod('free') },
    })
    const folder = mkdtempSync(join(tmpdir(), 'distributary-controller-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    mkdirSync(join(folder, 'src'))
    const script = join(folder, 'src/controller.mjs')
    const source = readFileSync(join(root, CONTROLLER), 'utf8')
    const { outputText } = ts.transpileModule(source, {
      compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 },
    })
    writeFileSync(script, outputText.replace('distributary/client', client))
    t.ok(source.split('\n').filter((line) => /\S/.test(line)).length <= 62, 'short')
    const copies = [1, 2].map((): ChildProcess => {
      const child = spawn(process.execPath, [script, app.url], { stdio: ['ignore', 'inherit', 'inherit'] })
      t.teardown(() => child.kill('SIGKILL'))
      return child
    })
    const get = async (path: string): Promise<unknown> => (await fetch(`${app.url}${path}`)).json()
    const label = async (name: string): Promise<string | undefined> => {
      const { metadata } = (await get(`/api/v1/namespaces/default/pods/${name}`)) as {
        readonly metadata?: { readonly labels?: Readonly<Record<string, string>> }
      }
      return metadata?.labels?.['node-seen']
    }
    const labelled = async (name: string, node: string): Promise<void> => {
      const end = performance.now() + 30_000
      while ((await label(name)) !== node && performance.now() < end)
        await new Promise((resolve) => setTimeout(resolve, 50))
      t.equal(await label(name), node, `${name} on ${node}`)
    }
    await labelled('a', 'n1')
    t.equal(await label('free'), undefined, 'a pod without a node')
    app.put('pods/default/b', pod('b', on('n2')))
    await labelled('b', 'n2')

    const lease = (await get('/apis/coordination.k8s.io/v1/namespaces/default/leases/node-seen')) as {
      readonly spec: { readonly holderIdentity: string }
    }
    const leader = copies.find(({ pid }) => lease.spec.holderIdentity.endsWith(`-${pid}`))!
    const exited = once(leader, 'exit')
    leader.kill('SIGTERM')
    t.same(await exited, [0, null], 'it ends cleanly')
    app.put('pods/default/c', pod('c', on('n3')))
    await labelled('c', 'n3')
    await until(() => app.watchers === 1, 'only the other one watches')
  },
)

/**
 * `npm run judge -- encryption [--record] [--build-seconds N]`: distributary beside Kubernetes' own API server over one
 * etcd whose values that API server encrypts, with every provider, while keys are rotated, and with a key that is
 * missing. `--record` keeps what it stored as data for `npm test`. It needs Go, and is skipped with a line that says
 * why where the programs cannot be built. Ends with `N passed, N failed`.
 */
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { buildEtcd } from '../../etcd/versions.js'
import type { EtcdProcess } from '../../support/etcd-process.js'
import { freePort } from '../../support/free-port.js'
import { NoProgramError } from '../../support/go-program.js'
import { type ServerProcess, startServer } from '../../support/server-process.js'
import { firstFigures } from '../../support/status-page.js'
import { type Answer, ask, type Server, serverAt, watch } from '../ask.js'
import { ADMIN, startApiServer } from '../control-plane.js'
import { buildKubernetes } from '../programs.js'
import { eventually } from '../world.js'
import { phases } from './configurations.js'
import { buildPlugin, Plugin } from './plugin.js'
import { runMain } from '../../support/run-main.js'

/** Text that no log, metric or error may contain: in base64, as in a Secret, and plain, as in a config map. */
const MARKER = 'plaintext-that-must-not-leak'

const QUESTIONS = [
  '/api/v1/secrets',
  '/api/v1/namespaces/old/secrets',
  '/api/v1/namespaces/new/secrets',
  '/api/v1/configmaps',
  '/api/v1/namespaces/old/configmaps',
  '/api/v1/configmaps?limit=1',
  '/apis/apps/v1/deployments',
  '/apis/apps/v1/namespaces/old/deployments',
  '/api/v1/serviceaccounts',
  '/apis/coordination.k8s.io/v1/leases',
  '/api/v1/namespaces',
  ...['old', 'new'].flatMap((namespace) =>
    [0, 1, 2].flatMap((phase) => [
      `/api/v1/namespaces/${namespace}/secrets/of-phase-${phase}`,
      `/api/v1/namespaces/${namespace}/configmaps/of-phase-${phase}`,
      `/apis/apps/v1/namespaces/${namespace}/deployments/of-phase-${phase}`,
      `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/of-phase-${phase}`,
    ]),
  ),
]

interface World {
  readonly etcd: EtcdProcess
  readonly plugin: Plugin
  readonly file: string
  theirs: Server
  readonly ours: Server
  readonly process: ServerProcess
  /** Ends the API server, and starts it with what the file says now. */
  restartTheirs(): Promise<void>
}

let passed = 0
let failed = 0

function check(name: string, isSo: boolean, details: () => string = () => ''): void {
  if (isSo) passed++
  else failed++
  if (!isSo) process.stdout.write(`not ok: ${name}\n${details()}\n`)
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: { record: { type: 'boolean', default: false }, 'build-seconds': { type: 'string', default: '3600' } },
  })
  const deadlineMs = performance.now() + Number(values['build-seconds']) * 1_000
  let programs: { readonly apiServer: string; readonly plugin: string }
  try {
    // Read by the module that starts etcd, when it is loaded: hence its import below.
    process.env['ETCD_BIN'] = buildEtcd('3.7', deadlineMs)
    programs = { plugin: buildPlugin(deadlineMs), apiServer: buildKubernetes('kube-apiserver', deadlineMs) }
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    process.stdout.write(`skipped: encryption at rest beside the API server, since ${error.message}\n`)
    process.stdout.write('0 passed, 0 failed\n')
    return 0
  }
  const world = await startWorld(programs)
  try {
    await compare(world, values.record)
  } finally {
    await world.stop()
  }
  process.stdout.write(`${passed} passed, ${failed} failed\n`)
  return failed === 0 ? 0 : 1
}

/** Processes need only one thing from a test: a call when it ends. */
class Life {
  readonly #teardowns: (() => unknown)[] = []
  readonly t = { teardown: (done: () => unknown) => void this.#teardowns.push(done) } as unknown as Test

  async end(): Promise<void> {
    for (const done of this.#teardowns.splice(0).reverse()) await done()
  }
}

async function startWorld(programs: {
  readonly apiServer: string
  readonly plugin: string
}): Promise<World & { stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'encryption-'))
  const file = join(folder, 'encryption.yaml')
  const life = new Life()
  let apiServerLife = new Life()
  const { startEtcd } = await import('../../support/etcd-process.js')
  const etcd = await startEtcd(life.t)
  const plugin = new Plugin(folder, programs.plugin)
  plugin.configure('one')
  await plugin.start()
  writeFileSync(file, phases(plugin.socket)[0]!.text)
  const start = async (): Promise<{ server: Server; tokenFile: string }> =>
    await startApiServer(apiServerLife.t, etcd.url, programs.apiServer, [`--encryption-provider-config=${file}`])
  const { server, tokenFile } = await start()
  const port = await freePort()
  const ours = await startServer(life.t, {
    flags: [
      `--port=${port}`,
      `--etcd-servers=${etcd.url}`,
      '--resource=secrets',
      '--enable-writes',
      `--token-auth-file=${tokenFile}`,
      '--authorization-mode=RBAC',
      `--encryption-provider-config=${file}`,
      '--log-level=debug',
    ],
  })
  const world = {
    etcd,
    plugin,
    file,
    theirs: server,
    ours: serverAt('ours', ours.url, ADMIN),
    process: ours,
    async restartTheirs() {
      await apiServerLife.end()
      apiServerLife = new Life()
      world.theirs = (await start()).server
    },
    async stop() {
      await apiServerLife.end()
      await life.end()
      await plugin.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
  return world
}

async function compare(world: World, records: boolean): Promise<void> {
  const { plugin, process: ours } = world
  const seen: string[] = []
  const stream = await watch(world.ours, '/api/v1/secrets?watch=1', 'application/json', (event) => {
    const { type, object } = event as { type: string; object: { metadata: { name: string } } }
    seen.push(`${type} ${object.metadata?.name ?? JSON.stringify(object)}`)
  })
  for (const namespace of ['old', 'new']) await write(world.theirs, '/api/v1/namespaces', namespaceNamed(namespace))
  for (const [number, { name, text }] of phases(plugin.socket).entries()) {
    if (number > 0) {
      // Under a key that the plugin had, and one that it has from now on.
      plugin.configure(`number ${number}`, ...(number === 1 ? ['one'] : ['number 1', 'one']))
      await configure(world, text)
    }
    await writePhase(world.theirs, number === 0 ? ['old'] : ['old', 'new'], number)
    await writeByUs(world, number)
    await compareAnswers(world, name)
  }
  await eventually(async () => seen.filter((event) => event.startsWith('ADDED of-phase')).length >= 5, 'every event')
  check('a watch goes on while keys are rotated', !seen.some((event) => event.startsWith('ERROR')), () =>
    seen.join('\n'),
  )
  if (records) await record(world)

  // An API server that cannot read its Secrets does not start, so the key is lost while both servers run.
  const key = '/registry/secrets/old/of-phase-0'
  const readable = await storedValue(world.etcd, key)
  const lost = Buffer.from(
    readable.toString('latin1').replace(/^k8s:enc:aescbc:v1:one:/, 'k8s:enc:aescbc:v1:lost:'),
    'latin1',
  )
  await put(world.etcd, key, lost)
  await eventually(async () => seen.some((event) => event.startsWith('ERROR')), 'the watch ends')
  check(
    'a watch ends with an ERROR, and never with a DELETED',
    !seen.some((event) => event.startsWith('DELETED')),
    () => seen.join('\n'),
  )
  await stream.ended
  const readiness = await get(world.ours, '/readyz?verbose')
  check('readiness names the key', /cache-secrets not served: .*aescbc:v1:lost/.test(readiness.body.toString()), () =>
    readiness.body.toString(),
  )
  const metrics = (await get(world.ours, '/metrics')).body.toString()
  check(
    'a metric names the key',
    /cache_encrypted_values\{group="",resource="secrets",key="aescbc:v1:lost"\} 1/.test(metrics),
    () =>
      metrics
        .split('\n')
        .filter((line) => line.includes('encrypted'))
        .join('\n'),
  )
  await compareFailures(world)

  await put(world.etcd, key, readable)
  await eventually(async () => (await get(world.ours, '/api/v1/secrets')).code === 200, 'the value is back')
  await compareAnswers(world, 'the value is back')
  for (const [where, text] of [
    ['the log', ours.log()],
    ['the metrics', (await get(world.ours, '/metrics')).body.toString()],
    ['the status page', await firstFigures(ours.url, { authorization: `Bearer ${ADMIN}` })],
  ] as const) {
    const isThere = text.includes(MARKER) || text.includes(Buffer.from(MARKER).toString('base64').slice(0, 30))
    check(`${where} holds no plaintext`, !isThere)
  }
}

async function configure(world: World, text: string): Promise<void> {
  const reread = (): number => world.process.log().split('a changed file was read').length
  const before = reread()
  writeFileSync(world.file, text)
  await world.restartTheirs()
  await eventually(async () => reread() > before, 'ours has read the file')
}

async function compareAnswers(world: World, phase: string): Promise<void> {
  for (const path of QUESTIONS) {
    await eventually(
      async () => {
        const [theirs, ours] = [await get(world.theirs, path), await get(world.ours, path)]
        return theirs.code === ours.code && isDeepStrictEqual(contentOf(theirs), contentOf(ours))
      },
      path,
      10_000,
    ).then(
      () => check(`${phase}: ${path}`, true),
      async () => {
        const [theirs, ours] = [await get(world.theirs, path), await get(world.ours, path)]
        check(`${phase}: ${path}`, false, () => `theirs: ${shown(theirs)}\nours:   ${shown(ours)}`)
      },
    )
  }
}

/**
 * Compares the responses for Secrets whose encryption key is missing. Our server's errors must be worded like the API
 * server's, except for a path in the text.
 */
async function compareFailures(world: World): Promise<void> {
  let failures = 0
  for (const path of QUESTIONS.filter((path) => path.includes('/secrets'))) {
    const [theirs, ours] = [await get(world.theirs, path), await get(world.ours, path)]
    if (theirs.code === 500) failures++
    const plain = (answer: Answer): unknown =>
      JSON.parse(JSON.stringify(contentOf(answer)).replaceAll('Key: /registry/', 'Key: /'))
    check(
      `a key is missing: ${path}`,
      theirs.code === ours.code && isDeepStrictEqual(plain(theirs), plain(ours)),
      () => `theirs: ${shown(theirs)}\nours:   ${shown(ours)}`,
    )
  }
  check('some answers are failures', failures > 1, () => String(failures))
}

/** Omits the resourceVersion of a list, which depends on the time of the request. */
function contentOf({ body }: Answer): unknown {
  const { metadata, ...rest } = JSON.parse(body.toString()) as {
    metadata?: { resourceVersion?: string; continue?: string }
  }
  if (!('items' in rest)) return { metadata, ...rest }
  const { resourceVersion: _moment, continue: _token, ...others } = metadata ?? {}
  return { ...rest, metadata: others }
}

function shown({ code, body }: Answer): string {
  return `${code} ${body.toString().slice(0, 1_500)}`
}

async function writePhase(server: Server, namespaces: readonly string[], phase: number): Promise<void> {
  for (const namespace of namespaces) {
    const metadata = { name: `of-phase-${phase}`, namespace }
    const base = `/namespaces/${namespace}`
    await write(server, `/api/v1${base}/secrets`, { ...typed('v1', 'Secret'), metadata, stringData: { a: MARKER } })
    await write(server, `/api/v1${base}/configmaps`, { ...typed('v1', 'ConfigMap'), metadata, data: { a: MARKER } })
    await write(server, `/apis/coordination.k8s.io/v1${base}/leases`, {
      ...typed('coordination.k8s.io/v1', 'Lease'),
      metadata,
      spec: { holderIdentity: MARKER },
    })
    const labels = { app: 'a' }
    const template = { metadata: { labels }, spec: { containers: [{ name: 'a', image: 'a' }] } }
    await write(server, `/apis/apps/v1${base}/deployments`, {
      ...typed('apps/v1', 'Deployment'),
      metadata,
      spec: { selector: { matchLabels: labels }, template },
    })
  }
}

/** Objects written by us are stored with the first provider, and the API server can read them. */
async function writeByUs(world: World, phase: number): Promise<void> {
  const expected = [
    ['k8s:enc:aescbc:v1:one:', 'k8s:enc:aesgcm:v1:one:', 'k8s:enc:secretbox:v1:one:'],
    ['k8s:enc:aescbc:v1:two:', 'k8s:enc:aesgcm:v1:two:', 'k8s:enc:secretbox:v1:two:'],
    ['k8s:enc:kms:v2:for-secrets:', '{', 'k8s:enc:aescbc:v1:one:'],
  ][phase]!
  const metadata = { name: `by-us-${phase}`, namespace: 'old' }
  const objects = [
    ['/api/v1', 'secrets', { ...typed('v1', 'Secret'), metadata, stringData: { a: MARKER } }],
    ['/api/v1', 'configmaps', { ...typed('v1', 'ConfigMap'), metadata, data: { a: MARKER } }],
    [
      '/apis/apps/v1',
      'controllerrevisions',
      { ...typed('apps/v1', 'ControllerRevision'), metadata, revision: 1, data: { a: MARKER } },
    ],
  ] as const
  for (const [i, [base, plural, object]] of objects.entries()) {
    const path = `${base}/namespaces/old/${plural}`
    await write(world.ours, path, object)
    const stored = await storedValue(world.etcd, `/registry/${plural}/old/${metadata.name}`)
    const begins = stored.subarray(0, 40).toString('latin1')
    check(`we store ${plural} as the first provider says`, begins.startsWith(expected[i]!), () => begins)
    const [theirs, ours] = [
      await get(world.theirs, `${path}/${metadata.name}`),
      await get(world.ours, `${path}/${metadata.name}`),
    ]
    check(
      `the API server reads what we wrote: ${plural}`,
      theirs.code === 200 && isDeepStrictEqual(contentOf(theirs), contentOf(ours)),
      () => `theirs: ${shown(theirs)}\nours:   ${shown(ours)}`,
    )
  }
}

interface Recorded {
  readonly key: string
  /** Base64, as it is stored. */
  readonly value: string
}

/** Keeps what the API server stored, with its responses. */
async function record(world: World): Promise<void> {
  const values: Recorded[] = []
  for (const prefix of ['secrets', 'configmaps', 'deployments', 'leases']) {
    for (const phase of [0, 1, 2]) {
      const key = `/registry/${prefix}/old/of-phase-${phase}`
      values.push({ key, value: (await storedValue(world.etcd, key)).toString('base64') })
    }
  }
  const lists: Record<string, unknown> = {}
  for (const path of [
    '/api/v1/namespaces/old/secrets',
    '/api/v1/namespaces/old/configmaps',
    '/apis/apps/v1/namespaces/old/deployments',
    '/apis/coordination.k8s.io/v1/namespaces/old/leases',
  ])
    lists[path] = contentOf(await get(world.theirs, path))
  const target = fileURLToPath(new URL('../../../../test/data/kube-apiserver-1.37/encrypted.json', import.meta.url))
  writeFileSync(target, `${JSON.stringify({ values, lists })}\n`)
}

function typed(apiVersion: string, kind: string): { apiVersion: string; kind: string } {
  return { apiVersion, kind }
}

function namespaceNamed(name: string): object {
  return { ...typed('v1', 'Namespace'), metadata: { name } }
}

async function get(server: Server, path: string): Promise<Answer> {
  return await ask(server, { method: 'GET', path, headers: { accept: 'application/json' } })
}

/** @throws Error with its response when it refuses. */
async function write(server: Server, path: string, object: object): Promise<void> {
  const headers = { 'content-type': 'application/json', accept: 'application/json' }
  const answer = await ask(server, { method: 'POST', path, headers }, Buffer.from(JSON.stringify(object)))
  if (answer.code >= 300) throw new Error(`${server.name}: POST ${path}: ${answer.code} ${answer.body.toString()}`)
}

async function put(etcd: EtcdProcess, key: string, value: Buffer): Promise<void> {
  await etcd.call('kv/put', { key: base64(key), value: value.toString('base64') })
}

async function storedValue(etcd: EtcdProcess, key: string): Promise<Buffer> {
  const { kvs = [] } = (await etcd.call('kv/range', { key: base64(key) })) as { kvs?: { value: string }[] }
  return Buffer.from(kvs[0]?.value ?? '', 'base64')
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

await runMain(import.meta.url, main)
